"""The embedded server as a process: gRPC, monitoring, other hosts' pages, difficult clients, new versions."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import numpy as np
import pytest
import tensorflow as tf
from prometheus_client.parser import text_string_to_metric_families
from reverser import export_reverser
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis.model_management_pb2 import ReloadConfigRequest
from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import ClassifyLog, PredictionLog
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from serve.models.status import StatusError
from serve.models.warmup import load_warm

ROOT = Path(__file__).parents[2]
SECONDS = 2.0
"""A request may take in the server of these tests."""

pytestmark = pytest.mark.server


class Served(NamedTuple):
    """A running server and the folder that it watches."""

    http: httpx.Client
    channel: grpc.Channel
    prediction: PredictionServiceStub
    model: ModelServiceStub
    models: Path

    def connect(self) -> socket.socket:
        return socket.create_connection((self.http.base_url.host, self.http.base_url.port), timeout=20)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    models = tmp_path_factory.mktemp("models")
    export_reverser(models / "rev" / "1")
    options = ["--enable-monitoring", "--enable-cors-support", "--enable-reload", "--poll-seconds", "0.1"]
    limits = [
        "--rest-api-timeout-in-ms",
        f"{SECONDS * 1000:.0f}",
        "--max-batch-rows",
        "7",
        "--max-body-bytes",
        "100000",
    ]
    ports = ["--port", "0", "--grpc-port", "0"]
    command = [sys.executable, "-m", "serve.server", "--model-dir", str(models), *ports, *options, *limits]
    log = models / "log"
    with log.open("w") as errors, subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=errors, text=True) as process:
        try:
            assert process.stdout is not None
            addresses = [process.stdout.readline().removeprefix("Listening on ").strip() for _ in range(2)]
            assert addresses[1].startswith("grpc://"), log.read_text()
            with (
                httpx.Client(base_url=addresses[0], timeout=20, trust_env=False) as http,
                grpc.insecure_channel(addresses[1].removeprefix("grpc://")) as channel,
            ):
                yield Served(http, channel, PredictionServiceStub(channel), ModelServiceStub(channel), models)
            process.terminate()
            assert process.wait(30) == 0, log.read_text()
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()


# gRPC


def predict_request(*texts: str, model: str = "rev", signature: str = "") -> PredictRequest:
    request = PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(list(texts), tf.string))
    return request


def test_grpc_answers_as_rest_does(served):
    answer = served.prediction.Predict(predict_request("uno dos", "tres", signature="align"))
    assert answer.model_spec.name == "rev"
    assert answer.model_spec.version.value == 1
    assert answer.model_spec.signature_name == "align"
    document = {"signature_name": "align", "inputs": ["uno dos", "tres"]}
    outputs = served.http.post("/v1/models/rev:predict", json=document).json()["outputs"]
    assert answer.outputs.keys() == outputs.keys()
    for name, values in outputs.items():
        array = tf.make_ndarray(answer.outputs[name])
        expected = np.char.encode(values) if array.dtype == object else np.array(values, array.dtype)
        np.testing.assert_array_equal(array.astype(expected.dtype), expected, name)


def test_answers_lie_in_typed_fields_where_clients_in_other_languages_look(served):
    answer = served.prediction.Predict(predict_request("uno dos"))
    assert list(answer.outputs["translation"].string_val) == [b"dos uno"]
    assert list(answer.outputs["truncated"].bool_val) == [False]
    np.testing.assert_allclose(answer.outputs["score"].float_val, [-2 / 3], rtol=1e-6)
    assert answer.outputs["score"].tensor_content == b""


def tensor(proto: TensorProto | None = None, **fields: Any) -> PredictRequest:
    """A predict request whose tensor is ``proto``, but for ``fields``."""
    request = predict_request("uno")
    if proto is not None:
        request.inputs["text"].CopyFrom(proto)
    request.inputs["text"].MergeFrom(TensorProto(**fields))
    return request


def of_size(size: int) -> PredictRequest:
    return tensor(TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"uno"], tensor_shape={"dim": [{"size": size}]}))


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (predict_request("uno", signature="__saved_model_init_op"), "INTERNAL", "method_name"),
        (tensor(tf.make_tensor_proto([1.5])), "INVALID_ARGUMENT", "to be string but float"),
        (tensor(tf.make_tensor_proto("uno")), "INVALID_ARGUMENT", "Shape of input text"),
        (predict_request(*["uno"] * 8), "INVALID_ARGUMENT", "--max-batch-rows"),
        (of_size(2**40), "INVALID_ARGUMENT", "--max-values"),
        (of_size(-3), "INVALID_ARGUMENT", "parsing error: text"),
        (tensor(dtype=999), "INVALID_ARGUMENT", "parsing error: text"),
        (tensor(tensor_content=b"\xff"), "INVALID_ARGUMENT", "parsing error: text"),
    ],
    ids=["initialisation", "type", "rank", "rows", "claimed size", "negative size", "no such type", "content"],
)
def test_a_request_over_grpc_that_does_not_fit_is_refused(served, request_, code, message):
    with pytest.raises(grpc.RpcError) as caught:
        served.prediction.Predict(request_)
    assert caught.value.code().name == code
    assert message in caught.value.details()


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\x05\x0a\x03\xff\xfe\xfd"], ids=["cut short", "not UTF-8"])
@pytest.mark.parametrize(
    "method",
    [
        "PredictionService/Predict",
        "PredictionService/GetModelMetadata",
        "ModelService/GetModelStatus",
        "ModelService/HandleReloadConfigRequest",
    ],
)
def test_a_message_that_cannot_be_decoded_is_answered_as_grpc_for_cpp_does(served, method, message):
    with pytest.raises(grpc.RpcError) as caught:
        served.channel.unary_unary(f"/tensorflow.serving.{method}")(message)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "The request message could not be decoded"


@pytest.mark.parametrize("method", ["Translate", "Classify", "Regress", "MultiInference"])
def test_a_method_that_does_not_exist_is_unimplemented(served, method):
    with pytest.raises(grpc.RpcError) as caught:
        served.channel.unary_unary(f"/tensorflow.serving.PredictionService/{method}")(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_beyond_the_limit_is_refused_and_the_connection_lives_on(served):
    with pytest.raises(grpc.RpcError) as caught:
        served.prediction.Predict(predict_request("a" * 200_000))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert served.prediction.Predict(predict_request("uno")).outputs["translation"].string_val[0] == b"uno"


# Monitoring, other hosts' pages


REQUESTS = ":tensorflow:serving:request_count_total"
"""So does Prometheus's Python parser call what the page calls ``request_count``."""


