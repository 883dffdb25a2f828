"""Export: a translator as a numbered SavedModel version that TensorFlow Serving can load at any moment.

contract         the signatures: names, types, shapes, meanings
signatures       the functions behind them
micro_batching   concurrent requests as one batch
resources        weights, in full or half precision, tables and tokenizers
warmup, card     what lies beside the graph
versions         folders that appear and disappear whole
writing          all of these: ``export``
loading          an export as a translator
verification     whether an export is what it should be: ``verify``
"""

from __future__ import annotations

from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.loading import load_exported
from nmt_keras.export.signatures import BEAM_SIZE, serving_search
from nmt_keras.export.verification import Check, Verification, verify
from nmt_keras.export.versions import prune, read_manifest, versions
from nmt_keras.export.writing import PLAIN, export

__all__ = [
    "BEAM_SIZE",
    "CONTRACT",
    "PLAIN",
    "Check",
    "Verification",
    "export",
    "load_exported",
    "prune",
    "read_manifest",
    "serving_search",
    "verify",
    "versions",
]
