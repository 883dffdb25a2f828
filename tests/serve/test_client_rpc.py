"""The client over gRPC and TLS: TensorFlow Serving's messages, error codes, certificates."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import any_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serve.client import Client, ClientError, Retry, Unavailable, VersionStatus
from serve.client.messages import FIELDS, MESSAGES, STATES
from serve.client.rpc import string_tensor, values

pytestmark = pytest.mark.server


class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """TensorFlow Serving's services. They fail once with each of ``failures``, then repeat the texts."""

    def __init__(self) -> None:
        self.specs: list[model_pb2.ModelSpec] = []
        self.failures: list[grpc.StatusCode] = []

    def Predict(self, request, context):
        self.specs.append(request.model_spec)
        if self.failures:
            context.abort(self.failures.pop(0), "two\nlines")
        outputs = {"translation": request.inputs["text"]}
        outputs |= {"score": tf.make_tensor_proto([-1.0]), "truncated": tf.make_tensor_proto([False])}
        return predict_pb2.PredictResponse(outputs=outputs)

    def GetModelStatus(self, request, context):
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=2, state="END").status.error_code = 5
        response.model_version_status[0].status.error_message = "gone"
        response.model_version_status.add(version=3, state="AVAILABLE")
        return response


class Running(NamedTuple):
    servicer: Servicer
    url: str
    secure_url: str


