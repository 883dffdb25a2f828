"""The client over gRPC: against servers made of TensorFlow Serving's own protocol buffers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import any_pb2
from reverser import Reverser
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serve.client import Alignment, Client, ClientError, Retry, Translation, Unavailable, VersionStatus
from serve.client.messages import FIELDS, MESSAGES, STATES
from serve.client.rpc import string_tensor, values

pytestmark = pytest.mark.server


class Servicer(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """TensorFlow Serving's two services over the reversing model."""

    def __init__(self) -> None:
        self.model = Reverser()
        self.specs: list[model_pb2.ModelSpec] = []
        self.failures: list[grpc.StatusCode] = []

    def Predict(self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext) -> Any:
        self.specs.append(request.model_spec)
        if self.failures:
            context.abort(self.failures.pop(0), "two\nlines")
        if request.model_spec.name != "spa-eng":
            context.abort(
                grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Latest({request.model_spec.name})"
            )
        outputs = getattr(self.model, request.model_spec.signature_name)(tf.make_ndarray(request.inputs["text"]))
        response = predict_pb2.PredictResponse()
        for name, value in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response

    def GetModelStatus(self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.ServicerContext) -> Any:
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=2, state="END").status.error_code = 5
        response.model_version_status[0].status.error_message = "gone"
        response.model_version_status.add(version=3, state="AVAILABLE")
        return response


class Running(NamedTuple):
    url: str
    servicer: Servicer


