"""Limits of requests, queue and connections over HTTP, without a SavedModel."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import re
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn
from browser import Browser
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp, Receive, Scope, Send

from nmt_keras.export.contract import CONTRACT
from serve import limits, server
from serve.core import Core
from serve.limits import Limits
from serve.models.model_config import models_in
from serve.models.repository import Repository
from serve.models.servable import Servable
from serve.models.signature import Signature, TensorSpec
from serve.rest.app import create_app


class Counted:
    """A servable that answers with the length of each text once ``released`` is set."""

    splits_texts = False

    def __init__(self, *, released: bool = False) -> None:
        self.inputs = {"text": TensorSpec("string", (None,))}
        self.entered = threading.Event()
        self.released = threading.Event()
        self.asked: list[bytes] = []
        if released:
            self.released.set()

    def signature(self, name: str) -> Counted:
        return self

    def run(self, signature: Counted, inputs: dict[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
        self.asked += inputs["text"].tolist()
        self.entered.set()
        assert self.released.wait(20)
        return {"length": np.array([len(text) for text in inputs["text"]], np.int32)}


class Splitting(Counted):
    """A servable whose graph splits texts into sentences."""

    splits_texts = True


PREDICT = "/v1/models/count:predict"


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    """Creates a client of an application that serves the given servable as the model ``count``.

    ``app`` has options of the application, and ``limits`` its limits.
    """
    with contextlib.ExitStack() as browsers:

        def make(
            servable: Counted, raise_app_exceptions: bool = True, app: dict | None = None, **limits: int
        ) -> Browser:
            (tmp_path / "count" / "1").mkdir(parents=True, exist_ok=True)
            repository = Repository(lambda: models_in(tmp_path), lambda path: servable)
            repository.start()
            application = create_app(Core(repository, Limits(**limits)), **(app or {}))
            return browsers.enter_context(contextlib.closing(Browser(application, raise_app_exceptions)))

        yield make


def count(browser: Browser, *texts: str) -> Awaitable[httpx.Response]:
    return browser.send("POST", PREDICT, json={"instances": texts})


# Requests


def test_a_request_beyond_the_queue_is_refused_and_those_before_it_are_answered(counted):
    servable = Counted()
    browser = counted(servable, concurrency=1, queue=1)

    async def one_too_many() -> httpx.Response:
        assert await asyncio.to_thread(servable.entered.wait, 20)
        waiting = asyncio.ensure_future(count(browser, "abcd"))
        await asyncio.sleep(0.1)
        refused = await count(browser, "abcde")
        servable.released.set()
        assert (await waiting).json() == {"predictions": [4]}
        return refused

    first, refused = browser.together(count(browser, "abc"), one_too_many())
    assert first.json() == {"predictions": [3]}
    assert refused.status_code == 503
    assert "again later" in refused.json()["error"]
    assert browser.together(count(browser, "ab"))[0].json() == {"predictions": [2]}


@pytest.mark.parametrize("is_packed", [False, True])
def test_small_requests_do_not_wait_for_large_ones_and_large_ones_leave_them_half_of_the_queue(counted, is_packed):
    class Slow(Counted):
        def run(self, signature: Counted, inputs: dict[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
            large = len(inputs["text"][0]) > 4096
            return super().run(signature, inputs, seconds) if large else {"length": np.array([0], np.int32)}

    servable = Slow()
    browser = counted(servable, concurrency=2, queue=2)
    large = json.dumps({"instances": ["a" * 5000]}).encode()
    content, headers = (gzip.compress(large), {"Content-Encoding": "gzip"}) if is_packed else (large, {})

    async def small_ones() -> list[httpx.Response]:
        assert await asyncio.to_thread(servable.entered.wait, 20)
        await asyncio.sleep(0.1)
        answers = [await count(browser, "ab") for _ in range(3)]
        servable.released.set()
        return answers

    sent = [browser.send("POST", PREDICT, content=content, headers=headers) for _ in range(4)]
    *asked, small = browser.together(*sent, small_ones())
    assert [answer.status_code for answer in small] == [200, 200, 200]
    assert sorted(answer.status_code for answer in asked) == [200, 200, 200, 503]


def test_a_graph_that_splits_texts_gets_as_few_sentences_as_others_get_rows(counted):
    browser = counted(Splitting(released=True), max_batch_rows=33)
    texts = ["Uno. Dos. Tres.", "No. " * 30]
    assert browser.post(PREDICT, json={"instances": texts}).status_code == 200
    lines = [f"{mark} Hola {n}" for n, mark in enumerate(11 * ("-", "🙂", "*"))]  # marks before a sentence are none
    assert browser.post(PREDICT, json={"instances": lines}).status_code == 200
    assert browser.post(PREDICT, json={"instances": ["No. " * 999]}).status_code == 200  # the graph skips the last
    for document in ({"instances": [*texts, "Más."]}, {"inputs": {"text": [*texts, "Más."]}}):
        refused = browser.post(PREDICT, json=document)
        assert refused.status_code == 400
        assert "more sentences than 33 (--max-batch-rows)" in refused.json()["error"]


def test_texts_are_not_split_after_the_deadline(counted, monkeypatch):
    texts = []
    monkeypatch.setattr(limits, "split", lambda text: texts.append(text) or time.sleep(0.2) or [])
    browser = counted(Splitting(released=True), rest_api_timeout_in_ms=300)
    assert browser.post(PREDICT, json={"instances": ["Hola."] * 9}).status_code == 504
    time.sleep(0.5)  # the thread would have split further texts
    assert len(texts) <= 2


def test_the_signature_of_an_export_that_splits_texts_is_known_by_its_outputs():
    split = [name for name, one in CONTRACT.items() if Signature({}, one.outputs).splits_texts]
    assert split == ["text", "sentences"]


def test_work_that_cannot_be_interrupted_gets_504_in_time_and_keeps_its_turn(counted):
    servable = Counted()
    browser = counted(servable, concurrency=1, queue=1, rest_api_timeout_in_ms=200)
    began = time.monotonic()
    assert browser.post(PREDICT, json={"instances": ["abc"]}).status_code == 504
    assert time.monotonic() - began < 5
    assert browser.post(PREDICT, json={"instances": ["abcd"]}).status_code == 504  # no turn is free
    servable.released.set()
    time.sleep(0.1)
    assert browser.post(PREDICT, json={"instances": ["abcde"]}).json() == {"predictions": [5]}
    assert servable.asked == [b"abc", b"abcde"]


def test_a_slow_body_does_not_keep_other_requests_waiting(counted):
    browser = counted(Counted(released=True), concurrency=1, queue=0)
    begun, answered = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b'{"instances": ["ab'
        begun.set()
        await answered.wait()
        yield b'cd"]}'

    async def quick() -> httpx.Response:
        await begun.wait()
        response = await count(browser, "abc")
        answered.set()
        return response

    patient, meanwhile = browser.together(browser.send("POST", PREDICT, content=slow()), quick())
    assert meanwhile.json() == {"predictions": [3]}
    assert patient.json() == {"predictions": [4]}


@pytest.mark.parametrize(
    ("limit", "value", "body", "status"),
    [
        ("max_batch_rows", 2, b'{"instances": ["a", "b", "c"]}', 400),
        ("max_batch_rows", 2, b'{"inputs": ["a", "b", "c"]}', 400),
        ("max_text_bytes", 3, '{"instances": ["abc", "ññ"]}'.encode(), 400),
        ("max_values", 50, b'{"x": [' + b"[]," * 1000 + b"]", 400),  # refused before parsing
        ("max_values", 1, b'{"inputs": ["a", "b"]}', 400),
        ("max_body_bytes", 40, b" " * 41, 413),
        ("max_body_bytes", 10_000, gzip.compress(b" " * 1_000_000), 413),
    ],
)
def test_a_request_beyond_a_limit_is_refused_with_the_option_that_sets_it(counted, limit, value, body, status):
    browser = counted(Counted(released=True), **{limit: value})
    headers = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
    response = browser.post(PREDICT, content=body, headers=headers)
    assert response.status_code == status
    option = limit.replace("_", "-")
    assert re.search(rf"\b{value}( bytes)? \(--{option}\)", response.json()["error"])


def test_an_answer_of_too_many_values_is_refused(counted):
    class Wide(Counted):
        def run(self, *_) -> dict[str, np.ndarray]:
            return {"a": np.zeros([1, 6]), "b": np.zeros([4])}

    assert (
        "10 values, more than 9 (--max-values)"
        in counted(Wide(), max_values=9).post(PREDICT, json={"inputs": "a"}).text
    )


LONG = "a" * 60_000


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("POST", PREDICT, {"json": {"signature_name": LONG * 10, "instances": ["a"]}}),
        ("POST", PREDICT, {"json": {"signature_name": [LONG * 10]}}),
        ("POST", PREDICT, {"json": {"inputs": {LONG * 10: ["a"]}}}),
        ("POST", PREDICT, {"json": {"instances": [{LONG * 10: "a"}]}}),
        ("POST", PREDICT, {"json": {"instances": [{"text": 1, LONG: "\0" * 60_000}]}}),
        ("POST", PREDICT, {"json": {"instances": ["a", {LONG: 1}]}}),
        ("POST", PREDICT, {"json": {"instances": [{"b64": LONG + "!"}]}}),
        ("POST", PREDICT, {"content": LONG * 10}),
        ("POST", f"/v1/models/{LONG}:predict", {"json": {"instances": ["a"]}}),
        ("POST", f"/v1/models/{LONG}:regress", {}),
        ("POST", f"/v1/models/count/labels/{LONG}:predict", {"json": {"instances": ["a"]}}),
        ("GET", f"/v1/models/{LONG}", {}),
        ("GET", f"/v1/models/{LONG}/metadata", {}),
        ("GET", f"/v1/models/count/labels/{'%00' * 20_000}/metadata", {}),
        ("GET", f"/v1/models/count/versions/{'9' * 60_000}", {}),
        ("GET", f"/v1/{LONG}", {}),
        ("GET", f"/{LONG}", {}),
        ("GET", f"/monitoring/prometheus/metrics?{LONG}", {}),
        ("GET", "/v1/models/count", {"headers": {"Host": LONG}}),
        ("A" * 60_000, "/v1/models/count", {}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_no_answer_repeats_much_of_what_a_client_sent(counted, method, path, sent):
    class Open(Counted):
        def signature(self, name: str) -> Counted:
            return Servable(None, {}).signature(name) if name else self

    app = {"with_monitoring": True, "hosts": {"server"} if "headers" in sent else ()}
    response = counted(Open(released=True), app=app).request(method, path, **sent)
    assert 400 <= response.status_code < 500
    assert len(response.content) < 15_000


def test_a_defect_of_the_server_is_answered_without_its_details(counted):
    class Broken(Counted):
        def signature(self, name: str) -> Counted:
            raise AssertionError("secret")

    response = counted(Broken(), raise_app_exceptions=False).post(PREDICT, json={})
    assert response.status_code == 500
    assert response.json() == {"error": "Internal error"}


def test_only_requests_for_an_accepted_host_are_answered():
    core = core_with()
    with contextlib.closing(Browser(create_app(core, hosts={"localhost", "[::1]"}))) as browser:
        for host, status in (
            ("localhost", 400),
            ("LOCALHOST:8501", 400),
            ("[::1]:80", 400),
            ("attacker.example", 403),
            ("localhost.attacker.example:8501", 403),
            ("", 403),
        ):
            assert browser.request("GET", "/v1/models", headers={"Host": host}).status_code == status, host
    assert b'nmt_serve_refusals_total{refused="request"} 3.0' in core.metrics.page()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # not a browser
        ({"Origin": "http://server"}, 200),
        ({"Origin": "HTTP://Server"}, 200),
        ({"Origin": "https://translate.example", "Sec-Fetch-Site": "same-origin"}, 200),  # behind a proxy
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://server:3000"}, 403),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": f"http://attacker.example/{LONG}"}, 403),
        ({"Origin": "http://[broken"}, 403),
        ({"Origin": "http://server", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
    ids=lambda value: str(value)[:60],
)
def test_pages_of_other_origins_cannot_make_the_server_translate(counted, headers, status):
    servable = Counted(released=True)
    # what fetch sends in mode no-cors
    content = {"content": b'{"instances": ["a"]}', "headers": {"Content-Type": "text/plain", **headers}}
    for with_cors, expected in ((False, status), (True, 200)):
        browser = counted(servable, app={"with_cors": with_cors})
        response = browser.post(PREDICT, **content)
        assert response.status_code == expected
        assert bool(servable.asked) == (expected == 200)
        assert len(response.content) < 15_000
        assert browser.request("GET", "/v1/models/count", headers=headers).status_code == 200


PACKED = gzip.compress(b'{"instances": ["a"]}')


@pytest.mark.parametrize(
    ("encoding", "body", "error"),
    [
        ("gzip", PACKED[:-9], "uncompress the gzipped body"),
        ("gzip", PACKED[10:], "uncompress the gzipped body"),
        ("gzip", PACKED + b"junk", "uncompress the gzipped body"),
        ("gzip", PACKED + PACKED, "uncompress the gzipped body"),
        ("br", b"{}", "Content-Encoding br"),
    ],
)
def test_a_body_of_another_compression_or_of_more_or_less_than_a_gzip_member_is_refused(counted, encoding, body, error):
    answer = counted(Counted(released=True)).post(PREDICT, content=body, headers={"Content-Encoding": encoding})
    assert (answer.status_code, error in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("encoding", ["", "Identity"])
def test_a_body_without_compression_may_have_the_header_too(counted, encoding):
    browser, body = counted(Counted(released=True)), b'{"instances": ["a"]}'
    assert browser.post(PREDICT, content=body, headers={"Content-Encoding": encoding}).status_code == 200


LATENCY = ":tensorflow:serving:request_latency"


def test_metrics_count_requests_by_model_and_status_and_have_the_queue_the_versions_and_the_memory(counted):
    browser = counted(Counted(released=True), app={"with_monitoring": True})
    for path in (PREDICT, "/v1/models/made-up:predict"):
        browser.post(path, json={"instances": ["a"]})
    page = browser.get("/monitoring/prometheus/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(page.text)
    found = {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}
    assert found["process_resident_memory_bytes",] > 1e7
    expected = {
        (":tensorflow:serving:request_count_total", "count", "OK"): 1,  # the parser appends _total
        (":tensorflow:serving:request_count_total", "", "NOT_FOUND"): 1,
        (f"{LATENCY}_count", "predict", "REST", "count"): 1,
        (f"{LATENCY}_bucket", "predict", "REST", "+Inf", "count"): 1,
        (f"{LATENCY}_count", "predict", "REST", ""): None,  # only successful requests
        (":tensorflow:serving:runtime_latency_count", "Predict", "count", "TF1"): 1,
        ("nmt_serve_requests_running",): 0,
        ("nmt_serve_requests_waiting",): 0,
        ("nmt_serve_version_loaded", "count", "1"): 1,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert "made-up" not in page.text


# Connections


@contextlib.contextmanager
def listening(app: ASGIApp, core: Core) -> Iterator[tuple[str, int]]:
    """Serves the application over HTTP in a thread of this process. Yields its address."""
    uvicorn_server = uvicorn.Server(server.http_config(app, core, shutdown_seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=uvicorn_server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            uvicorn_server.should_exit = True
            thread.join(20)


def core_with(**limits: int) -> Core:
    """Returns a core without models."""
    return Core(Repository(list, None), Limits(**limits))


def answer_of(chunk: bytes, count: int) -> ASGIApp:
    """Returns an application that answers every request with ``chunk``, ``count`` times."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for left in range(count - 1, -1, -1):
            await send({"type": "http.response.body", "body": chunk, "more_body": left > 0})

    return app


