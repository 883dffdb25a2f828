"""The embedded server: routes before a real SavedModel, and the command."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from browser import Browser

from serve import server
from serve.core import Core
from serve.limits import Limits
from serve.models.model_config import models_in, version_folders
from serve.models.repository import Repository
from serve.models.status import StatusError
from serve.rest.app import create_app

ROOT = Path(__file__).parents[2]


def test_versions_are_the_folders_whose_names_are_numbers(tmp_path):
    for folder in ("spa/1", "spa/0010", "spa/tmp-11", "spa/9.5", "spa/-3", "spa/²", "empty", "draft/next"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "spa/12").write_text("a file")
    (tmp_path / "file").write_text("a file")
    assert version_folders(tmp_path / "spa") == {1: tmp_path / "spa/1", 10: tmp_path / "spa/0010"}
    assert [model.name for model in models_in(tmp_path)] == ["draft", "empty", "spa"]


# A real SavedModel


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of many signatures in two versions, and a damaged model."""
    import tensorflow as tf

    strings = tf.TensorSpec([None], tf.string, name="text")
    folder = tmp_path_factory.mktemp("models")

    class Toy(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = tf.Variable(0.5)

        @tf.function(input_signature=[strings])
        def translate(self, text):
            text = tf.ensure_shape(text, [None])
            length = tf.strings.length(text, unit="UTF8_CHAR")
            score = self.bias + tf.cast(length, tf.float32)
            return {"translation": tf.strings.upper(text, encoding="utf-8"), "score": score, "truncated": length > 9}

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.float32, name="f"),
                tf.TensorSpec([None, 2], tf.int64, name="i"),
                tf.TensorSpec([None], tf.bool, name="b"),
            ]
        )
        def types(self, f, i, b):
            return {"third": f / 3.0, "sum": tf.reduce_sum(i, axis=1), "negated": tf.logical_not(b)}

        @tf.function(input_signature=[strings])
        def only(self, text):
            return {"raw_bytes": tf.identity(text)}

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
        def fixed(self, x):
            return {"total": tf.reduce_sum(x)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
        def checked(self, x):
            with tf.control_dependencies([tf.debugging.assert_positive(x, message="not positive")]):
                return {"root": tf.sqrt(tf.cast(x, tf.float32))}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="x")])
        def endless(self, x):
            return {"count": x + tf.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [0])[0]}

    toy = Toy()
    signatures = {name: getattr(toy, name) for name in ("types", "only", "fixed", "checked", "endless")}
    tf.saved_model.save(toy, str(folder / "toy" / "7"), signatures={"serving_default": toy.translate, **signatures})
    older = folder / "toy" / "2"
    older.mkdir()
    damaged = folder / "damaged" / "1"
    damaged.mkdir(parents=True)
    (damaged / "saved_model.pb").write_bytes(b"not a SavedModel")
    return folder


@pytest.fixture(scope="module")
def client(model_dir: Path) -> Iterator[Browser]:
    from serve.models.servable import load_servable

    repository = Repository(lambda: models_in(model_dir), load_servable)
    repository.start()
    browser = Browser(create_app(Core(repository, Limits(rest_api_timeout_in_ms=5000))))
    yield browser
    browser.close()
    repository.close()


def predict(client: Browser, document: object, path: str = "/v1/models/toy:predict") -> httpx.Response:
    return client.post(path, json=document)


@pytest.mark.server
@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/toy:predict",
        "/v1/models/toy/versions/7:predict",
        "/v1/models/toy/versions/007:predict",
        "/V1/Models/toy:PREDICT",
        "/v1/models/t%6Fy:predict",
    ],
)
def test_a_model_answers_under_each_spelling_of_its_path(client, path):
    response = predict(client, {"instances": ["¿qué?", "ñandúes corren"]}, path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "predictions": [
            {"score": 5.5, "translation": "¿QUÉ?", "truncated": False},
            {"score": 14.5, "translation": "ÑANDÚES CORREN", "truncated": True},
        ]
    }


@pytest.mark.server
def test_columns_are_answered_by_columns(client):
    response = predict(client, {"signature_name": "serving_default", "inputs": {"text": ["a"]}})
    assert response.json() == {"outputs": {"score": [1.5], "translation": ["A"], "truncated": [False]}}


