"""Layers: the equations of the papers, one module for each kind."""
