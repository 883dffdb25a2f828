"""The translator in one HTML file."""
