"""Run directories: creating, training, resuming, averaging and loading them."""
