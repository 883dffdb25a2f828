"""A loaded version of a model, whose signatures run as in TensorFlow Serving."""

import contextlib
import functools
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict

from nmt_keras.io.files import literal

from .signature import SERVING_DEFAULT, Signature, Tensors, TensorSpec, shape_text
from .status import Code, StatusError, invalid


class Servable:
    """A SavedModel in its own graph and session. Threads may share it."""

    def __init__(self, session: tf.compat.v1.Session, signature_defs: Mapping[str, Any]) -> None:
        self._session = session
        self._signature_defs = signature_defs
        self.signatures = {name: _signature(definition) for name, definition in signature_defs.items()}

    def signature(self, name: str) -> Signature:
        """Returns the signature ``name``. The empty name means ``serving_default``."""
        name = name or SERVING_DEFAULT
        if name not in self.signatures:
            raise invalid(f'Serving signature name: "{name}" not found in signature def')
        return self.signatures[name]

    def run(self, signature: Signature, inputs: Tensors, seconds: float) -> Tensors:
        """Returns the outputs of ``signature`` for ``inputs``.

        Args:
            signature: A signature of this servable.
            inputs: An array for each input of the signature.
            seconds: Time limit of the graph in seconds.

        Raises:
            StatusError: INVALID_ARGUMENT for a shape that the signature does not declare (TensorFlow Serving would feed
                it to the graph); DEADLINE_EXCEEDED after ``seconds``; or the graph's own error.
        """
        for name, tensor in inputs.items():
            _require_shape(name, tensor.shape, signature.inputs[name].shape)
        feeds = {signature.inputs[name].tensor: tensor for name, tensor in inputs.items()}
        fetches = {name: spec.tensor for name, spec in signature.outputs.items()}
        options = tf.compat.v1.RunOptions(timeout_in_ms=max(1, round(1000 * seconds)))
        try:
            values = self._session.run(fetches, feeds, options=options)
        except tf.errors.OpError as error:
            raise _status_error(error) from error
        except ValueError as error:  # the graph's own placeholder refused a shape or a value
            raise invalid(str(error)) from error
        kinds = {name: object if spec.dtype == "string" else None for name, spec in signature.outputs.items()}
        return {name: np.asarray(values[name], kind) for name, kind in kinds.items()}

    @functools.cached_property
    def signature_definitions(self) -> dict[str, Any]:
        """Every SignatureDef in protocol buffers' JSON mapping, with original field names and with defaults."""
        return {
            name: MessageToDict(definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
            for name, definition in self._signature_defs.items()
        }

    def close(self) -> None:
        """Frees the session. No other method may run at the same time or later."""
        self._session.close()


# Loading


def load_servable(folder: Path) -> Servable:
    """Loads the SavedModel in ``folder`` with the tag ``serve`` into a new graph and session.

    A SavedModel is a program that runs with the server's rights: load only models from a source that you trust.

    Raises:
        StatusError: An error of TensorFlow, for example an unknown operation.
        Exception: Another error for a missing or damaged file. TensorFlow's loader raises errors of many types.
    """
    importlib.import_module("tensorflow_text")  # registers the SentencePiece operations that exports contain
    os.listdir(folder)  # TensorFlow takes a folder that cannot be read for a missing one
    session = tf.compat.v1.Session(graph=tf.Graph())
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(session.close)
        try:
            meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(literal(folder)))
            servable = Servable(session, meta_graph.signature_def)
            session.graph.finalize()
        except tf.errors.OpError as error:
            failed = _status_error(error)
            raise StatusError(failed.code, f"Could not load {folder}: {failed.message}") from error
        on_failure.pop_all()
    return servable


def _signature(definition: Any) -> Signature:
    return Signature(
        inputs={name: _spec(info) for name, info in definition.inputs.items()},
        outputs={name: _spec(info) for name, info in definition.outputs.items()},
    )


def _spec(info: Any) -> TensorSpec:
    enum = info.DESCRIPTOR.fields_by_name["dtype"].enum_type
    dtype = enum.values_by_number[info.dtype].name.removeprefix("DT_").lower()
    sizes = tuple(dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim)
    return TensorSpec(dtype, None if info.tensor_shape.unknown_rank else sizes, info.name)


# Arrays and errors


def _require_shape(name: str, shape: tuple[int, ...], declared: tuple[int | None, ...] | None) -> None:
    """Raises INVALID_ARGUMENT for a wrong shape, because some kernels crash the process for an unexpected rank."""
    if declared is not None and (
        len(shape) != len(declared) or any(d not in (None, s) for s, d in zip(shape, declared, strict=True))
    ):
        raise invalid(f"Shape of input {name}: expected {shape_text(declared)}, received {shape_text(shape)}")


def _status_error(error: tf.errors.OpError) -> StatusError:
    """Returns ``error`` with the runtime's own message, without the places in the source and in the graph."""
    original = error.__context__
    message = original.message if isinstance(original, tf.errors.OpError) else error.message
    return StatusError(Code(error.error_code), message.split("\n\t [[", 1)[0])
