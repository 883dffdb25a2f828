"""Warm-up requests: what a server answers before the first client's request, which would else wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.versions import EXTRA
from nmt_keras.text import Tokenizer

WARMUP = Path(EXTRA) / "tf_serving_warmup_requests"
"""Where TensorFlow Serving and the embedded server look for them."""

LARGE = 16
"""Sentences of the large request, of 1 to as many tokens."""


def write_warmup_requests(version_folder: Path, source_tokenizer: Tokenizer, model_name: str) -> None:
    """Writes two requests for each signature, of one short sentence and of ``LARGE``, up to that many tokens long.

    A first request makes the executor and takes the memory that later ones find; nothing is compiled for a shape, so
    two sizes are enough.

    Args:
        version_folder: what is being exported.
        source_tokenizer: whose vocabulary the sentences are made of.
        model_name: under which a server will hold the version.
    """
    sentences = _sentences(source_tokenizer)
    with tf.io.TFRecordWriter(str(version_folder / WARMUP)) as file:
        for signature in CONTRACT:
            for batch in (sentences[:1], sentences):
                file.write(_log(model_name, signature, batch).SerializeToString())


def _sentences(text: Tokenizer) -> list[bytes]:
    """``LARGE`` sentences, of the first 1, 2, ... of as many entries of the vocabulary in a row."""
    # From the second half: a subword vocabulary begins with single bytes.
    entries = np.linspace(text.vocabulary_size // 2, text.vocabulary_size - 1, LARGE).astype(np.int32)
    return list(text.decode(tf.tile([entries], [LARGE, 1]), tf.range(1, LARGE + 1)).numpy())


def _log(model_name: str, signature: str, sentences: Sequence[bytes]) -> PredictionLog:
    """The record of a request for ``signature`` whose every input is ``sentences``."""
    request = PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model_name, signature
    for name in CONTRACT[signature].inputs:
        request.inputs[name].CopyFrom(tf.make_tensor_proto(list(sentences), tf.string))
    return PredictionLog(predict_log=PredictLog(request=request))
