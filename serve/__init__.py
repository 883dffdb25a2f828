"""Serving a SavedModel over TensorFlow Serving's REST API: an embedded server and a client.

The package imports nothing from ``nmt_keras``: the SavedModel is the contract between training and serving. A request
walks through it as

    bytes -> json_text (values) -> codec (tensors) -> servable (the graph) -> codec -> bytes

    status      canonical codes and the error every layer raises
    json_text   JSON text to Python values and back, by the rules of TensorFlow Serving's parser and writer
    values      JSON values as TensorFlow's types
    codec       predict requests to tensors, tensors to answers
    servable    one loaded version: its signatures, run by a session
    repository  the folder NAME/VERSION/: what is served, and in which state it is
    app         the routes
    server      ``python -m serve.server``
    client      ``python -m serve.client``

Only ``servable`` imports TensorFlow.
"""