def start(servicer: Servicer) -> grpc.Server:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(servicer, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    return server


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    servicer = Servicer()
    server = start(servicer)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield Running(f"grpc://127.0.0.1:{port}", servicer)
    server.stop(None).wait()


def test_sentences_are_translated_and_aligned_as_over_rest(running):
    with Client(running.url, batch_size=2) as client:
        assert client.translate(["uno dos", "¿qué?", "a b c"]) == ["dos uno", "¿qué?", "c b a"]
        assert client.translate_with_scores(["a b c d"]) == [Translation("d c b a", pytest.approx(-4 / 3), True)]
        one, two = client.align(["a", "b c"])
    assert one == Alignment("a", pytest.approx(-1 / 3), False, ["a"], ["a"], [[1.0]])
    assert two == Alignment("c b", pytest.approx(-2 / 3), False, ["b", "c"], ["c", "b"], [[0.0, 1.0], [1.0, 0.0]])


def test_hypotheses_and_whole_texts_work_too(running):
    with Client(running.url) as client:
        (found,) = client.beam(["a b"])
        (text,) = client.translate_texts(["Uno dos. Tres."])
    assert [hypothesis.translation for hypothesis in found.hypotheses] == ["b a", "a b"]
    assert text.translation == "dos. Uno Tres."


def test_the_status_lists_the_versions_newest_first(running):
    with Client(running.url) as client:
        assert client.status() == [
            VersionStatus(3, "AVAILABLE", "OK", ""),
            VersionStatus(2, "END", "NOT_FOUND", "gone"),
        ]


def test_a_version_or_a_label_reaches_the_server(running):
    running.servicer.specs.clear()
    for version, label in ((7, None), (None, "stable"), (None, None)):
        with Client(running.url, version=version, label=label) as client:
            client.translate(["uno"])
    seven, stable, newest = running.servicer.specs
    assert (seven.name, seven.signature_name, seven.version.value) == ("spa-eng", "serving_default", 7)
    assert (stable.version_label, stable.WhichOneof("version_choice")) == ("stable", "version_label")
    assert newest.WhichOneof("version_choice") is None


def test_a_model_that_is_not_served_is_named(running):
    with Client(running.url, model="nope") as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    reason = "(Servable not found for request: Latest(nope))."
    assert str(caught.value) == f"{running.url} does not serve model 'nope' {reason}"


def test_an_error_of_the_server_is_shown_in_its_own_words(running):
    running.servicer.failures = [grpc.StatusCode.INVALID_ARGUMENT]
    with Client(running.url) as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    assert str(caught.value) == f"{running.url} answered INVALID_ARGUMENT: two lines"


def test_a_busy_server_is_asked_again(running, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    busy = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED]
    running.servicer.failures = list(busy)
    with Client(running.url, retry=Retry(3)) as client:
        assert client.translate(["uno"]) == ["uno"]
    assert len(waits) == 2
    running.servicer.failures = list(busy)
    with Client(running.url, retry=Retry(2)) as client, pytest.raises(Unavailable, match="answered RESOURCE_EXHAUSTED"):
        client.translate(["uno"])


@pytest.mark.parametrize("too_large", ["request", "answer"])
def test_a_message_that_is_too_large_is_not_sent_again(running, monkeypatch, too_large):
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    running.servicer.specs.clear()
    if too_large == "answer":
        monkeypatch.setattr("serve.client.rpc.MAX_MESSAGE_BYTES", 10)
    text = "uno" if too_large == "answer" else "a" * (5 << 20)  # gRPC's servers take 4 MiB unless told otherwise
    with (
        Client(running.url, max_text_bytes=8 << 20, retry=Retry(3)) as client,
        pytest.raises(
            ClientError, match=r"RESOURCE_EXHAUSTED: .*message larger than max.*Send less at a time"
        ) as caught,
    ):
        client.translate([text])
    assert not isinstance(caught.value, Unavailable)
    assert waits == []
    assert len(running.servicer.specs) == (too_large == "answer")


def test_an_answer_that_does_not_come_in_time_says_so(running):
    running.servicer.failures = [grpc.StatusCode.DEADLINE_EXCEEDED]
    with Client(running.url) as client, pytest.raises(ClientError, match="gave no answer in time: send less at a time"):
        client.translate(["uno"])


def test_a_server_that_is_down_is_unavailable():
    with Client("grpc://127.0.0.1:1", retry=Retry(1)) as client, pytest.raises(Unavailable, match="UNAVAILABLE"):
        client.translate(["uno"])


def test_the_embedded_server_answers_the_same_over_grpc_as_over_rest(serving):
    texts = ["¿Qué tal? Uno dos tres.", "a b c d"]
    with Client(serving.rest) as rest, Client(serving.rpc) as rpc:
        for ask in ("translate", "translate_texts", "align", "beam"):
            assert as_decimals(getattr(rpc, ask)(texts)) == as_decimals(getattr(rest, ask)(texts))
        assert rpc.status() == rest.status()
    for model, signature, message in (
        ("no-such", "serving_default", r"does not serve model 'no-such' \(Servable not found for request: Latest"),
        ("spa-eng", "nope", r"Serving signature .*nope.* not found"),
    ):
        for url in serving:
            with Client(url, model) as client, pytest.raises(ClientError, match=message):
                client.predict(signature, {"text": ["a"]})


def as_decimals(answer: Any) -> Any:
    """``answer`` with its numbers cut to six digits: REST writes singles as decimals."""
    if isinstance(answer, float):
        return f"{answer:.6g}"
    return [as_decimals(part) for part in answer] if isinstance(answer, list | tuple) else answer


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
def test_tensors_are_read_however_their_values_are_stored(array):
    """As raw content, which make_tensor_proto writes; one by one; and with an equal end left out."""
    proto = tf.make_tensor_proto(array)
    expected = (
        [[text.decode() for text in row] for row in array] if array.size and array.dtype == object else array.tolist()
    )
    assert values(MESSAGES["TensorProto"].FromString(proto.SerializeToString())) == expected
    one_by_one = tf.constant(array).numpy()
    listed = MESSAGES["TensorProto"](dtype=proto.dtype, tensor_shape={"dim": [{"size": size} for size in array.shape]})
    field = {1: "float_val", 3: "int_val", 7: "string_val", 9: "int64_val", 10: "bool_val"}[proto.dtype]
    getattr(listed, field).extend(one_by_one.ravel().tolist())
    assert values(listed) == expected
    while len(getattr(listed, field)) > 1 and getattr(listed, field)[-1] == getattr(listed, field)[-2]:
        getattr(listed, field).pop()
    assert values(listed) == expected


def test_a_tensor_of_another_type_is_no_translation():
    with pytest.raises(ClientError, match="a tensor of DataType 23: is this a translation model's export"):
        values(MESSAGES["TensorProto"](dtype=tf.uint64.as_datatype_enum))


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
    ours, theirs = MESSAGES[message].DESCRIPTOR, OFFICIAL[message]
    for field in ours.fields:
        official = theirs.fields_by_name[field.name]
        kind = official.TYPE_INT32 if official.type == official.TYPE_ENUM else official.type
        assert (field.number, field.type) == (official.number, kind), field.name
        assert field.is_repeated == official.is_repeated, field.name


def test_every_state_of_a_version_is_known():
    states = get_model_status_pb2.ModelVersionStatus.State
    assert {number: name for name, number in states.items()} == STATES
