"""The REST API: TensorFlow Serving's routes, JSON rows and columns, and the page."""
