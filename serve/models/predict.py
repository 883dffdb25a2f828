"""Answers PredictRequest messages with a loaded version, for gRPC and for warm-up."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from ..limits import Limits, require_few_rows, require_few_values, require_text_size, require_within
from .signature import SERVING_DEFAULT, Signature, Tensors
from .status import Code, StatusError, invalid
from .versions import LoadedVersion

METHODS = tuple(f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))
"""Method names of the signatures that a predict request may call."""

Running = Callable[[], AbstractContextManager[float]]
"""Context around the graph. It yields the time limit of the graph in seconds."""

_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int32": "int_val",
    "int16": "int_val",
    "int8": "int_val",
    "uint8": "int_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "object": "string_val",
}
"""Mapping from NumPy type to TensorProto field. TensorFlow Serving fills these fields instead of tensor_content."""

MAX_RANK = 254
"""Maximum rank of a tensor in TensorFlow."""

_UNSENDABLE = ("resource", "variant")
"""Types whose values exist only inside a process."""


def predict(loaded: LoadedVersion, request: PredictRequest, limits: Limits, running: Running) -> PredictResponse:
    """Returns the answer to ``request``.

    Raises:
        StatusError: FAILED_PRECONDITION for an unknown signature; INVALID_ARGUMENT for inputs and outputs that do not
            fit it; INTERNAL for a signature that cannot be called; or an error of the graph.
    """
    name = request.model_spec.signature_name or SERVING_DEFAULT
    if name not in loaded.servable.signatures:
        raise StatusError(Code.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
    signature = loaded.servable.signatures[name]
    _require_callable(signature)
    inputs = _read_inputs(request.inputs, signature, limits)
    wanted = _wanted_outputs(request.output_filter, signature)
    with running() as seconds:
        outputs = loaded.servable.run(signature, inputs, seconds, wanted)
    require_few_values(limits, outputs)
    response = PredictResponse(model_spec=_model_spec(loaded, name))
    for alias, tensor in outputs.items():
        response.outputs[alias].CopyFrom(tensor_proto(tensor))
    return response


# Messages to arrays


def _require_callable(signature: Signature) -> None:
    """Raises INTERNAL for the signature that initialises the model. It has no method name."""
    if signature.method_name not in METHODS:
        expected = f"to be one of {{{', '.join(METHODS)}}}. Was: {signature.method_name}"
        raise StatusError(Code.INTERNAL, f"Expected prediction signature method_name {expected}")


def _read_inputs(protos: Mapping[str, TensorProto], signature: Signature, limits: Limits) -> Tensors:
    expected = signature.inputs.keys()
    if len(protos) != len(expected):
        raise invalid(f"input size does not match signature: {len(protos)}!={len(expected)} for {_set(expected)}")
    for alias, proto in protos.items():
        if len(proto.tensor_shape.dim) > MAX_RANK:
            raise invalid(f"tensor parsing error: {alias}")
    values = sum(_elements(proto) for proto in protos.values())
    if values > limits.max_values:
        raise invalid(f"The request has {values} values, more than {limits.max_values} (--max-values)")
    tensors = {}
    for index, (alias, proto) in enumerate(sorted(protos.items())):
        if alias not in expected:
            choices = f"Inputs expected to be in the set {_set(expected)}."
            raise invalid(f"input tensor alias not found in signature: {alias}. {choices}")
        tensors[alias] = _read_tensor(alias, index, proto, signature.inputs[alias].dtype, limits)
        require_within(limits, alias, tensors[alias])
    return tensors


def _read_tensor(alias: str, index: int, proto: TensorProto, dtype: str, limits: Limits) -> np.ndarray:
    """Returns the array in ``proto``.

    The limits are checked before TensorFlow parses the values, because a short message can claim a shape that would
    fill the memory.

    Raises:
        StatusError: INVALID_ARGUMENT for a type other than ``dtype``, for values that do not fit the shape, and beyond
            ``limits``.
    """
    if proto.dtype not in types_pb2.DataType.values():
        raise invalid(f"tensor parsing error: {alias}")
    received = _type_name(proto.dtype)
    if received != dtype:
        raise invalid(f"Expects arg[{index}] to be {dtype} but {received} is provided")
    if dtype in _UNSENDABLE:
        raise StatusError(Code.UNIMPLEMENTED, f"Input {alias} is of type {dtype}, which cannot be sent")
    if any(dim.size < 0 for dim in proto.tensor_shape.dim):  # TensorFlow refuses it too, but never frees its strings
        raise invalid(f"tensor parsing error: {alias}")
    if proto.tensor_shape.dim:
        require_few_rows(limits, alias, proto.tensor_shape.dim[0].size)
    if proto.string_val:
        sizes = [len(text) for text in proto.string_val]
        require_text_size(limits, alias, max(sizes))
        size = sum(sizes) + (_elements(proto) - len(sizes)) * sizes[-1]  # copies of the last string fill the shape
        if size > limits.max_unpacked_bytes:
            reason = f"{size} bytes, more than {limits.max_unpacked_bytes}"
            raise invalid(f"Input {alias} has {reason} (--max-unpacked-bytes)")
    try:
        value = tf.io.parse_tensor(proto.SerializeToString(), proto.dtype).numpy()
    except (tf.errors.OpError, TypeError, ValueError) as error:
        raise invalid(f"tensor parsing error: {alias}") from error
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)


def _elements(proto: TensorProto) -> int:
    """Returns the number of values in the shape of ``proto``, at most ``sys.maxsize``. Negative sizes fail later.

    The exact product can have more digits than Python converts to a string.
    """
    return min(max(0, math.prod(dim.size for dim in proto.tensor_shape.dim)), sys.maxsize)


def _wanted_outputs(aliases: Sequence[str], signature: Signature) -> list[str]:
    for alias in aliases:
        if alias not in signature.outputs:
            expected = f"Outputs expected to be in the set {_set(signature.outputs)}."
            raise invalid(f"output tensor alias not found in signature: {alias} {expected}")
        if list(aliases).count(alias) > 1:
            raise invalid(f"duplicate output tensor alias: {alias}")
    return list(aliases)


def _set(names: Iterable[str]) -> str:
    return f"{{{','.join(sorted(names))}}}"


def _type_name(dtype: int) -> str:
    return types_pb2.DataType.Name(dtype).removeprefix("DT_").lower()


# Arrays to messages


def tensor_proto(array: np.ndarray) -> TensorProto:
    """Returns ``array`` in the fields that TensorFlow Serving fills. Some clients read only these fields."""
    field = _FIELDS.get(array.dtype.name)
    if field is None:
        return tf.make_tensor_proto(array)
    proto = TensorProto(dtype=tf.as_dtype(array.dtype).as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, field).extend(array.ravel().tolist())
    return proto


def _model_spec(loaded: LoadedVersion, signature_name: str) -> ModelSpec:
    spec = ModelSpec(name=loaded.name, signature_name=signature_name)
    spec.version.value = loaded.version
    return spec
