"""Export: writes a translator as a numbered SavedModel version for TensorFlow Serving.

contract         names, types, shapes and meanings of the signatures
signatures       functions of the signatures
micro_batching   concurrent requests as one batch
resources        weights in full or half precision, tables and tokenizers
warmup, card     files beside the graph
versions         folders of versions, written and deleted atomically
writing          ``export``
loading          ``load_exported``
rebuilding       a translator of layers, built from the assets of a version; imports the models
verification     ``verify``
"""

from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.loading import load_exported
from nmt_keras.export.verification import verify
from nmt_keras.export.versions import prune
from nmt_keras.export.writing import PLAIN, export
from nmt_keras.manifest import BEAM_SIZE, read_manifest, serving_search, versions

__all__ = [
    "BEAM_SIZE",
    "CONTRACT",
    "PLAIN",
    "export",
    "load_exported",
    "prune",
    "read_manifest",
    "serving_search",
    "verify",
    "versions",
]
