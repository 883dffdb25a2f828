"""The models: which versions are served, how they are loaded, and what they answer."""
