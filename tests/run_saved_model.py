"""Answers requests from SavedModels as TensorFlow Serving does, with TensorFlow alone.

stdin     a JSON list of {"folder": ..., "requests": [{"signature": ..., "text": ..., "dtype": "string"}]}; every input
          of the signature is fed the text; a character U+DC80 to U+DCFF of it is one raw byte (surrogateescape)
stdout    a JSON object: the libraries' versions, and for each folder a list of replies, either {"outputs": {name:
          {"shape": ..., "values": ...}}} or {"error": the exception's class, "message": ...}
"""

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

# Of tensorflow_text, whose package imports Keras, only the kernels that an export may use.
TEXT_KERNELS = ("_normalize_ops", "_sentencepiece_tokenizer")


def load_text_kernels():
    """Registers the kernels of tensorflow_text that TensorFlow Serving links, without importing the package."""
    (package,) = importlib.util.find_spec("tensorflow_text").submodule_search_locations
    for name in TEXT_KERNELS:
        tf.load_op_library(str(Path(package) / "python" / "ops" / f"{name}.so"))


def answers(folder, requests):
    """The replies of one SavedModel."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        return [answer(session, loaded.signature_def, **request) for request in requests]


def answer(session, signatures, signature, text, dtype):
    """The reply to one request."""
    inputs, outputs = signatures[signature].inputs, signatures[signature].outputs
    fed = np.array(encoded(text), object) if dtype == "string" else np.array(text, dtype)

    def end(info):
        return session.graph.get_tensor_by_name(info.name)._as_tf_output()

    try:
        # Session.run would compare the feed with its placeholder first; the C API that it calls feeds whatever came,
        # and so does TensorFlow Serving.
        feeds, fetches = {end(info): fed for info in inputs.values()}, [end(info) for info in outputs.values()]
        values = session._call_tf_sessionrun(None, feeds, fetches, [], None)
    except tf.errors.OpError as error:
        return {"error": type(error).__name__, "message": error.message}
    return {
        "outputs": {
            name: {"shape": value.shape, "values": decoded(value.tolist())}
            for name, value in zip(outputs, values, strict=True)
        }
    }


def encoded(text):
    """A nest of strings as one of bytes."""
    return [encoded(x) for x in text] if isinstance(text, list) else text.encode("utf-8", "surrogateescape")


def decoded(values):
    """A nest of values, with strings for bytes; raises UnicodeDecodeError where they are no UTF-8."""
    if isinstance(values, list):
        return [decoded(x) for x in values]
    return values.decode("utf-8") if isinstance(values, bytes) else values


if __name__ == "__main__":
    load_text_kernels()
    replies = [answers(**job) for job in json.load(sys.stdin)]
    libraries = {name: importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-text")}
    json.dump({"libraries": libraries, "replies": replies}, sys.stdout)
