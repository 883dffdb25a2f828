"""Classification and regression: graphs that read ``tf.train.Example`` records, which no translation model does.

TensorFlow Serving answers these for models made by ``tf.compat.v1``'s signature builders; for any other, this is where
the request learns that its signature is of another kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from serve.examples import Classifications, Example, Kind
from serve.servable import Servable, Signature, shape_text
from serve.status import Code, StatusError, invalid
from serve.values import SERVING_DEFAULT

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
INPUT = "inputs"


def find_signature(servable: Servable, name: str) -> Signature:
    """The signature called ``name``, in the words that these methods have for one that is missing."""
    name = name or SERVING_DEFAULT
    if name not in servable.signatures:
        raise invalid(f"No signature was found with the name: {name}")
    return servable.signatures[name]


def serialized(context: Example, examples: Sequence[Example]) -> np.ndarray:
    """Each of ``examples`` [N] as a serialized ``tf.train.Example``; its own features win over ``context``'s."""
    common = _serialized(context)
    return as_inputs([common + _serialized(example) for example in examples])


def as_inputs(records: Sequence[bytes]) -> np.ndarray:
    """Serialized examples as what graphs are fed."""
    if not records:
        raise invalid("Input is empty.")
    array = np.empty(len(records), object)
    array[:] = records
    return array


def classify(servable: Servable, signature: Signature, examples: np.ndarray, seconds: float) -> Classifications:
    """The classes and scores of serialized ``examples`` [N].

    Raises:
        StatusError: INVALID_ARGUMENT or FAILED_PRECONDITION if the model is no classifier; and what its graph raises.
    """
    outputs = servable.run(signature, {INPUT: examples}, seconds, classification_outputs(signature))
    if "classes" in outputs:
        _require_matrix("classes", outputs["classes"], tf.string, len(examples))
    if "scores" in outputs:
        _require_matrix("scores", outputs["scores"], tf.float32, len(examples))
    if len(outputs) == 2 and outputs["classes"].shape != outputs["scores"].shape:
        widths = f"{outputs['classes'].shape[1]} vs. {outputs['scores'].shape[1]}"
        raise invalid(f"Tensors class and score should match in dim_size(1). Got {widths}")
    return Classifications(outputs.get("classes"), outputs.get("scores"))


def classification_outputs(signature: Signature) -> list[str]:
    """``classes``, ``scores`` or both, as far as ``signature``, which must be a classification's, has them."""
    _require_method(signature, "classification", CLASSIFY)
    _require_one_input(signature, "classification")
    if len(signature.outputs) not in (1, 2):
        raise invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    names = [name for name in ("classes", "scores") if name in signature.outputs]
    if not names:
        reason = 'Expected classification signature outputs to contain at least one of "classes" or "scores".'
        raise StatusError(Code.FAILED_PRECONDITION, f"{reason} It has: {', '.join(sorted(signature.outputs))}")
    return names


def regress(servable: Servable, signature: Signature, examples: np.ndarray, seconds: float) -> np.ndarray:
    """The values [N] float32 of serialized ``examples`` [N].

    Raises:
        StatusError: INVALID_ARGUMENT or FAILED_PRECONDITION if the model is no regressor; and what its graph raises.
    """
    require_regression(signature)
    values = servable.run(signature, {INPUT: examples}, seconds)["outputs"]
    if not (values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)):
        shape = f"[batch_size, 1] but got {shape_text(values.shape)}"
        raise invalid(f"Expected output Tensor shape to be either [batch_size] or {shape}")
    if len(values) != len(examples):
        raise invalid(f"Input batch size did not match output batch size: {len(examples)} vs. {len(values)}")
    if values.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {_type_text(values.dtype)}")
    return values.reshape(-1)


def require_regression(signature: Signature) -> None:
    """Raises unless ``signature`` is a regression's."""
    _require_method(signature, "regression", REGRESS)
    _require_one_input(signature, "regression")
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    if "outputs" not in signature.outputs:
        raise StatusError(Code.FAILED_PRECONDITION, "No regression outputs found in SignatureDef")


def _serialized(example: Example) -> bytes:
    record = tf.train.Example()
    for name, (kind, values) in example.items():
        try:
            feature = record.features.feature[name]
        except UnicodeEncodeError as error:
            raise invalid("Feature names: expected UTF-8, received a name with other bytes") from error
        if kind is Kind.BYTES:
            feature.bytes_list.value.extend(values)
        elif kind is Kind.FLOAT:
            feature.float_list.value.extend(values)
        elif kind is Kind.INT64:
            feature.int64_list.value.extend(values)
    return record.SerializeToString()


def _require_method(signature: Signature, kind: str, method: str) -> None:
    if signature.method_name != method:
        raise invalid(f"Expected {kind} signature method_name to be {method}. Was: {signature.method_name}")


def _require_one_input(signature: Signature, kind: str) -> None:
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if INPUT not in signature.inputs:
        raise StatusError(Code.FAILED_PRECONDITION, f"No {kind} inputs found in SignatureDef")


def _require_matrix(name: str, tensor: np.ndarray, dtype: tf.DType, rows: int) -> None:
    if tensor.ndim != 2:
        raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(tensor.shape)}")
    if tf.as_dtype(tensor.dtype) != dtype:
        raise invalid(f"Expected {name} Tensor of {_type_text(dtype)}. Got: {_type_text(tensor.dtype)}")
    if len(tensor) != rows:
        raise invalid(f"Expected {name} output batch size of {rows}. Got: {len(tensor)}")


def _type_text(dtype: np.dtype | tf.DType) -> str:
    return types_pb2.DataType.Name(tf.as_dtype(dtype).as_datatype_enum)