def samples(served: Served) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The metrics as Prometheus's own parser reads them: by name and labels."""
    page = served.http.get("/monitoring/prometheus/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(page.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def test_requests_are_counted_by_model_signature_and_status(served):
    def counted(name: str, **labels: str) -> float:
        return samples(served).get((name, frozenset(labels.items())), 0)

    ok = {"model_name": "rev", "status": "OK"}
    before = counted(REQUESTS, **ok)
    aligned = counted("embedded_server_signature_requests_total", signature_name="align", **ok)
    latency = {"model_name": "rev", "API": "predict", "entrypoint": "REST"}
    timed = counted(":tensorflow:serving:request_latency_count", **latency)
    run = counted(":tensorflow:serving:runtime_latency_count", model_name="rev", API="Predict", runtime="TF1")
    wrong = counted(REQUESTS, model_name="", status="NOT_FOUND")

    served.http.post("/v1/models/rev:predict", json={"signature_name": "align", "instances": ["uno"]})
    served.prediction.Predict(predict_request("uno"))
    served.http.post("/v1/models/made-up:predict", json={"instances": ["uno"]})

    assert counted(REQUESTS, **ok) == before + 2
    assert counted("embedded_server_signature_requests_total", signature_name="align", **ok) == aligned + 1
    assert counted(":tensorflow:serving:request_latency_count", **latency) == timed + 1
    assert (
        counted(":tensorflow:serving:runtime_latency_count", model_name="rev", API="Predict", runtime="TF1") == run + 2
    )
    assert counted(REQUESTS, model_name="", status="NOT_FOUND") == wrong + 1
    assert not [labels for _, labels in samples(served) if ("model_name", "made-up") in labels]


def test_metrics_carry_tensorflow_servings_names_types_and_buckets(served):
    served.http.post("/v1/models/rev:predict", json={"instances": ["uno"]})
    page = served.http.get("/monitoring/prometheus/metrics").text
    assert "# TYPE :tensorflow:serving:request_count counter\n" in page
    assert '\n:tensorflow:serving:request_count{model_name="rev",status="OK"} ' in page
    assert "# TYPE :tensorflow:serving:request_latency histogram\n" in page
    bounds = {dict(labels)["le"] for name, labels in samples(served) if name.endswith("request_latency_bucket")}
    assert len(bounds) == 34
    assert {"10.0", "18.0", "+Inf"} < bounds


# Difficult clients

BODY = b'{"instances": ["uno dos"]}'


def talk(served: Served, *parts: bytes, pause: float = 0.0) -> bytes:
    """Everything the server says to ``parts``, sent one after the other, until it closes the connection."""
    with served.connect() as connection:
        with contextlib.suppress(ConnectionError):  # the server need not read to the end what it refuses
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        return everything(connection)


def everything(connection: socket.socket) -> bytes:
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65536):
            said += more
    return said


