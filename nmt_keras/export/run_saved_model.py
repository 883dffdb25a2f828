"""Answers requests from SavedModels as TensorFlow Serving does, with TensorFlow alone; a script, not to be imported.

stdin     {"folders": [...], "requests": [{"signature": ..., "feeds": [text, ...], "dtype": "string"}, ...]}
          The feeds of a request are asked at once, each from a thread of its own; every input of the signature is fed
          the text. A character U+DC80 to U+DCFF is one raw byte (surrogateescape).
stdout    a JSON document per line, as soon as it is known: the libraries' versions; then for each folder what it holds
          (see ``facts``), and for each request the list of its replies: {"outputs": {name: {"shape": ..., "values":
          ...}}}, or {"error": the exception's class, "message": ...}
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

# Of tensorflow_text, whose package imports Keras, only the kernels that an export may use.
TEXT_KERNELS = ("_normalize_ops", "_sentencepiece_tokenizer")
INITIALISERS = ("__saved_model_init_op", "__saved_model_train_op")
"""Names in the table of signatures that stand for none."""


def load_text_kernels() -> None:
    """Registers the kernels of tensorflow_text that TensorFlow Serving links, without importing the package."""
    spec = importlib.util.find_spec("tensorflow_text")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("this Python has no tensorflow-text: install the version of its TensorFlow")
    (package,) = spec.submodule_search_locations
    for name in TEXT_KERNELS:
        tf.load_op_library(str(Path(package) / "python" / "ops" / f"{name}.so"))


def facts(session: tf.compat.v1.Session, loaded: Any) -> dict[str, Any]:
    """What the meta graph ``loaded`` holds: signatures, operations, devices, what is compiled, what has no value."""
    graph = loaded.graph_def
    functions = graph.library.function
    nodes = [*graph.node, *(node for function in functions for node in function.node_def)]
    operations = {node.op for node in nodes} - {function.signature.name for function in functions}
    attributes = [(x.name, x.attr) for x in nodes] + [(f.signature.name, f.attr) for f in functions]
    return {
        "signatures": {
            name: {"inputs": described(definition.inputs), "outputs": described(definition.outputs)}
            for name, definition in loaded.signature_def.items()
            if name not in INITIALISERS
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
        "uninitialised": [node.name for node in graph.node if not is_initialised(session, node)],
    }


def described(ends: Mapping[str, Any]) -> dict[str, Any]:
    """Types and shapes of a signature's inputs or outputs; -1 is a dimension of any size, a shape null of any rank."""
    return {
        name: {
            "dtype": tf.as_dtype(info.dtype).name,
            "shape": None if info.tensor_shape.unknown_rank else [dim.size for dim in info.tensor_shape.dim],
        }
        for name, info in ends.items()
    }


def is_initialised(session: tf.compat.v1.Session, node: Any) -> bool:
    """Whether a node is no variable and no table, or one with a value."""
    with session.graph.as_default():
        if node.op == "VarHandleOp":
            handle = session.graph.get_tensor_by_name(f"{node.name}:0")
            return bool(session.run(tf.raw_ops.VarIsInitializedOp(resource=handle)))
        if node.op in ("HashTableV2", "MutableHashTableV2"):
            table = session.graph.get_tensor_by_name(f"{node.name}:0")
            try:
                session.run(tf.raw_ops.LookupTableSizeV2(table_handle=table))
            except tf.errors.FailedPreconditionError:
                return False
    return True


def answer(session: tf.compat.v1.Session, loaded: Any, request: Mapping[str, Any], text: Any) -> dict[str, Any]:
    """The reply to one feed of a request."""
    if request["signature"] not in loaded.signature_def:
        return {"error": "KeyError", "message": f"there is no signature {request['signature']}"}
    inputs, outputs = (getattr(loaded.signature_def[request["signature"]], ends) for ends in ("inputs", "outputs"))
    fed = np.array(encoded(text), object) if request["dtype"] == "string" else np.array(text, request["dtype"])

    def end(info: Any) -> Any:
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


def encoded(text: Any) -> Any:
    """A nest of strings as one of bytes."""
    return [encoded(x) for x in text] if isinstance(text, list) else text.encode("utf-8", "surrogateescape")


def decoded(values: Any) -> Any:
    """A nest of values, with strings for bytes; a byte that is no UTF-8 becomes a character U+DC80 to U+DCFF."""
    if isinstance(values, list):
        return [decoded(x) for x in values]
    return values.decode("utf-8", "surrogateescape") if isinstance(values, bytes) else values


def say(document: Any) -> None:
    """Writes one line."""
    print(json.dumps(document), flush=True)


def run(folder: str, requests: Sequence[Mapping[str, Any]]) -> None:
    """Says what one SavedModel holds and what it replies."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session, session.graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        say(facts(session, loaded))
        for request in requests:
            with ThreadPoolExecutor(len(request["feeds"])) as threads:
                replies = [threads.submit(answer, session, loaded, request, text) for text in request["feeds"]]
            say([reply.result() for reply in replies])


if __name__ == "__main__":
    load_text_kernels()
    say({name: importlib.metadata.version(name) for name in ("tensorflow", "tensorflow-text")})
    job = json.load(sys.stdin)
    for one in job["folders"]:
        run(one, job["requests"])