@pytest.mark.server
def test_an_empty_batch_gets_an_empty_answer(client):
    outputs = predict(client, {"inputs": {"text": []}}).json()["outputs"]
    assert outputs == {"score": [], "translation": [], "truncated": []}


@pytest.mark.server
def test_several_inputs_of_several_types_reach_the_graph_under_their_names(client):
    rows = [{"f": 1, "i": [2, 3], "b": True}, {"f": float("nan"), "i": [2**40, 1], "b": False}]
    response = client.post(
        "/v1/models/toy:predict", content=json.dumps({"signature_name": "types", "instances": rows}).encode()
    )
    assert '"third": 0.333333343' in response.text
    assert '"third": NaN' in response.text
    assert [row["sum"] for row in response.json()["predictions"]] == [5, 2**40 + 1]
    assert [row["negated"] for row in response.json()["predictions"]] == [False, True]


@pytest.mark.server
def test_bytes_travel_both_ways_as_base64(client):
    response = predict(client, {"signature_name": "only", "instances": [{"b64": "/wA="}]})
    assert response.json() == {"predictions": [{"b64": "/wA="}]}


@pytest.mark.server
def test_a_gzipped_request_is_unpacked(client):
    body = gzip.compress(json.dumps({"instances": ["a"]}).encode())
    headers = {"Content-Encoding": "gzip"}
    assert client.post("/v1/models/toy:predict", content=body, headers=headers).status_code == 200
    for damaged in (body[:-9], b"plain", body + b"junk", body + body):
        response = client.post("/v1/models/toy:predict", content=damaged, headers=headers)
        assert response.status_code == 400
        assert response.json()["error"].startswith("Failed to uncompress the gzipped body")


@pytest.mark.server
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/v1/models/nope:predict", "{}", 404, "Servable not found for request: Latest(nope)"),
        ("POST", "/v1/models/toy/versions/2:predict", "{}", 404, "Servable not found for request: Specific(toy, 2)"),
        ("POST", "/v1/models/damaged:predict", "{}", 404, "Servable not found for request: Latest(damaged)"),
        ("POST", "/v1/models/toy/labels/stable:predict", "{}", 400, "Unrecognized servable version label: stable"),
        ("GET", "/v1/models/nope", "", 404, "Could not find any versions of model nope"),
        ("GET", "/v1/models/toy/versions/2", "", 404, "Could not find version 2 of model toy"),
        ("GET", "/v1/models/toy/labels/a%20b/metadata", "", 400, "Unrecognized servable version label: a b"),
        ("GET", "/v1/models/nope/metadata", "", 404, "Servable not found for request: Latest(nope)"),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"signature_name": "x"}',
            400,
            'Serving signature name: "x" not found in signature def',
        ),
        ("POST", "/v1/models/toy:predict", "", 400, "JSON Parse error: The document is empty"),
        ("POST", "/v1/models/toy:predict", "3", 400, "JSON Value: 3 Is not object"),
        ("POST", "/v1/models/toy:predict", "{}", 400, "Missing 'inputs' or 'instances' key"),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"inputs": 1}',
            400,
            "JSON Value: 1 Type: Number is not of expected type: string",
        ),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"inputs": "hello"}',
            400,
            "Shape of input text: expected [?], received []",
        ),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"signature_name": "fixed", "inputs": [1.0, 2.0, 3.0]}',
            400,
            "Shape of input x: expected [2], received [3]",
        ),
        (
            "POST",
            "/v1/models/toy:predict",
            '{"signature_name": "fixed", "instances": [1.0, 2.0]}',
            400,
            "Tensor name: total has no shape information ",
        ),
        ("GET", "/v1/models", "", 400, "Malformed request: GET /v1/models"),
        ("GET", "/v1/models/metadata", "", 404, "Could not find any versions of model metadata"),
        ("GET", "/v1/models/toy?x=1", "", 404, "Could not find any versions of model toy?x=1"),
        ("GET", "/v1/models/toy/", "", 400, "Malformed request: GET /v1/models/toy/"),
        ("GET", "/v1/models/toy:predict", "", 400, "Malformed request: GET /v1/models/toy:predict"),
        ("POST", "/v1/models/toy", "{}", 400, "Malformed request: POST /v1/models/toy"),
        ("POST", "/v1/models/toy:predict/", "{}", 400, "Malformed request: POST /v1/models/toy:predict/"),
        ("PUT", "/v1/models/toy:predict", "{}", 400, "Malformed request: PUT /v1/models/toy:predict"),
        ("GET", "/v1/models/toy/versions/x", "", 400, "Malformed request: GET /v1/models/toy/versions/x"),
        (
            "GET",
            f"/v1/models/toy/versions/{2**63}",
            "",
            400,
            f"Failed to convert version: {2**63} to numeric.",
        ),
        ("OPTIONS", "/v1/models/toy", "", 400, "Malformed request: OPTIONS /v1/models/toy"),
        ("GET", "/", "", 404, "Not Found"),
        ("GET", "/v2/models/toy", "", 404, "Not Found"),
    ],
)
def test_each_failure_has_tensorflow_servings_status_and_message(client, method, path, body, status, message):
    response = client.request(method, path, content=body)
    assert response.json() == {"error": message}
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"


