"""Warm-up requests, which a server runs while it loads a version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from nmt_keras.export.contract import CONTRACT
from nmt_keras.manifest import EXTRA

if TYPE_CHECKING:
    from nmt_keras.text import Tokenizer

WARMUP = Path(EXTRA) / "tf_serving_warmup_requests"
"""The path that TensorFlow Serving and the embedded server read."""

LARGE = 16
"""Number of sentences in the large request."""


def write_warmup_requests(version_folder: Path, source_tokenizer: Tokenizer, model_name: str) -> None:
    """Writes two requests for each signature: one with a short sentence, one with ``LARGE`` sentences.

    The first request creates the executor and allocates memory. Nothing is compiled per shape, so two sizes suffice.

    Args:
        version_folder: The version that is being exported.
        source_tokenizer: Tokenizer whose vocabulary provides the words.
        model_name: Name of the model on a server.
    """
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    sentences = example_sentences(source_tokenizer)
    with tf.io.TFRecordWriter(str(version_folder / WARMUP)) as file:
        for signature, declared in CONTRACT.items():
            for batch in (sentences[:1], sentences):
                log = PredictionLog()
                request = log.predict_log.request
                request.model_spec.name, request.model_spec.signature_name = model_name, signature
                for name in declared.inputs:
                    request.inputs[name].CopyFrom(tf.make_tensor_proto(batch, tf.string))
                file.write(log.SerializeToString())


def example_sentences(tokenizer: Tokenizer) -> list[bytes]:
    """Returns ``LARGE`` sentences of 1, 2, ... vocabulary entries."""
    # From the second half: a subword vocabulary begins with single bytes.
    entries = np.linspace(tokenizer.vocabulary_size // 2, tokenizer.vocabulary_size - 1, LARGE).astype(np.int32)
    return list(tokenizer.decode(tf.tile([entries], [LARGE, 1]), tf.range(1, LARGE + 1)).numpy())