GET = b"GET / HTTP/1.1\r\nHost: s\r\n\r\n"


def first_line(address: tuple[str, int]) -> bytes:
    """Returns the first line of the answer to a request on a new connection. Empty if the server closes it."""
    with socket.create_connection(address, timeout=20) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(GET)
        return connection.makefile("rb").readline()
    return b""


@pytest.mark.parametrize(
    ("chunk", "count", "later"), [(2**24, 1, b""), (2**16, 256, GET)], ids=["whole, silent", "in chunks, pipelined"]
)
def test_a_client_that_does_not_read_its_answer_is_cut_off_whatever_it_sends(chunk, count, later):
    app, core = answer_of(b"a" * chunk, count), core_with(connections=1, rest_api_timeout_in_ms=1000)
    with listening(app, core) as address, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(address)
        stuck.sendall(GET)
        time.sleep(0.2)  # until the server cannot write further
        stuck.sendall(later)
        assert first_line(address) == b""  # the answer is still being sent
        give_up = time.monotonic() + 20
        while (status := first_line(address)) != b"HTTP/1.1 200 OK\r\n":
            assert time.monotonic() < give_up, status
            time.sleep(0.05)


CHUNKED = b"POST %b HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n" % PREDICT.encode()


def test_a_large_body_of_small_chunks_is_read_to_its_end(counted):
    body = json.dumps({"instances": ["a" * 5_000] * 2}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    app = counted(Counted(released=True)).app
    with listening(app, core_with()) as address, socket.create_connection(address, timeout=20) as connection:
        connection.sendall((CHUNKED + chunks) * 2 + GET)
        said = b""
        while said.count(b"HTTP/1.1 ") < 3:
            said += connection.recv(65536)
    assert said.count(b'{"predictions": [5000, 5000]}') == 2
    assert b"HTTP/1.1 404 " in said


def test_refused_connections_and_malformed_requests_are_counted_and_logged_without_their_content(caplog):
    core = core_with(connections=1)
    with listening(answer_of(b"a", 1), core) as address, socket.create_connection(address, timeout=20) as first:
        assert [first_line(address) for _ in range(2)] == [b"", b""]
        first.sendall(b"no HTTP\r\n\r\n")
        assert first.recv(65536).startswith(b"HTTP/1.1 400 ")
    page = core.metrics.page().decode()
    for refused, number in (("connection", 2.0), ("request", 1.0)):
        assert f'nmt_serve_refusals_total{{refused="{refused}"}} {number}' in page
    assert any("--connections 1" in message for message in caplog.messages)
    assert not any("no HTTP" in message for message in caplog.messages)


SLOW_HEADERS = GET[:-2] + b"X"


@pytest.mark.parametrize("sent", [SLOW_HEADERS, GET + SLOW_HEADERS], ids=["new", "after an answer"])
def test_a_connection_beyond_the_limit_is_closed_until_another_has_been_without_a_request_for_too_long(sent):
    with (
        listening(answer_of(b"a", 1), core_with(connections=2, rest_api_timeout_in_ms=1000)) as address,
        socket.create_connection(address, timeout=20) as waiting,
        contextlib.closing(http.client.HTTPConnection(*address, timeout=20)) as honest,
    ):
        honest.connect()
        waiting.sendall(sent)
        began, statuses = time.monotonic(), set()
        while time.monotonic() < began + 20 and b"HTTP/1.1 200 OK\r\n" not in statuses:
            statuses.add(first_line(address))
            with contextlib.suppress(ConnectionError):
                waiting.sendall(sent[-1:].strip())  # each byte is in time
            honest.request("GET", "/")  # an open connection is served meanwhile
            assert honest.getresponse().read() == b"a"
            time.sleep(0.1)
        assert statuses == {b"", b"HTTP/1.1 200 OK\r\n"}


def test_clients_that_leave_give_up_their_places_in_the_queue(counted):
    servable = Counted()
    limits = {"concurrency": 1, "queue": 3}

    def send(address: tuple[str, int], text: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("POST", PREDICT, json.dumps({"instances": [text]}))
        return connection

    with listening(counted(servable, **limits).app, core_with(**limits)) as address, contextlib.ExitStack() as opened:
        first = opened.enter_context(contextlib.closing(send(address, "first")))
        assert servable.entered.wait(20)
        for waiting in [send(address, "left") for _ in range(3)]:
            waiting.close()
        for _ in range(100):
            honest = opened.enter_context(contextlib.closing(send(address, "honest")))
            if not select.select([honest.sock], [], [], 0.5)[0]:
                break  # the request is queued; a refusal would have arrived
            assert honest.getresponse().status == 503
        servable.released.set()
        for connection in (first, honest):
            assert connection.getresponse().status == 200
    assert servable.asked == [b"first", b"honest"]