@pytest.mark.server
@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "JSON Parse error"),  # before the type of signature_name, the model, the signature, the inputs
        ('{"signature_name": 1}', "'signature_name' key must be a string value."),
        ('{"signature_name": "x"}', "Servable not found for request: Latest(nope)"),
    ],
)
def test_a_request_with_several_mistakes_is_told_the_first_in_tensorflow_servings_order(client, document, message):
    assert message in client.post("/v1/models/nope:predict", content=document).json()["error"]


@pytest.mark.server
@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/v1/models/toy:classify", 400, ":predict"),
        ("/v1/models/toy/versions/7:regress", 400, ":predict"),
        ("/v1/models/nope:classify", 404, "nope"),
        ("/v1/models/toy/versions/2:regress", 404, "toy, 2"),
    ],
)
def test_classify_and_regress_point_to_predict_without_reading_the_body(client, path, status, named):
    async def body() -> AsyncIterator[bytes]:
        pytest.fail("read")
        yield b""

    (response,) = client.together(client.send("POST", path, content=body()))
    assert response.status_code == status
    assert named in response.json()["error"]


@pytest.mark.server
def test_a_preflight_from_a_web_page_is_answered_with_an_empty_body(client):
    response = client.request("OPTIONS", "/v1/models/toy:predict", headers={"Origin": "https://example.org"})
    assert response.status_code == 200
    assert response.content == b""
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.server
def test_an_error_raised_inside_the_graph_is_the_clients_with_the_graphs_own_words(client):
    response = predict(client, {"signature_name": "checked", "instances": [4, -1]})
    assert response.status_code == 400
    assert "not positive" in response.json()["error"]
    assert not response.json()["error"].startswith("Graph execution error")
    assert predict(client, {"signature_name": "checked", "instances": [4]}).json() == {"predictions": [2.0]}


@pytest.mark.server
def test_a_graph_that_does_not_end_is_stopped_and_the_next_request_is_answered(model_dir):
    from serve.models.servable import load_servable

    servable = load_servable(model_dir / "toy" / "7")
    endless = servable.signature("endless")
    with pytest.raises(StatusError, match="Timed out") as caught:
        servable.run(endless, {"x": np.array([1], np.int32)}, seconds=0.2)
    assert caught.value.code.http == 504
    text = {"text": np.array([b"a"], object)}
    assert servable.run(servable.signature(""), text, seconds=20)["translation"].tolist() == [b"A"]
    servable.close()


@pytest.mark.server
def test_the_status_of_a_loaded_model_is_available_in_protocol_buffers_json(client):
    status = {"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in ("/v1/models/toy", "/v1/models/toy/versions/7"):
        assert client.get(path).json() == {"model_version_status": [status]}


@pytest.mark.server
def test_a_damaged_model_says_so_in_its_status_while_the_others_are_served(client):
    (status,) = client.get("/v1/models/damaged").json()["model_version_status"]
    assert status["version"] == "1"
    assert status["state"] == "END"
    assert status["status"]["error_code"] == "NOT_FOUND"
    assert "saved_model.pb" in status["status"]["error_message"]
    assert client.get("/v1/models/toy").status_code == 200


@pytest.mark.server
def test_metadata_lists_the_signatures_with_their_types_and_shapes(client):
    answer = client.get("/v1/models/toy/metadata").json()
    assert client.get("/V1/models/toy/METADATA").json() == answer
    assert answer["model_spec"] == {"name": "toy", "signature_name": "", "version": "7"}
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"serving_default", "types", "only", "fixed"} <= set(signatures)
    matrix = signatures["types"]["inputs"]["i"]
    assert matrix["dtype"] == "DT_INT64"
    assert matrix["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}],
        "unknown_rank": False,
    }
    assert signatures["types"]["method_name"] == "tensorflow/serving/predict"


