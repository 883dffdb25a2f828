"""Signatures of a SavedModel, called without a server."""

import numpy as np
import tensorflow as tf

from serve.models.servable import load_servable


class Counter(tf.Module):
    """Counts how often its output ``count`` is computed."""

    def __init__(self):
        super().__init__()
        self.calls = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        return {"copy": tf.identity(text), "count": self.calls.assign_add(1)}


def test_all_outputs_are_computed_whichever_are_requested(tmp_path):
    """TensorFlow keeps a copy of the graph for each combination of fetched outputs, so clients must not choose it."""
    counter = Counter()
    tf.saved_model.save(counter, tmp_path, {"serving_default": counter.__call__})
    servable = load_servable(tmp_path)
    signature, inputs = servable.signature(""), {"text": np.array([b"a"], object)}
    assert servable.run(signature, inputs, 10, ["copy"]).keys() == {"copy"}
    assert servable.run(signature, inputs, 10).keys() == {"copy", "count"}
    assert servable.run(signature, inputs, 10, ["count"])["count"] == 3
