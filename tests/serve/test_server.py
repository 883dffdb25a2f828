"""The embedded server as a process: models, metrics, hostile clients, new versions, shutdown."""

import contextlib
import http.client
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import tensorflow as tf
import uvicorn
from servers import ROOT, running_server

from serve import server

SECONDS = 2.0
"""Time limit of requests to the server of these tests, in seconds."""


class Toy(tf.Module):
    """A model with signatures of several types and shapes."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.float32, name="f"),
            tf.TensorSpec([None, 2], tf.int64, name="i"),
            tf.TensorSpec([None], tf.bool, name="b"),
        ]
    )
    def types(self, f, i, b):
        return {"third": f / 3.0, "sum": tf.reduce_sum(i, axis=1), "negated": tf.logical_not(b)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
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


class Running(NamedTuple):
    """A server of the models toy, rev and damaged."""

    http: httpx.Client
    stop: Callable[[], None]

    def toy(self, signature: str, **document: Any) -> httpx.Response:
        content = json.dumps({"signature_name": signature, **document})
        return self.http.post("/v1/models/toy:predict", content=content)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.http.base_url.host, self.http.base_url.port), timeout=20)


@pytest.fixture(scope="module")
def running(tmp_path_factory, reverser) -> Iterator[Running]:
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(reverser, models / "rev" / "1")
    toy = Toy()
    signatures = {name: getattr(toy, name) for name in ("types", "only", "fixed", "checked", "endless")}
    tf.saved_model.save(toy, str(models / "toy" / "7"), signatures=signatures)
    (models / "damaged" / "1").mkdir(parents=True)
    (models / "damaged" / "1" / "saved_model.pb").write_bytes(b"not a SavedModel")
    options = ["--poll-seconds", "0.1", "--concurrency", "1", "--max-batch-rows", "7"]
    options += ["--rest-api-timeout-in-ms", f"{SECONDS * 1000:.0f}", "--max-body-bytes", "100000"]
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(running_server(models, *options))
        over_http = stack.enter_context(httpx.Client(base_url=url, timeout=20, trust_env=False))
        yield Running(over_http, stack.close)
    assert "Traceback" not in (models / "server.log").read_text()


# Models


def test_inputs_of_several_types_reach_the_graph_under_their_names(running):
    rows = [{"f": 1, "i": [2, 3], "b": True}, {"f": float("nan"), "i": [2**40, 1], "b": False}]
    response = running.toy("types", instances=rows)
    assert '"third": 0.333333343' in response.text
    assert '"third": NaN' in response.text
    assert [row["sum"] for row in response.json()["predictions"]] == [5, 2**40 + 1]
    assert [row["negated"] for row in response.json()["predictions"]] == [False, True]


@pytest.mark.parametrize(
    ("signature", "document", "message"),
    [
        ("fixed", {"inputs": [1.0, 2.0, 3.0]}, r"Shape of input x: expected [2], received [3]"),
        ("fixed", {"instances": [1.0, 2.0]}, "total has no shape information"),
        ("types", {"inputs": {"f": [1], "i": [[1]], "b": [True]}}, "Shape of input i: expected [?,2], received [1,1]"),
        ("checked", {"instances": [4, -1]}, "not positive"),
        ("only", {"instances": ["a"] * 8}, "--max-batch-rows"),
    ],
)
def test_a_request_that_does_not_fit_its_signature_is_refused(running, signature, document, message):
    response = running.toy(signature, **document)
    assert response.status_code == 400
    assert message in response.json()["error"]
    assert not response.json()["error"].startswith("Graph execution error")


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("toy:classify", 400, ":predict"),
        ("toy/versions/7:regress", 400, ":predict"),
        ("nope:classify", 404, "nope"),
        ("toy/versions/2:regress", 404, "toy, 2"),
        ("damaged:predict", 404, "damaged"),
    ],
)
def test_methods_other_than_predict_and_models_that_are_not_served_are_refused(running, path, status, named):
    response = running.http.post(f"/v1/models/{path}", content=b"{}")
    assert response.status_code == status
    assert named in response.json()["error"]


def test_a_damaged_model_has_its_reason_in_its_status(running):
    (status,) = running.http.get("/v1/models/damaged").json()["model_version_status"]
    assert (status["version"], status["state"]) == ("1", "END")
    assert status["status"]["error_code"] == "NOT_FOUND"
    assert "saved_model.pb" in status["status"]["error_message"]


def test_a_graph_that_does_not_end_is_stopped(running):
    assert running.toy("endless", instances=[1]).status_code == 504
    assert running.toy("checked", instances=[4]).json() == {"predictions": [2.0]}  # the only slot is free


# Difficult clients

BODY = b'{"instances": ["uno dos"]}'
LENGTH = f"Content-Length: {len(BODY)}"
CLOSE = "Connection: close"


def talk(running: Running, request: bytes) -> bytes:
    """Sends a request. Returns everything that the server sends until it closes the connection."""
    said = b""
    with running.connect() as connection, contextlib.suppress(ConnectionError):
        with contextlib.suppress(ConnectionError):  # the server may close before it has read a refused request
            connection.sendall(request)
        while more := connection.recv(65536):
            said += more
    return said


def post(body: bytes, *headers: str, path: str = "/v1/models/rev:predict", version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: server", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


CHUNKS = b"5\r\n" + BODY[:5] + b"\r\n15\r\n" + BODY[5:] + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        post(BODY, LENGTH, version="1.0"),
        post(BODY, LENGTH, CLOSE, path="http://server/v1/models/rev:predict"),
        post(BODY, LENGTH, f"{CLOSE}, Upgrade", "Upgrade: websocket"),
    ],
    ids=["1.0", "absolute", "upgrade"],
)
def test_an_old_client_an_absolute_path_and_an_offer_to_upgrade_are_understood(running, request_):
    said = talk(running, request_)
    assert b" 200 OK" in said
    assert b'"translation": "dos uno"' in said


@pytest.mark.parametrize("path", ["", "?x=1", "/page.js", "/healthz"])
def test_the_page_and_the_health_check_have_absolute_paths_too(running, path):
    request = f"GET http://server{path} HTTP/1.1\r\nHost: server\r\n{CLOSE}\r\n\r\n"
    assert talk(running, request.encode()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /v1/models/" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: s\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: s\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n", 400),
        (post(CHUNKS, "Transfer-Encoding: chunked", LENGTH), 400),
        (post(CHUNKS * 9000, "Content-Length: 0", "Transfer-Encoding: chunked"), 400),
        (post(b"", CLOSE), 400),
        (post(b"", "Content-Length: 99999999999999999999", CLOSE) + b"x" * 200_000, 413),
        (b"HEAD /v1/models/rev HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 400),
        (b"TRACE /v1/models/rev HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 400),
        (b"CONNECT /healthz HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 404),
        (b"GET /v1/models/%FF%00%2F HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n", 404),
    ],
    ids=lambda value: str(value[:24]) if isinstance(value, bytes) else str(value),
)
def test_a_malformed_request_is_refused_and_the_next_one_is_answered(running, request_, status):
    assert talk(running, request_).startswith(f"HTTP/1.1 {status} ".encode())
    assert running.http.post("/v1/models/rev:predict", content=BODY).status_code == 200


def test_a_client_that_does_not_finish_its_body_gets_408(running):
    said = talk(running, post(BODY[:9], LENGTH))
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"--rest-api-timeout-in-ms" in said


def test_a_client_that_leaves_early_does_not_disturb_others(running):
    for part in (b"", b"POST", post(b"", LENGTH), post(BODY[:9], LENGTH), post(BODY, LENGTH)):
        with running.connect() as connection:
            connection.sendall(part)
    assert running.http.post("/v1/models/rev:predict", content=BODY).status_code == 200


def test_a_forged_line_in_the_message_of_an_exception_is_indented_in_the_log():
    error = ValueError("a\n2026-01-01 INFO forged\x1b")
    record = logging.LogRecord("x", logging.ERROR, "", 0, "Model %s", ("b\r\nc",), (ValueError, error, None))
    first, *others = server.LogFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert first == r"ERROR Model b\r\nc"
    assert others == ["    ValueError: a", r"    2026-01-01 INFO forged\x1b"]


def test_a_repeated_warning_is_logged_once_a_minute(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("serve.server.time.monotonic", lambda: now[0])
    repeats = server.RepeatFilter()

    def is_logged(level: int, message: str) -> bool:
        return repeats.filter(logging.LogRecord("x", level, "", 0, message, None, None))

    assert [is_logged(logging.WARNING, message) for message in "aab"] == [True, False, True]
    assert [is_logged(logging.INFO, "a") for _ in range(2)] == [True, True]
    now[0] += 61.0
    assert is_logged(logging.WARNING, "a")


# Command


def test_sigterm_lets_requests_under_way_finish_and_the_exit_code_is_0(running):
    """This must be the last test with ``running``. ``running_server`` checks the exit code."""
    url = running.http.base_url
    with contextlib.closing(http.client.HTTPConnection(url.host, url.port, timeout=30)) as endless:
        endless.request("POST", "/v1/models/toy:predict", '{"signature_name": "endless", "instances": [1]}')
        assert running.http.get("/v1/models/toy").status_code == 200  # the server has now received the first request
        running.stop()
        assert endless.getresponse().status == 504


LOADING = """
import ctypes, signal, sys, types
from serve import server

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even if the tests ignore it, as under nohup

