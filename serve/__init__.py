"""Serves SavedModels over TensorFlow Serving's REST API: an embedded server, a client, and deployment files.

The package imports only ``nmt_keras.io`` of nmt_keras, because the SavedModel is the contract between training and
serving. Import it as ``nmt_keras_serve``, its installed name. Imports inside the package are relative. The path of a
request is

    bytes -> rest.app (route) -> core (queue) -> rest.json_text (values) -> rest.codec (tensors)
          -> models.servable (graph) -> rest.codec -> bytes

    models/        repository    loaded versions and their states
                   servable      one loaded version: its signatures, run by a session
                   warmup        loads a version and runs its warm-up requests
                   model_config  served models, with version policies and labels
                   signature, status     records shared by these modules
    rest/          app           routes of the REST API, the metrics and the page
                   codec, values, json_text        JSON to tensors and back
                   http_protocol uvicorn's HTTP/1.1 with limits of time and connections
                   page          files of web/
    core           queue, deadline and counts of requests
    limits         limits of requests
    metrics        metrics for Prometheus
    options        options of the server
    server         ``python -m nmt_keras_serve.server``

    client/        ``python -m nmt_keras_serve.client``
    conformance/   ``python -m nmt_keras_serve.conformance``: checks of any server with this API
    web/           the page
    deploy/        Docker Compose, nginx, Kubernetes

Only ``models.servable`` and ``models.warmup`` import TensorFlow. The server imports them after it has checked its
options.
"""
