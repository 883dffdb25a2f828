"""Signatures of a SavedModel, called without a server."""

import numpy as np
import tensorflow as tf

from serve.models.servable import load_servable


class Copier(tf.Module):
    """Returns its text and the length of it."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def __call__(self, text):
        return {"copy": tf.identity(text), "length": tf.strings.length(text)}


def test_every_request_fetches_the_same_outputs(tmp_path, monkeypatch):
    """TensorFlow keeps a copy of the graph for each combination of fetched outputs, so clients must not choose it."""
    copier = Copier()
    tf.saved_model.save(copier, tmp_path, {"serving_default": copier.__call__})
    servable = load_servable(tmp_path)
    fetched = []
    run = tf.compat.v1.Session.run
    monkeypatch.setattr(
        tf.compat.v1.Session,
        "run",
        lambda self, fetches, *rest, **more: (fetched.append(fetches), run(self, fetches, *rest, **more))[1],
    )
    signature, inputs = servable.signature(""), {"text": np.array([b"ab"], object)}
    assert servable.run(signature, inputs, 10, ["copy"]) == {"copy": [b"ab"]}
    assert servable.run(signature, inputs, 10, ["length"]) == {"length": [2]}
    assert servable.run(signature, inputs, 10).keys() == {"copy", "length"}
    assert fetched[0] == fetched[1] == fetched[2]