mutex = ctypes.create_string_buffer(64)
lock = ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)

class Servable:
    def close(self):
        pass

def load_warm(folder):
    print("loading", folder.parent.name, flush=True)
    if folder.parent.name != "first":
        lock(mutex)  # does not return to Python for a signal, as TensorFlow's loader does not
    return Servable()

sys.modules["serve.models.warmup"] = types.SimpleNamespace(load_warm=load_warm)
usual = ["--port", "0", "--poll-seconds", "0.1", "--shutdown-seconds", "1"]
server.main(["--model-dir", sys.argv[1], *usual, *sys.argv[2:]])
"""
"""A server on which only the model ``first`` loads. All others block forever."""


@contextlib.contextmanager
def loading_server(folder: Path, *options: str) -> Iterator[subprocess.Popen]:
    """Runs a server of the models in ``folder`` that only loads ``first``."""
    command = [sys.executable, "-c", LOADING, str(folder), *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def address_of(process: subprocess.Popen) -> str:
    """Returns the address of a server that has loaded ``first``."""
    assert process.stdout.readline() == "loading first\n"
    return process.stdout.readline().split()[-1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "at_start"), [(signal.SIGTERM, True), (signal.SIGTERM, False), (signal.SIGHUP, False)]
)
def test_a_signal_does_not_wait_for_models_that_are_loading_and_loads_no_others(tmp_path, number, at_start):
    (tmp_path / ("second" if at_start else "first") / "1").mkdir(parents=True)
    with loading_server(tmp_path) as process:
        if not at_start:
            assert address_of(process)
        for name in ("second", "third"):
            (tmp_path / name / "1").mkdir(parents=True, exist_ok=True)
        assert process.stdout.readline() == "loading second\n"
        process.send_signal(number)
        said, errors = process.communicate(timeout=20)
    assert (process.returncode, said) == (0, "")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--model-dir", "nowhere"], "--model-dir.*nowhere.*saved_models/spa-eng.*nmt export"),
        (["--model-dir", "."], "--model-dir: . contains no model.*saved_models/spa-eng.*nmt export"),
        (["--model-dir", "a", "--model-config-file", "b"], "--model-dir, --model-config-file: expected at most one of"),
        (["--model-config-file", "nowhere.config"], "nowhere.config: expected a text file"),
        (["--port", "65536"], "--port.*65536"),
        (["--poll-seconds", "-1"], "--poll-seconds.*-1"),
        (["--load-retry-interval-micros", "-1"], "--load-retry-interval-micros.*-1"),
        (["--shutdown-seconds", "0"], "--shutdown-seconds.*0"),
        (["--queue", "-1"], "--queue.*-1"),
        (["--concurrency", "0"], "--concurrency.*0"),
        (["--max-body-bytes", "0"], "--max-body-bytes.*0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_refused_with_its_name_and_value(arguments, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        server.main(arguments)
    assert caught.value.code
    assert re.search(named, f"{caught.value} {capsys.readouterr().err}")


def test_a_busy_port_is_refused_before_any_model_is_loaded(tmp_path):
    (tmp_path / "toy" / "1").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(SystemExit, match=f"port {port}: .* in use"):
            server.main(["--model-dir", str(tmp_path), "--port", str(port)])
    with pytest.raises(SystemExit, match="Pass an address of this machine"):
        server.main(["--model-dir", str(tmp_path), "--host", "192.0.2.1", "--port", "0"])


def test_a_port_that_another_program_listens_on_meanwhile_is_named():
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        with server._bind(*other.getsockname()) as ours:
            other.listen()
            config = uvicorn.Config(print, log_config=None, lifespan="off")
            with pytest.raises(ValueError, match=r"http://here: .* in use\. Choose another port"):
                server.Server(config, None, "http://here").run(sockets=[ours])


def test_a_log_of_json_has_duration_id_and_the_client_of_the_proxy_also_of_a_request_that_a_stop_cuts_off(tmp_path):
    (tmp_path / "first" / "1").mkdir(parents=True)
    with loading_server(tmp_path, "--access-log", "--log-format", "json") as process:
        url = httpx.URL(address_of(process))
        with contextlib.closing(http.client.HTTPConnection(url.host, url.port, timeout=20)) as unfinished:
            unfinished.request("POST", "/v1/models/first:predict", headers={"Content-Length": "9"})
            headers = {"X-Forwarded-For": "203.0.113.66", "X-Request-Id": "a-1"}
            answer = httpx.get(url.join("/v1/models/a%0Ab"), headers=headers, trust_env=False)
            other = httpx.get(url.join("/healthz?x=1"), headers={"X-Request-Id": "no spaces"}, trust_env=False)
            process.terminate()
            _, log = process.communicate(timeout=20)
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if "path" in line]
    assert [(line["status"], line["path"]) for line in requests] == [
        (404, "/v1/models/a%0Ab"),
        (200, "/healthz?x=1"),
        (503, "/v1/models/first:predict"),
    ]
    assert requests[0]["request_id"] == answer.headers["x-request-id"] == "a-1"
    assert requests[1]["request_id"] == other.headers["x-request-id"] != "no spaces"
    assert requests[0]["forwarded_for"] == "203.0.113.66"
    assert all(line["milliseconds"] >= 0 for line in requests)
    messages = [line["message"] for line in lines if line["level"] == "ERROR"]
    assert messages == ["Cancel 1 running task(s), timeout graceful shutdown exceeded"]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            [],
            [
                "INFO Model first version 1 is being loaded",
                "INFO Model first version 1 loaded",
                "INFO Stopping; running requests: 0",
                "INFO Model first version 1 unloaded",
            ],
        ),
        (
            ["--access-log"],
            [
                "INFO Model first version 1 is being loaded",
                "INFO Model first version 1 loaded",
                '"GET /healthz HTTP/1.1" 200',
                '"GET /v1/models/a%0Ab HTTP/1.1" 404',
                "INFO Stopping; running requests: 0",
                "INFO Model first version 1 unloaded",
            ],
        ),
        (["--access-log", "--log-level", "warning"], []),
    ],
    ids=["default", "requests", "warnings"],
)
def test_the_log_has_what_its_options_ask_for(tmp_path, options, lines):
    (tmp_path / "first" / "1").mkdir(parents=True)
    with loading_server(tmp_path, *options) as process:
        url = address_of(process)
        assert httpx.get(f"{url}/healthz", trust_env=False).text == "ok"
        httpx.get(f"{url}/v1/models/a%0Ab", headers={"X-Forwarded-For": "203.0.113.66"}, trust_env=False)
        process.terminate()
        _, log = process.communicate(timeout=20)
    found = log.splitlines()
    assert len(found) == len(lines), log
    assert all(part in line for part, line in zip(lines, found, strict=True)), log
    assert "203.0.113.66" not in log


HIDING = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from nmt_keras.io.startup import native_messages_hidden

def hide(seconds):
    with native_messages_hidden():
        time.sleep(seconds)

with ThreadPoolExecutor(2) as threads:
    list(threads.map(hide, [0.1, 0.3]))  # the first would end within the second

with native_messages_hidden():
    os.write(2, b"native 1\\n")
    print("python", file=sys.stderr)
os.write(2, b"native 2\\n")
with native_messages_hidden():
    os.write(2, b"native 3\\n")
    raise ValueError("fault")
"""


@pytest.mark.parametrize(
    ("level", "hidden", "system"),
    [
        ("2", {"native 1"}, ""),
        ("2", {"native 1"}, "import os; del os.memfd_create"),
        ("1", set(), ""),
    ],
)
def test_native_messages_are_hidden_unless_an_error_or_the_environment_asks_for_them(level, hidden, system):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": level}
    done = subprocess.run(
        [sys.executable, "-c", system + HIDING], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    shown = set(done.stderr.splitlines())
    assert {"native 1", "python", "native 2", "native 3", "ValueError: fault"} - shown == hidden
