"""Checks of gRPC: PredictionService and ModelService, their status codes and error messages.

The checks use the client's message classes, so they do not need TensorFlow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from ..client.messages import MESSAGES, STATES
from ..client.rpc import STRING, open_channel, string_tensor, values
from .server import Mismatch, Server, expect, expect_text
from .successes import SENTENCE, SENTENCES, texts

FLOAT = 1  # DT_FLOAT
SIGNATURE_DEF = "signature_def"

PREDICT = "PredictionService/Predict"
METADATA = "PredictionService/GetModelMetadata"
STATUS = "ModelService/GetModelStatus"
METHODS = (PREDICT, METADATA, STATUS)


class RpcServer:
    """The checked server over gRPC.

    Args:
        channel: Channel to the server.
        server: The same server over REST.
        timeout: Time limit of an answer in seconds.
    """

    def __init__(self, channel: grpc.Channel, server: Server, timeout: float) -> None:
        self.channel = channel
        self.server = server
        self.timeout = timeout

    def send(self, method: str, request: bytes) -> bytes:
        """Returns the answer to ``request``.

        Raises:
            grpc.RpcError: The request was refused.
        """
        return self.channel.unary_unary(f"/tensorflow.serving.{method}")(request, timeout=self.timeout)

    def answer(self, method: str, request: Any, kind: str) -> Any:
        """Returns the answer to ``request``, a message of type ``kind``. The request must succeed."""
        try:
            return MESSAGES[kind].FromString(self.send(method, request.SerializeToString()))
        except grpc.RpcError as error:
            raise Mismatch(f"{method}: expected an answer, received {error.code().name} {error.details()!r}") from error
        except DecodeError as error:
            raise Mismatch(f"{method}: expected a {kind}, received something else: {error}") from error

    def spec(self, **fields: Any) -> Any:
        """Returns a ModelSpec of the checked model, changed by ``fields``."""
        return MESSAGES["ModelSpec"](**{"name": self.server.model, **fields})

    def predict_request(self, **fields: Any) -> Any:
        """Returns a valid PredictRequest, changed by ``fields``."""
        sound = {"model_spec": self.spec(), "inputs": [{"key": "text", "value": string_tensor(SENTENCES)}]}
        return MESSAGES["PredictRequest"](**{**sound, **fields})


def connect(address: str, server: Server, timeout: float, ca_file: Path | None, *, secure: bool) -> RpcServer:
    """Connects to gRPC at ``address``, HOST:PORT, with TLS if ``secure``."""
    return RpcServer(open_channel(f"{'grpcs' if secure else 'grpc'}://{address}", ca_file), server, timeout)


# Successes


def predictions(rpc: RpcServer) -> None:
    """Translations equal those of REST. The answer names its model, and each tensor fills the field of its type."""
    answer = rpc.answer(PREDICT, rpc.predict_request(), "PredictResponse")
    spec = answer.model_spec
    expected = (rpc.server.model, rpc.server.version, "serving_default")
    expect("model_spec", expected, (spec.name, spec.version.value, spec.signature_name))
    outputs = {output.key: output.value for output in answer.outputs}
    expect("outputs", {"translation", "score", "truncated"}, set(outputs))
    rows = rpc.server.answer({"instances": SENTENCES})["predictions"]
    expect("translations", texts(rows), values(outputs["translation"]))
    fields = {"translation": "string_val", "score": "float_val", "truncated": "bool_val"}
    expect("fields", fields, {name: _field(tensor) for name, tensor in outputs.items()})


def _field(tensor: Any) -> str | None:
    """Returns the name of the only field of ``tensor`` with values. Clients in other languages read this field."""
    names = [field.name for field, _ in tensor.ListFields() if field.name not in ("dtype", "tensor_shape")]
    return names[0] if len(names) == 1 else None


def output_filter(rpc: RpcServer) -> None:
    """Only the requested outputs are returned."""
    answer = rpc.answer(PREDICT, rpc.predict_request(output_filter=["score"]), "PredictResponse")
    expect("outputs", ["score"], [output.key for output in answer.outputs])


def status(rpc: RpcServer) -> None:
    """The served version is AVAILABLE."""
    for spec in (rpc.spec(), rpc.spec(version={"value": rpc.server.version})):
        request = MESSAGES["GetModelStatusRequest"](model_spec=spec)
        found = rpc.answer(STATUS, request, "GetModelStatusResponse").model_version_status
        states = {each.version: (STATES.get(each.state), each.status.error_code) for each in found}
        expect("state", ("AVAILABLE", 0), states.get(rpc.server.version))


def metadata(rpc: RpcServer) -> None:
    """Metadata hold the model's signatures."""
    request = MESSAGES["GetModelMetadataRequest"](model_spec=rpc.spec(), metadata_field=[SIGNATURE_DEF])
    answer = rpc.answer(METADATA, request, "GetModelMetadataResponse")
    spec = answer.model_spec
    expect("model_spec", (rpc.server.model, rpc.server.version), (spec.name, spec.version.value))
    packed = {entry.key: entry.value for entry in answer.metadata}
    expect("metadata", {SIGNATURE_DEF}, set(packed))
    expect("type_url", "type.googleapis.com/tensorflow.serving.SignatureDefMap", packed[SIGNATURE_DEF].type_url)
    definitions = MESSAGES["SignatureDefMap"].FromString(packed[SIGNATURE_DEF].value)
    signature = {entry.key: entry.value for entry in definitions.signature_def}["serving_default"]
    expect("method_name", "tensorflow/serving/predict", signature.method_name)
    expect("inputs", {"text": STRING}, {entry.key: entry.value.dtype for entry in signature.inputs})
    expect("outputs", {"translation", "score", "truncated"}, {entry.key for entry in signature.outputs})


