"""Script of ``fresh_process``. Like TensorFlow Serving, it answers requests with a SavedModel, without Keras.

stdin     {"folder": ..., "requests": [{"signature": ..., "feeds": [text, ...], "dtype": "string"}, ...]}
          A feed is one value, passed to every input of the signature. The feeds of a request are sent at the same time,
          each from its own thread. A character U+DC80 to U+DCFF is one raw byte (surrogateescape).
stdout    One JSON document per line, as soon as it is available: the versions of the libraries, the facts (see
          ``facts``), and for each request the list of replies, {"outputs": {name: {"shape": ..., "values": ...}}} or
          {"error": class of the exception, "message": ...}.
"""

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def load_text_kernels() -> None:
    """Registers the kernels of tensorflow_text that exports use, and that TensorFlow Serving contains.

    Importing the package would import Keras.
    """
    spec = importlib.util.find_spec("tensorflow_text")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("tensorflow-text is not installed. Install the version that matches TensorFlow.")
    (package,) = spec.submodule_search_locations
    for name in ("_normalize_ops", "_sentencepiece_tokenizer"):
        tf.load_op_library(str(Path(package) / "python" / "ops" / f"{name}.so"))


def facts(loaded: Any) -> dict[str, Any]:
    """Describes a meta graph: signature types, operations, devices and compiled functions."""
    graph = loaded.graph_def
    functions = graph.library.function
    nodes = [*graph.node, *(node for function in functions for node in function.node_def)]
    operations = {node.op for node in nodes} - {function.signature.name for function in functions}
    attributes = [(x.name, x.attr) for x in nodes] + [(f.signature.name, f.attr) for f in functions]
    return {
        "signatures": {
            f"{signature}, {kind} {name}": type_of(info)
            for signature, definition in loaded.signature_def.items()
            if not signature.startswith("__saved_model")  # an initialiser
            for kind, ends in (("input", definition.inputs), ("output", definition.outputs))
            for name, info in ends.items()
        },
        "operations": sorted(operations),
        "foreign": sorted(operation for operation in operations if not hasattr(tf.raw_ops, operation)),
        "devices": sorted({node.device for node in nodes} - {""}),
        "compiled": sorted(
            name
            for name, own in attributes
            for key, value in own.items()
            if "xla" in key.lower() and (value.b or value.s)
        ),
    }


def type_of(info: Any) -> str:
    """Returns the type of an input or output, such as float32[?,?]. Axes after the first are shown as "?"."""
    shape, dtype = info.tensor_shape, tf.as_dtype(info.dtype).name
    sizes = ["?" if at or dim.size == -1 else str(dim.size) for at, dim in enumerate(shape.dim)]
    return f"{dtype}[{','.join(sizes)}]"


def reply(session: tf.compat.v1.Session, loaded: Any, request: Mapping[str, Any], feed: Any) -> dict[str, Any]:
    """Returns the reply to one feed of a request."""
    definition = loaded.signature_def.get(request["signature"])
    if definition is None:
        return {"error": "KeyError", "message": f"no signature {request['signature']}"}
    fed = np.array(encoded(feed), object) if request["dtype"] == "string" else np.array(feed, request["dtype"])

    def end(info: Any) -> Any:
        return session.graph.get_tensor_by_name(info.name)._as_tf_output()

    try:
        # Session.run would first compare the feed with its placeholder. The C API accepts any feed, as TensorFlow
        # Serving does.
        feeds = {end(info): fed for info in definition.inputs.values()}
        fetches = [end(info) for info in definition.outputs.values()]
        values = session._call_tf_sessionrun(None, feeds, fetches, [], None)
    except tf.errors.OpError as error:
        return {"error": type(error).__name__, "message": error.message}
    named = zip(definition.outputs, values, strict=True)
    return {"outputs": {name: {"shape": value.shape, "values": decoded(value.tolist())} for name, value in named}}


def encoded(text: Any) -> Any:
    """Encodes nested lists of strings as bytes. U+DC80 to U+DCFF become raw bytes."""
    return [encoded(x) for x in text] if isinstance(text, list) else text.encode("utf-8", "surrogateescape")


def decoded(values: Any) -> Any:
    """Decodes nested lists with bytes to strings. A byte that is not UTF-8 becomes U+DC80 to U+DCFF."""
    if isinstance(values, list):
        return [decoded(x) for x in values]
    return values.decode("utf-8", "surrogateescape") if isinstance(values, bytes) else values


def say(document: Any) -> None:
    """Writes ``document`` as one line of JSON."""
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    load_text_kernels()
    say({name: importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-text")})
    job = json.load(sys.stdin)
    with tf.compat.v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], job["folder"])
        say(facts(loaded))
        for request in job["requests"]:
            with ThreadPoolExecutor(len(request["feeds"])) as threads:
                replies = [threads.submit(reply, session, loaded, request, feed) for feed in request["feeds"]]
            say([one.result() for one in replies])
