"""Apache Beam pipelines for corpora that are too large for one machine.

    translation   bulk translation with an exported model
    preparing     text to shards of token ids, for training

Install with ``pip install "nmt-keras-attention[beam]"``, then run ``python -m nmt_keras.pipelines --help``. For files
that one machine can translate, use ``nmt translate`` or ``python -m nmt_keras_serve.client``.
"""

import os


def absolute(path: str) -> str:
    """Returns an absolute path, for use on all workers. A path with a scheme, such as gs://, is returned unchanged."""
    return path if "://" in path else os.path.abspath(path)
