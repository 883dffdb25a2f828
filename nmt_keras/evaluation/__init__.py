"""Evaluation: metrics, reports and comparisons of systems."""
