"""Serving a SavedModel over TensorFlow Serving's APIs: an embedded server, a client, and the files of a deployment.

The package imports nothing from ``nmt_keras``: the SavedModel is the contract between training and serving. A wheel
installs it as ``nmt_keras_serve``. Inside, imports are relative. A request passes through

    bytes -> rest.app (route) -> core (queue) -> rest.json_text (values) -> rest.codec (tensors)
          -> models.servable (graph) -> rest.codec -> bytes

    models/        repository    versions that are loaded, and their states
                   servable      one loaded version: its signatures, run by a session
                   predict       PredictRequest messages answered by a version, for gRPC and warm-up
                   warmup        loads a version and answers the requests that it brings along
                   model_config  models to serve, with version policies and labels
                   versions, signature, status     the records that these share
    rest/          app           routes of the REST API, the metrics and the page
                   codec, values, json_text        JSON to tensors and back
                   http_protocol HTTP/1.1 with time limits
                   page          the files of web/
    rpc/           services      PredictionService and ModelService
    core           queue, deadline, and counts of a request, for both APIs
    limits, metrics, options, usage
    server         ``python -m serve.server``

    client/        ``python -m serve.client``
    bulk           ``python -m serve.bulk``: files of any size
    conformance/   ``python -m serve.conformance``: the checks that any such server has to pass
    web/           the page
    deploy/        Docker Compose, nginx, Kubernetes

Only ``models.servable``, ``models.predict``, ``models.warmup`` and ``rpc`` import TensorFlow. The server imports them
once it is sure to serve.
"""
