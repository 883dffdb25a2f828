"""Requests over gRPC: TensorFlow Serving's PredictionService and ModelService."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import numpy as np

from ..models.status import Code
from .answers import ClientError, Columns, ModelSpec, Unavailable, VersionStatus
from .messages import MESSAGES, STATES

BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
TOO_LARGE = "message larger than max"
"""Words that gRPC adds to RESOURCE_EXHAUSTED if a message is too large. Another attempt would also fail."""

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Maximum bytes of an answer. Alignments can be far larger than gRPC's default limit of 4 MB."""

MAX_VALUES = MAX_MESSAGE_BYTES // 4
"""Maximum number of values of a tensor: as many floats as a message holds. Without this limit, a short message could
claim a shape that fills the memory."""

STRING = 7  # DT_STRING
_STORES = {
    1: ("float_val", np.float32),
    3: ("int_val", np.int32),
    STRING: ("string_val", object),
    9: ("int64_val", np.int64),
    10: ("bool_val", np.bool_),
}
"""Mapping from DataType to the field of its values and NumPy's type."""


class GrpcConnection:
    """A gRPC channel to a model. Threads may share it.

    Args:
        url: ``grpc://HOST:PORT``, or ``grpcs://HOST:PORT`` with TLS.
        model: The model.
        timeout: Time limit of a whole answer in seconds.
        ca_file: PEM file of the certificates that signed the server's certificate. `None` uses those of the system.
    """

    def __init__(self, url: str, model: ModelSpec, timeout: float, ca_file: Path | None = None) -> None:
        self._url = url
        self._model = model
        self._timeout = timeout
        self._channel = open_channel(url, ca_file)
        self._predict = self._method("PredictionService", "Predict", "PredictResponse")
        self._get_status = self._method("ModelService", "GetModelStatus", "GetModelStatusResponse")

    def predict(self, signature: str, inputs: Mapping[str, list[str]]) -> Columns:
        """Returns the outputs of ``signature``. ``inputs`` maps each input to its list of values."""
        request = MESSAGES["PredictRequest"](model_spec=_model_spec(self._model, signature))
        for name, texts in inputs.items():
            request.inputs.add(key=name, value=string_tensor(texts))
        answer = self._call(self._predict, request)
        return {entry.key: values(entry.value) for entry in answer.outputs}

    def status(self) -> list[VersionStatus]:
        """Returns the states of the model's versions, newest first."""
        request = MESSAGES["GetModelStatusRequest"](model_spec=_model_spec(self._model))
        answer = self._call(self._get_status, request)
        found = [
            VersionStatus(
                status.version,
                STATES.get(status.state, str(status.state)),
                Code(status.status.error_code).name,
                status.status.error_message,
            )
            for status in answer.model_version_status
        ]
        return sorted(found, reverse=True)

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    def _method(self, service: str, name: str, answer: str) -> grpc.UnaryUnaryMultiCallable:
        return self._channel.unary_unary(
            f"/tensorflow.serving.{service}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=MESSAGES[answer].FromString,
        )

    def _call(self, method: grpc.UnaryUnaryMultiCallable, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code, details = error.code(), " ".join((error.details() or "").split())
            message = f"{self._url} answered {code.name}: {details}"
            if code is grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE in details:
                raise ClientError(f"{message}. Send fewer sentences at a time.") from error
            if code in BUSY:
                raise Unavailable(message) from error
            if code is grpc.StatusCode.NOT_FOUND:
                raise ClientError(f"{self._url} does not serve model {self._model.name!r} ({details}).") from error
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise ClientError(
                    f"{self._url} did not answer in time. Send less text, or raise the timeout."
                ) from error
            raise ClientError(message) from error


def open_channel(url: str, ca_file: Path | None = None) -> grpc.Channel:
    """Returns a channel to ``grpc://HOST:PORT`` or ``grpcs://HOST:PORT``; see ``GrpcConnection``."""
    parts = urlsplit(url)
    options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
    if parts.hostname in ("localhost", "127.0.0.1", "::1"):
        options.append(("grpc.enable_http_proxy", 0))
    if parts.scheme == "grpc":
        return grpc.insecure_channel(parts.netloc, options)
    roots = None if ca_file is None else ca_file.read_bytes()
    return grpc.secure_channel(parts.netloc, grpc.ssl_channel_credentials(roots), options)


def string_tensor(texts: list[str]) -> Any:
    """Returns a TensorProto [len(texts)] of strings."""
    shape = MESSAGES["TensorShapeProto"](dim=[{"size": len(texts)}])
    return MESSAGES["TensorProto"](dtype=STRING, tensor_shape=shape, string_val=[text.encode() for text in texts])


def values(tensor: Any) -> Any:
    """Returns the values of a TensorProto as nested lists, with decoded strings.

    Values are raw little-endian bytes in ``tensor_content``, or stored in the field of their type. If the field has
    fewer values than the shape, its last value is repeated.

    Raises:
        ClientError: No output of a translation model has this type, or the values do not fit the shape.
    """
    if tensor.dtype not in _STORES:
        raise ClientError(
            f"The answer holds a tensor of DataType {tensor.dtype}. Is this the export of a translation model?"
        )
    field, dtype = _STORES[tensor.dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    try:
        if min(shape, default=0) < 0 or math.prod(max(1, dim) for dim in shape) > MAX_VALUES:
            raise ValueError("no such tensor")
        if tensor.tensor_content:
            flat = np.frombuffer(tensor.tensor_content, np.dtype(dtype).newbyteorder("<"))
        else:
            stored = list(getattr(tensor, field))
            if tensor.dtype == STRING:
                stored = [value.decode("utf-8", "replace") for value in stored]
            flat = np.array(stored + stored[-1:] * (math.prod(shape) - len(stored)), dtype)
        return flat.reshape(shape).tolist()
    except ValueError as error:
        raise ClientError(
            f"The answer holds a tensor whose values do not fit its shape {shape[:9]}. Is this TensorFlow Serving?"
        ) from error


def _model_spec(model: ModelSpec, signature: str = "") -> Any:
    message = MESSAGES["ModelSpec"](name=model.name, signature_name=signature)
    if model.version is not None:
        message.version.value = model.version
    elif model.label is not None:
        message.version_label = model.label
    return message