def post(body: bytes, *headers: str, path: str = "/v1/models/rev:predict", version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: server", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


LENGTH = f"Content-Length: {len(BODY)}"


@pytest.mark.parametrize(
    "request_",
    [
        post(BODY, LENGTH, "Connection: close"),
        post(BODY, LENGTH, version="1.0"),
        post(
            b"5\r\n" + BODY[:5] + b"\r\n15\r\n" + BODY[5:] + b"\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked",
            "Connection: close",
        ),
        post(BODY, LENGTH, "Expect: 100-continue", "Connection: close"),
        post(BODY, LENGTH, "Connection: close", path="http://server/v1/models/rev:predict"),
        post(BODY, LENGTH, "Connection: close, Upgrade", "Upgrade: websocket"),
    ],
    ids=["length", "1.0", "chunked", "expect", "absolute", "upgrade"],
)
def test_every_way_to_send_a_body_is_understood(served, request_):
    said = talk(served, request_)
    assert b" 200 OK" in said
    assert b'"translation": "dos uno"' in said


def test_requests_sent_at_once_are_answered_in_their_order(served):
    bodies = [json.dumps({"instances": [f"{number} x"]}).encode() for number in range(3)]
    requests = [post(body, f"Content-Length: {len(body)}") for body in bodies]
    said = talk(served, b"".join(requests) + b"GET /v1/models/rev HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n")
    assert [said.find(f'"x {number}"'.encode()) > 0 for number in range(3)] == [True] * 3
    assert said.find(b'"x 0"') < said.find(b'"x 1"') < said.find(b'"x 2"') < said.find(b"model_version_status")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /v1/models/rev\r\n\r\n", 400),
        (b"GET /v1/models/" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: s\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: s\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n", 400),
        (post(b"x", "Content-Length: -1"), 400),
        (post(b"x", "Content-Length: 5", "Content-Length: 6"), 400),
        (post(b"zz\r\n", "Transfer-Encoding: chunked"), 400),
        (post(b"", "Connection: close"), 400),
        (post(b"", "Content-Length: 99999999999999999999", "Connection: close") + b"x" * 200_000, 413),
        (b"PUT /v1/models/rev:predict HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 400),
        (b"HEAD /v1/models/rev HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 400),
        (b"TRACE /v1/models/rev HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 400),
        (b"GET /v1/models/%FF%00%2F HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 404),
    ],
    ids=lambda value: str(value[:24]) if isinstance(value, bytes) else str(value),
)
def test_what_is_no_request_is_refused_and_the_next_one_is_answered(served, request_, status):
    assert talk(served, request_).startswith(f"HTTP/1.1 {status} ".encode())
    assert served.http.post("/v1/models/rev:predict", content=BODY).status_code == 200


def test_a_client_that_does_not_finish_its_headers_is_cut_off(served):
    began = time.monotonic()
    assert talk(served, b"POST /v1/mod", b"els/rev:predict HT", pause=0.1) == b""
    assert SECONDS * 0.9 < time.monotonic() - began < SECONDS + 10


def test_a_client_that_does_not_finish_its_body_is_told_so(served):
    said = talk(served, post(BODY[:9], LENGTH, "Connection: close"))
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"error": "The body did not come within 2 seconds (--rest-api-timeout-in-ms)"' in said


def test_a_client_that_sends_on_and_on_after_its_answer_is_cut_off(served):
    with served.connect() as connection:
        connection.sendall(b"GET /v1/models/rev HTTP/1.1\r\nHost: s\r\nContent-Length: 1000000\r\n\r\n")
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < SECONDS + 10:
                connection.sendall(b"x")
                time.sleep(0.05)
    assert SECONDS * 0.9 < time.monotonic() - began < SECONDS + 10


def test_a_client_that_leaves_early_disturbs_nobody(served):
    for part in (b"", b"POST", post(b"", LENGTH), post(BODY[:9], LENGTH), post(BODY, LENGTH)):
        with served.connect() as connection:
            connection.sendall(part)
    assert served.http.post("/v1/models/rev:predict", content=BODY).status_code == 200


def test_control_characters_in_a_models_name_are_escaped_in_the_log(served):
    (served.models / "bad\n2026-01-01 INFO forged\x1b[31m\u202e" / "1").mkdir(parents=True)
    log, give_up = "", time.monotonic() + 20
    while "could not be loaded" not in log and time.monotonic() < give_up:
        time.sleep(0.05)
        log = (served.models / "log").read_text()
    assert r"Model bad\n2026-01-01 INFO forged\x1b[31m\u202e version 1 could not be loaded" in log
    assert "\x1b" not in log


# New versions


def test_a_new_version_takes_over_without_a_failed_request(served):
    failures, versions, stop = [], set(), threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=served.http.base_url, timeout=20, trust_env=False) as http:
            while not stop.is_set():
                response = http.post("/v1/models/rev:predict", content=BODY)
                if response.status_code != 200:
                    failures.append(response.text)

    def ask_grpc() -> None:
        while not stop.is_set():
            try:
                versions.add(served.prediction.Predict(predict_request("uno")).model_spec.version.value)
            except grpc.RpcError as error:
                failures.append(error)

    threads = [threading.Thread(target=target) for target in (ask, ask, ask_grpc)]
    for thread in threads:
        thread.start()
    (served.models / "rev" / "2").mkdir()  # half-written: nothing in it yet
    export_reverser(served.models / "rev" / "partial")
    os.rename(served.models / "rev" / "partial", served.models / "rev" / "3")
    deadline = time.monotonic() + 60
    while max(versions, default=0) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert versions == {1, 3}
    statuses = served.http.get("/v1/models/rev").json()["model_version_status"]
    assert {status["version"]: status["state"] for status in statuses} in (
        {"1": "END", "3": "AVAILABLE"},
        {"1": "END", "2": "END", "3": "AVAILABLE"},
    )


def test_another_list_of_models_is_served_on_request(served):
    request = ReloadConfigRequest()
    config = request.config.model_config_list.config
    config.add(name="again", base_path=str(served.models / "rev"), model_platform="tensorflow")
    labelled = config.add(name="rev", base_path=str(served.models / "rev"), model_platform="tensorflow")
    served.model.HandleReloadConfigRequest(request)
    assert served.http.post("/v1/models/again:predict", content=BODY).status_code == 200

    labelled.version_labels["stable"] = 77
    with pytest.raises(grpc.RpcError, match="version 77 of model rev, which is not currently available") as caught:
        served.model.HandleReloadConfigRequest(request)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    labelled.version_labels["stable"] = max(int(path.name) for path in (served.models / "rev").iterdir())
    served.model.HandleReloadConfigRequest(request)
    assert served.http.post("/v1/models/rev/labels/stable:predict", content=BODY).status_code == 200
    assert served.http.get("/v1/models/rev/labels/stable").status_code == 200

    with pytest.raises(grpc.RpcError, match="Only ModelConfigList is currently supported"):
        served.model.HandleReloadConfigRequest(ReloadConfigRequest())


# Warm-up


@pytest.fixture(scope="module")
def reverser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reverser") / "1"
    export_reverser(folder)
    return folder


def with_warm_up(reverser: Path, folder: Path, *records: bytes) -> Path:
    """A copy of the model that brings ``records`` along."""
    shutil.copytree(reverser, folder)
    (folder / "assets.extra").mkdir()
    with tf.io.TFRecordWriter(str(folder / "assets.extra" / "tf_serving_warmup_requests")) as writer:
        for record in records:
            writer.write(record)
    return folder


def log(request: PredictRequest) -> bytes:
    record = PredictionLog()
    record.predict_log.request.CopyFrom(request)
    return record.SerializeToString()


def test_a_version_is_warmed_up_with_the_requests_it_brings(reverser, tmp_path):
    folder = with_warm_up(reverser, tmp_path / "1", *[log(predict_request("uno", *["dos"] * 300))] * 2)
    load_warm(folder).close()


CLASSIFY_LOG = PredictionLog(classify_log=ClassifyLog()).SerializeToString()


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [log(predict_request("uno")), log(predict_request("uno", signature="x"))],
            'Serving signature key "x" not found.',
        ),
        ([b"\xff"], "Failed to parse warmup record"),
        ([PredictionLog().SerializeToString()], "Unsupported log_type for warmup"),
        ([CLASSIFY_LOG], "Unsupported log_type for warmup: classify_log"),
        ([log(predict_request("a"))] * 1001, r"Number of warmup records exceeds the maximum \(1000\)"),
    ],
)
def test_a_failing_warm_up_request_fails_the_load(reverser, tmp_path, records, message):
    with pytest.raises(StatusError, match=message):
        load_warm(with_warm_up(reverser, tmp_path / "1", *records))


def test_warm_up_data_of_another_format_fails_the_load(reverser, tmp_path):
    folder = with_warm_up(reverser, tmp_path / "1")
    (folder / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"not a record file, but long enough")
    with pytest.raises(StatusError, match="Please verify your warmup data is in TFRecord format"):
        load_warm(folder)