@pytest.fixture(scope="module")
def running(certificate) -> Iterator[Running]:
    servicer = Servicer()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(servicer, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    pair = certificate.key.read_bytes(), certificate.certificate.read_bytes()
    secure_port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield Running(servicer, f"grpc://127.0.0.1:{port}", f"grpcs://127.0.0.1:{secure_port}")
    server.stop(None).wait()


@pytest.fixture
def waits(running, monkeypatch) -> list[float]:
    """The client's pauses in seconds. Clears the requests and failures of the server."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    running.servicer.specs.clear()
    running.servicer.failures.clear()
    return waits


def test_the_status_lists_the_versions_newest_first(running):
    with Client(running.url) as client:
        assert client.status() == [
            VersionStatus(3, "AVAILABLE", "OK", ""),
            VersionStatus(2, "END", "NOT_FOUND", "gone"),
        ]


@pytest.mark.parametrize("options", [{"version": 7}, {"label": "stable"}, {}])
def test_a_version_or_a_label_reaches_the_server(running, waits, options):
    with Client(running.url, **options) as client:
        client.translate(["uno"])
    (spec,) = running.servicer.specs
    assert (spec.name, spec.signature_name) == ("spa-eng", "serving_default")
    assert (spec.version.value, spec.version_label) == (options.get("version", 0), options.get("label", ""))


def test_a_busy_server_is_asked_again(running, waits):
    busy = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED]
    running.servicer.failures = busy.copy()
    with Client(running.url, retry=Retry(3)) as client:
        assert client.translate(["uno"]) == ["uno"]
    running.servicer.failures = busy
    with Client(running.url, retry=Retry(2)) as client, pytest.raises(Unavailable, match="answered RESOURCE_EXHAUSTED"):
        client.translate(["uno"])
    assert len(waits) == 3


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "answered INVALID_ARGUMENT: two lines"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "did not answer in time"),
        (grpc.StatusCode.NOT_FOUND, r"does not serve model 'spa-eng' \(two lines\)"),
    ],
)
def test_an_error_that_would_come_again_is_not_retried(running, waits, code, message):
    running.servicer.failures = [code]
    with Client(running.url) as client, pytest.raises(ClientError, match=message):
        client.translate(["uno"])
    assert waits == []


@pytest.mark.parametrize("too_large", ["request", "answer"])
def test_a_message_that_is_too_large_is_not_sent_again(running, waits, monkeypatch, too_large):
    if too_large == "answer":
        monkeypatch.setattr("serve.client.rpc.MAX_MESSAGE_BYTES", 10)
    text = "uno" if too_large == "answer" else "a" * (5 << 20)  # gRPC servers accept 4 MiB by default
    message = r"RESOURCE_EXHAUSTED: .*message larger than max"
    with Client(running.url, max_text_bytes=8 << 20) as client, pytest.raises(ClientError, match=message):
        client.translate([text])
    assert waits == []
    assert len(running.servicer.specs) == (too_large == "answer")


# Messages


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, -2.5], [0.25, 1e30]], np.float32),
        np.full((3, 2), 7, np.int32),
        np.array([2**40, -1], np.int64),
        np.array([True, False, False]),
        np.array([["¿qué?".encode(), b""]], object),
        np.zeros((0, 3), np.float32),
        np.array([], object),
    ],
)
def test_tensors_are_read_as_raw_content_and_as_typed_values_of_which_the_last_may_be_repeated(array):
    proto = tf.make_tensor_proto(array)
    strings = array.dtype == object and array.size
    expected = [[text.decode() for text in row] for row in array] if strings else array.tolist()
    assert values(MESSAGES["TensorProto"].FromString(proto.SerializeToString())) == expected
    listed = MESSAGES["TensorProto"](dtype=proto.dtype, tensor_shape={"dim": [{"size": size} for size in array.shape]})
    name = {1: "float_val", 3: "int_val", 7: "string_val", 9: "int64_val", 10: "bool_val"}[proto.dtype]
    field = getattr(listed, name)
    field.extend(tf.constant(array).numpy().ravel().tolist())
    assert values(listed) == expected
    while len(field) > 1 and field[-1] == field[-2]:
        field.pop()
    assert values(listed) == expected


def test_a_tensor_of_another_type_is_refused():
    with pytest.raises(ClientError, match="DataType 23"):
        values(MESSAGES["TensorProto"](dtype=tf.uint64.as_datatype_enum))


@pytest.mark.parametrize(
    "fields",
    [
        {"dtype": 1, "tensor_shape": [2**40], "float_val": [1.0]},
        {"dtype": 1, "tensor_shape": [2**62] * 200, "float_val": [1.0]},
        {"dtype": 1, "tensor_shape": [2**62, 0]},
        {"dtype": 1, "tensor_shape": [-1, -3], "float_val": [1.0] * 3},
        {"dtype": 1, "tensor_shape": [2]},
        {"dtype": 1, "tensor_shape": [2], "float_val": [1.0] * 3},
        {"dtype": 1, "tensor_shape": [2], "tensor_content": b"abc"},
        {"dtype": 7, "tensor_shape": [1], "tensor_content": b"abc"},
        {"dtype": 1, "tensor_shape": [1] * 200, "float_val": [1.0]},
    ],
    ids=["claimed", "overflow", "empty", "negative", "none", "too many", "bytes", "string", "rank"],
)
def test_a_tensor_whose_values_do_not_fit_its_shape_is_refused(fields):
    shape = {"dim": [{"size": size} for size in fields["tensor_shape"]]}
    with pytest.raises(ClientError, match="shape"):
        values(MESSAGES["TensorProto"](**{**fields, "tensor_shape": shape}))


def test_strings_are_sent_as_tensorflow_reads_them():
    proto = tf.make_tensor_proto([0.0])
    proto.ParseFromString(string_tensor(["¿qué?", ""]).SerializeToString())
    assert tf.make_ndarray(proto).tolist() == ["¿qué?".encode(), b""]


OFFICIAL = {
    "Dim": tf.make_tensor_proto(0).tensor_shape.DESCRIPTOR.nested_types_by_name["Dim"],
    "TensorShapeProto": tf.make_tensor_proto(0).tensor_shape.DESCRIPTOR,
    "TensorProto": tf.make_tensor_proto(0).DESCRIPTOR,
    "Int64Value": model_pb2.ModelSpec().version.DESCRIPTOR,
    "ModelSpec": model_pb2.ModelSpec.DESCRIPTOR,
    "NamedTensor": predict_pb2.PredictRequest.InputsEntry.DESCRIPTOR,
    "PredictRequest": predict_pb2.PredictRequest.DESCRIPTOR,
    "PredictResponse": predict_pb2.PredictResponse.DESCRIPTOR,
    "GetModelStatusRequest": get_model_status_pb2.GetModelStatusRequest.DESCRIPTOR,
    "StatusProto": get_model_status_pb2.ModelVersionStatus().status.DESCRIPTOR,
    "ModelVersionStatus": get_model_status_pb2.ModelVersionStatus.DESCRIPTOR,
    "GetModelStatusResponse": get_model_status_pb2.GetModelStatusResponse.DESCRIPTOR,
    "GetModelMetadataRequest": get_model_metadata_pb2.GetModelMetadataRequest.DESCRIPTOR,
    "Any": any_pb2.Any.DESCRIPTOR,
    "NamedAny": get_model_metadata_pb2.GetModelMetadataResponse.MetadataEntry.DESCRIPTOR,
    "GetModelMetadataResponse": get_model_metadata_pb2.GetModelMetadataResponse.DESCRIPTOR,
    "TensorInfo": meta_graph_pb2.TensorInfo.DESCRIPTOR,
    "NamedTensorInfo": meta_graph_pb2.SignatureDef.InputsEntry.DESCRIPTOR,
    "SignatureDef": meta_graph_pb2.SignatureDef.DESCRIPTOR,
    "NamedSignatureDef": get_model_metadata_pb2.SignatureDefMap.SignatureDefEntry.DESCRIPTOR,
    "SignatureDefMap": get_model_metadata_pb2.SignatureDefMap.DESCRIPTOR,
}


@pytest.mark.parametrize("message", FIELDS)
def test_every_message_has_the_fields_of_tensorflow_servings(message):
    for field in MESSAGES[message].DESCRIPTOR.fields:
        official = OFFICIAL[message].fields_by_name[field.name]
        kind = official.TYPE_INT32 if official.type == official.TYPE_ENUM else official.type
        assert (field.number, field.type) == (official.number, kind), field.name
        assert field.is_repeated == official.is_repeated, field.name


def test_every_state_of_a_version_has_its_name():
    states = get_model_status_pb2.ModelVersionStatus.State
    assert {number: name for name, number in states.items()} == STATES


# TLS


class StatusHandler(http.server.BaseHTTPRequestHandler):
    """Answers every request with a status without versions."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def https(certificate) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), StatusHandler) as server:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("scheme", "message"), [("https", "is not trusted"), ("grpcs", "UNAVAILABLE")])
def test_a_certificate_needs_a_known_signer(running, https, certificate, waits, scheme, message):
    url = https if scheme == "https" else running.secure_url
    with Client(url, ca_file=certificate.certificate) as client:
        assert len(client.status()) == (0 if scheme == "https" else 2)
    with Client(url, retry=Retry(2)) as client, pytest.raises(ClientError, match=message):
        client.status()
    assert len(waits) == (0 if scheme == "https" else 1)  # the client retries, as gRPC gives no reason
