"""Signatures of a SavedModel, called without a server."""

import numpy as np
import tensorflow as tf

from serve.models.servable import load_servable


class Copier(tf.Module):
    """Returns its text and the length of it."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        return {"copy": tf.identity(text), "length": tf.strings.length(text)}


def test_a_signature_returns_all_its_outputs(tmp_path):
    copier = Copier()
    tf.saved_model.save(copier, tmp_path, {"serving_default": copier.__call__})
    servable = load_servable(tmp_path)
    signature, inputs = servable.signature(""), {"text": np.array([b"ab"], object)}
    assert servable.run(signature, inputs, 10) == {"copy": [b"ab"], "length": [2]}