SUCCESSES = (predictions, output_filter, status, metadata)


# Refusals


class RpcRefusal(NamedTuple):
    """A request that must be refused."""

    check: str
    method: str
    request: bytes
    code: str
    message: str | None
    """Error details, in which ``...`` matches any text. `None` compares only the code."""


def refusals(rpc: RpcServer) -> list[RpcRefusal]:
    """Returns a request for every kind of error."""
    model, missing = rpc.server.model, rpc.server.version + 1000
    text = {"key": "text", "value": string_tensor([SENTENCE])}
    number = MESSAGES["TensorProto"](dtype=FLOAT, tensor_shape={"dim": [{"size": 1}]}, float_val=[1.5])

    def predict(check: str, code: str, message: str | None, **fields: Any) -> RpcRefusal:
        return RpcRefusal(check, PREDICT, rpc.predict_request(**fields).SerializeToString(), code, message)

    def about(check: str, method: str, code: str, message: str, **fields: Any) -> RpcRefusal:
        kind = "GetModelStatusRequest" if method == STATUS else "GetModelMetadataRequest"
        return RpcRefusal(check, method, MESSAGES[kind](**fields).SerializeToString(), code, message)

    other = rpc.spec(name="no-such")
    later = rpc.spec(version={"value": missing})
    return [
        predict("no model_spec", "INVALID_ARGUMENT", "Missing ModelSpec", model_spec=None),
        predict("no model name", "INVALID_ARGUMENT", "ModelSpec has no name specified.", model_spec=rpc.spec(name="")),
        predict("unknown model", "NOT_FOUND", "Servable not found for request: Latest(no-such)", model_spec=other),
        predict(
            "unknown version",
            "NOT_FOUND",
            f"Servable not found for request: Specific({model}, {missing})",
            model_spec=later,
        ),
        predict(
            "unknown label",
            "INVALID_ARGUMENT",
            "Unrecognized servable version label: no-such-label",
            model_spec=rpc.spec(version_label="no-such-label"),
        ),
        predict(
            "unknown signature",
            "FAILED_PRECONDITION",
            'Serving signature key "no-such" not found.',
            model_spec=rpc.spec(signature_name="no-such"),
        ),
        predict("no input", "INVALID_ARGUMENT", "input size does not match signature: 0!=1 ...", inputs=[]),
        predict(
            "input with another name",
            "INVALID_ARGUMENT",
            "input tensor alias not found in signature: txt. Inputs expected to be in the set {text}.",
            inputs=[{**text, "key": "txt"}],
        ),
        predict(
            "additional input",
            "INVALID_ARGUMENT",
            "input size does not match signature: 2!=1 ...",
            inputs=[text, {**text, "key": "txt"}],
        ),
        predict("input with another type", "INVALID_ARGUMENT", None, inputs=[{"key": "text", "value": number}]),
        predict(
            "unknown output",
            "INVALID_ARGUMENT",
            "output tensor alias not found in signature: no-such ...",
            output_filter=["no-such"],
        ),
        predict(
            "output requested twice",
            "INVALID_ARGUMENT",
            "duplicate output tensor alias: score",
            output_filter=["score", "score"],
        ),
        about(
            "status of an unknown model",
            STATUS,
            "NOT_FOUND",
            "Could not find any versions of model no-such",
            model_spec=other,
        ),
        about(
            "status of an unknown version",
            STATUS,
            "NOT_FOUND",
            f"Could not find version {missing} of model {model}",
            model_spec=later,
        ),
        about(
            "metadata of an unknown model",
            METADATA,
            "NOT_FOUND",
            "Servable not found for request: Latest(no-such)",
            model_spec=other,
            metadata_field=[SIGNATURE_DEF],
        ),
        about(
            "metadata without a field",
            METADATA,
            "INVALID_ARGUMENT",
            "GetModelMetadataRequest must specify at least one metadata_field",
            model_spec=rpc.spec(),
        ),
        about(
            "metadata of an unknown field",
            METADATA,
            "INVALID_ARGUMENT",
            "Metadata field no-such is not supported",
            model_spec=rpc.spec(),
            metadata_field=["no-such"],
        ),
        *[RpcRefusal(f"{method} with a malformed message", method, b"\xff", "INTERNAL", None) for method in METHODS],
        RpcRefusal("unknown method", "PredictionService/Translate", b"", "UNIMPLEMENTED", None),
    ]


def check_refusal(rpc: RpcServer, refusal: RpcRefusal) -> None:
    """Raises Mismatch unless the server refuses the request as ``refusal`` describes."""
    try:
        rpc.send(refusal.method, refusal.request)
    except grpc.RpcError as error:
        expect("code", refusal.code, error.code().name, error.details() or "")
        if refusal.message is not None:
            expect_text("details", refusal.message, error.details())
    else:
        raise Mismatch(f"code: expected {refusal.code}, received an answer")


def checks(rpc: RpcServer) -> list[tuple[str, Callable[[], None]]]:
    """Returns every check with its name."""
    named: list[tuple[str, Callable[[], None]]] = [
        (check.__name__.replace("_", " "), functools.partial(check, rpc)) for check in SUCCESSES
    ]
    named += [(each.check, functools.partial(check_refusal, rpc, each)) for each in refusals(rpc)]
    return [(f"gRPC: {name}", check) for name, check in named]