@pytest.mark.server
def test_requests_at_the_same_time_get_their_own_answers(client):
    texts = ["a" * length for length in range(1, 9)]
    requests = [client.send("POST", "/v1/models/toy:predict", json={"instances": [text]}) for text in texts]
    answers = [response.json()["predictions"][0]["translation"] for response in client.together(*requests)]
    assert answers == [text.upper() for text in texts]


# Process


def test_help_does_not_wait_for_tensorflow():
    code = """
import sys
from serve import server
try:
    server.main(["--help"])
except SystemExit:
    sys.exit("tensorflow" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "--max-batch-rows" in run.stdout


def test_a_folder_that_is_missing_or_holds_no_version_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"--model-dir: expected a folder, received .*nowhere"):
        server.main(["--model-dir", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit, match=r"--model-dir: expected NAME/VERSION/saved_model.pb in .* found no version"):
        server.main(["--model-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model-dir, --model-config-file: expected one of the two"),
        (["--model-dir", "a", "--model-config-file", "b"], "--model-dir, --model-config-file: expected one of the two"),
        (["--model-config-file", "nowhere"], "nowhere: expected a text file with a ModelServerConfig"),
        (["--model-dir", "a", "--port", "65536"], "--port: expected 0 to 65535, received 65536"),
        (["--model-dir", "a", "--grpc-port", "-1"], "--grpc-port: expected 0 to 65535, received -1"),
        (["--model-dir", "a", "--grpc-port", "8501"], "--grpc-port: expected another port than REST's, received 8501"),
        (["--model-dir", "a", "--poll-seconds", "-1"], "--poll-seconds: expected 0 or more, received -1"),
        (
            ["--model-dir", "a", "--load-retry-interval-micros", "-1"],
            "--load-retry-interval-micros: expected 0 or more, received -1",
        ),
        (["--model-dir", "a", "--queue", "-1"], "--queue: expected 0 or more, received -1"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_was_expected(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        server.main(arguments)
    assert caught.value.code
    said = f"{caught.value} {capsys.readouterr().err}"
    assert message in " ".join(said.replace("│", " ").split())


def test_a_forged_line_in_an_exceptions_message_is_indented_in_the_log():
    try:
        raise ValueError("a\n2026-01-01 INFO forged\x1b")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "Model %s", ("b\r\nc",), sys.exc_info())
    first, *others = server.LogFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first == r"ERROR Model b\r\nc"
    assert all(line.startswith("    ") for line in others)
    assert others[-1] == r"    2026-01-01 INFO forged\x1b"


def test_a_busy_port_is_refused_before_any_model_is_loaded(tmp_path):
    (tmp_path / "toy" / "1").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(SystemExit, match=f"cannot listen on 127.0.0.1 port {port}: .* in use"):
            server.main(["--model-dir", str(tmp_path), "--port", str(port)])


@pytest.mark.server
def test_the_process_listens_when_ready_finishes_what_is_under_way_and_exits_with_0_on_sigterm(model_dir):
    command = [sys.executable, "-m", "serve.server", "--model-dir", str(model_dir), "--port", "0"]
    with subprocess.Popen(
        [*command, "--rest-api-timeout-in-ms", "3000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = httpx.URL(process.stdout.readline().removeprefix("Listening on ").strip())
            assert url.host == "127.0.0.1"
            predict = url.join("/v1/models/toy:predict")
            answer = httpx.post(predict, json={"instances": ["uno"]}, timeout=30)
            assert answer.json()["predictions"][0]["translation"] == "UNO"

            endless = http.client.HTTPConnection(url.host, url.port, timeout=30)
            endless.request("POST", predict.path, json.dumps({"signature_name": "endless", "instances": [1]}))
            # This answer says that the server has read what lay in its sockets before.
            assert httpx.get(url.join("/v1/models/toy"), timeout=30).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert endless.getresponse().status == 504
            endless.close()
            assert process.wait(30) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()
