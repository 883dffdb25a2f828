"""The limits of requests, queue and connections over HTTP; no SavedModel here."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import http.client
import json
import select
import socket
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn
from browser import Browser
from starlette.types import ASGIApp, Receive, Scope, Send

from serve import server
from serve.core import Core
from serve.limits import Limits, require_few_values
from serve.metrics import Call
from serve.models.model_config import models_in
from serve.models.repository import Repository
from serve.models.servable import Servable
from serve.models.signature import Signature, TensorSpec
from serve.models.status import Code, StatusError
from serve.rest.app import create_app

TEXT = {"text": TensorSpec("string", (None,))}


class Counted:
    """Stands in for a servable: answers the length of each text, once it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()
        self.asked: list[bytes] = []

    def signature(self, name: str) -> Counted:
        return self

    inputs = TEXT

    def run(self, signature: Counted, inputs: dict[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
        self.asked += inputs["text"].tolist()
        self.entered.set()
        assert self.released.wait(20)
        return {"length": np.array([len(text) for text in inputs["text"]], np.int32)}

    def close(self) -> None:
        pass


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    """Makes a browser before an application whose only model, ``count``, is the servable it is given."""
    browsers = []

    def make(servable: Counted, limits: Limits, raise_app_exceptions: bool = True) -> Browser:
        (tmp_path / "count" / "1").mkdir(parents=True)
        repository = Repository(lambda: models_in(tmp_path), lambda path: servable)
        repository.start()
        browsers.append(Browser(create_app(Core(repository, limits)), raise_app_exceptions))
        return browsers[-1]

    yield make
    for browser in browsers:
        browser.close()


def count(browser: Browser, *texts: str) -> Awaitable[httpx.Response]:
    return browser.send("POST", "/v1/models/count:predict", json={"instances": texts})


def test_a_request_beyond_the_queue_is_turned_away_and_those_before_it_are_answered(counted):
    servable = Counted()
    browser = counted(servable, Limits(concurrency=1, queue=1))

    async def one_too_many() -> httpx.Response:
        while not servable.entered.is_set():
            await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(count(browser, "abcd"))
        await asyncio.sleep(0.1)
        refused = await count(browser, "abcde")
        servable.released.set()
        assert (await waiting).json() == {"predictions": [4]}
        return refused

    first, refused = browser.together(count(browser, "abc"), one_too_many())
    assert first.json() == {"predictions": [3]}
    assert refused.status_code == 503
    assert refused.json() == {"error": "2 requests are waiting already: try again later"}
    assert browser.together(count(browser, "ab"))[0].json() == {"predictions": [2]}


def test_a_request_that_waits_too_long_for_its_turn_is_answered_504(counted):
    servable = Counted()
    browser = counted(servable, Limits(concurrency=1, queue=1, rest_api_timeout_in_ms=200))

    async def wait_in_vain() -> httpx.Response:
        refused = await count(browser, "abcd")
        servable.released.set()
        return refused

    first, refused = browser.together(count(browser, "abc"), wait_in_vain())
    assert first.status_code == 200
    assert refused.status_code == 504
    assert refused.json() == {"error": "Timed out after 0.2 seconds"}


@pytest.mark.parametrize(
    ("limits", "texts", "status", "message"),
    [
        (
            Limits(max_batch_rows=2),
            ["a", "b", "c"],
            400,
            "Input text has 3 rows, more than 2 (--max-batch-rows): send fewer at a time",
        ),
        (
            Limits(max_text_bytes=3),
            ["abc", "ññ"],
            400,
            "Input text has a string of 4 bytes, more than 3 (--max-text-bytes): split it into sentences",
        ),
        (
            Limits(max_body_bytes=40),
            ["a" * 40],
            413,
            "The body is larger than 40 bytes (--max-body-bytes): send fewer rows at a time",
        ),
    ],
)
def test_a_request_beyond_a_limit_is_refused_with_the_option_that_sets_it(counted, limits, texts, status, message):
    browser = counted(Counted(), limits)
    (response,) = browser.together(count(browser, *texts))
    assert response.status_code == status
    assert response.json() == {"error": message}


def test_a_body_that_is_slow_to_come_keeps_nobody_waiting(counted):
    servable = Counted()
    servable.released.set()
    browser = counted(servable, Limits(concurrency=1, queue=0))
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

    patient, meanwhile = browser.together(browser.send("POST", "/v1/models/count:predict", content=slow()), quick())
    assert meanwhile.json() == {"predictions": [3]}
    assert patient.json() == {"predictions": [4]}


def test_who_is_cancelled_leaves_the_queue_but_work_that_has_begun_keeps_its_turn():
    core = Core(Repository(lambda: [], lambda path: None), Limits(concurrency=1, queue=1))
    begun, released = threading.Event(), threading.Event()
    done: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def run() -> None:
            begun.set()
            assert released.wait(20)
            done.append(name)

        return run

    async def ask(name: str) -> None:
        async with core.admit(Call("Predict", "GRPC"), 20.0) as ticket:
            await ticket.take_turn(work(name))

    async def leave() -> None:
        computed = asyncio.create_task(ask("computed"))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(ask("waiting"))
        await asyncio.sleep(0.1)
        for task in (computed, waiting):
            task.cancel()
        for task in (computed, waiting):
            with pytest.raises(asyncio.CancelledError):
                await task
        patient = asyncio.create_task(ask("patient"))
        await asyncio.sleep(0.1)
        assert core.turns.borrowed_tokens == 1
        with pytest.raises(StatusError, match="2 requests are waiting already"):
            await ask("one too many")
        released.set()
        await patient

    asyncio.run(leave())
    assert done == ["computed", "patient"]


def test_bodies_are_turned_away_when_all_together_are_more_than_a_full_queue_s():
    core = Core(Repository(lambda: [], lambda path: None), Limits(concurrency=1, queue=1, max_body_bytes=10))

    async def fill() -> None:
        async with core.admit(Call("predict", "REST"), 9.0) as one, core.admit(Call("predict", "REST"), 9.0) as other:
            one.hold(10)
            other.hold(10)
            with pytest.raises(StatusError, match="Too many large bodies") as caught:
                other.hold(1)
            assert caught.value.code is Code.UNAVAILABLE
        async with core.admit(Call("predict", "REST"), 9.0) as again:  # what has ended is forgotten
            again.hold(20)

    asyncio.run(fill())


def test_an_answer_that_is_too_large_to_be_written_is_refused():
    outputs = {"a": np.zeros([2, 3]), "b": np.zeros([4])}
    require_few_values(Limits(max_values=10), outputs)
    with pytest.raises(StatusError, match=r"would have 10 values, more than 9 \(--max-values\)"):
        require_few_values(Limits(max_values=9), outputs)


def test_what_the_graph_s_own_placeholder_does_not_take_is_the_request_s_fault():
    class Session:
        def run(self, *_: object, **__: object) -> None:
            raise ValueError("Cannot feed value of shape (2, 3) for Tensor x:0, which has shape (?,)")

    servable = Servable(Session(), {})
    nothing = Signature({"x": TensorSpec("float32", None)}, {}, {"x": "x:0"}, {}, "")
    with pytest.raises(StatusError, match="Cannot feed value of shape") as caught:
        servable.run(nothing, {"x": np.zeros([2, 3])}, 1.0)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_empty_body_is_an_empty_document_packed_or_not(counted):
    browser = counted(Counted(), Limits())
    for headers in ({}, {"Content-Encoding": "gzip"}):
        response = browser.post("/v1/models/count:predict", content=b"", headers=headers)
        assert response.json() == {"error": "JSON Parse error: The document is empty"}


def test_a_small_body_that_unpacks_beyond_the_limit_is_refused(counted):
    browser = counted(Counted(), Limits(max_unpacked_bytes=10_000))
    bomb = gzip.compress(b" " * 1_000_000)
    assert len(bomb) < 10_000
    response = browser.post("/v1/models/count:predict", content=bomb, headers={"Content-Encoding": "gzip"})
    assert response.status_code == 413


@contextlib.contextmanager
def listening(app: ASGIApp, limits: Limits) -> Iterator[tuple[str, int]]:
    """The address at which the application is served over HTTP, in a thread of this process."""
    uvicorn_server = uvicorn.Server(server.http_config(app, limits, shutdown_seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=uvicorn_server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            uvicorn_server.should_exit = True
            thread.join(20)


def answer_of(chunks: list[bytes]) -> ASGIApp:
    """An application whose answer to every request is ``chunks``."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


GET = b"GET / HTTP/1.1\r\nHost: s\r\n\r\n"


@pytest.mark.parametrize("chunks", [1, 256], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "later", [b"", b"G", b"GET / HTTP/1.1\r\nHost: s\r\n\r\n"], ids=["silent", "byte", "pipelined"]
)
def test_a_client_that_does_not_read_its_answer_is_cut_off_whatever_it_sends(chunks, later):
    app = answer_of([b"a" * (2**24 // chunks)] * chunks)
    with listening(app, Limits(connections=1, rest_api_timeout_in_ms=500)) as address, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(address)
        stuck.sendall(GET)
        time.sleep(0.2)  # until writing is stuck
        stuck.sendall(later)
        give_up = time.monotonic() + 5
        while (status := first_line(address)) != b"HTTP/1.1 200 OK\r\n":
            assert time.monotonic() < give_up, status
            time.sleep(0.05)


def first_line(address: tuple[str, int]) -> bytes:
    """The first line of the answer to a request on a new connection."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(GET)
        return connection.makefile("rb").readline()


def test_a_connection_beyond_the_limit_is_told_that_the_server_is_busy():
    with listening(answer_of([b"a"]), Limits(connections=1)) as address:
        first, second = (http.client.HTTPConnection(*address, timeout=20) for _ in range(2))
        with contextlib.closing(first), contextlib.closing(second):
            for connection, status in ((first, 200), (second, 503), (first, 200)):
                connection.request("GET", "/")
                response = connection.getresponse()
                body = response.read()
                assert (response.status, bool(body)) == (status, True)
                if status == 503:
                    assert "try again later" in json.loads(body)["error"]
                    assert response.headers["Content-Type"] == "application/json"


def test_requests_whose_clients_have_left_give_up_their_places_in_the_queue(counted):
    servable = Counted()
    limits = Limits(concurrency=1, queue=3)

    def send(address: tuple[str, int], text: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(*address, timeout=20)
        connection.request("POST", "/v1/models/count:predict", json.dumps({"instances": [text]}))
        return connection

    with listening(counted(servable, limits).app, limits) as address, contextlib.ExitStack() as connections:
        first = connections.enter_context(contextlib.closing(send(address, "first")))
        assert servable.entered.wait(20)
        for waiting in [send(address, "left") for _ in range(3)]:
            waiting.close()
        for _ in range(100):
            honest = connections.enter_context(contextlib.closing(send(address, "honest")))
            if not select.select([honest.sock], [], [], 2.0)[0]:
                break  # it waits for its turn: a refusal is there sooner
            assert honest.getresponse().status == 503
        servable.released.set()
        for connection in (first, honest):
            assert connection.getresponse().status == 200
    assert servable.asked == [b"first", b"honest"]


def test_a_body_of_too_many_values_is_refused_before_it_is_read(counted):
    browser = counted(Counted(), Limits(max_values=50))
    response = browser.post("/v1/models/count:predict", content=b'{"x": [' + b"[]," * 1000 + b"]")
    assert response.status_code == 400
    assert response.json() == {"error": "The body has about 2002 values, more than 50 (--max-values)"}


def test_a_refused_request_leaves_nothing_behind_for_the_garbage_collector(counted):
    class Refusing(Counted):
        held: weakref.ref

        def signature(self, name: str) -> Counted:
            large = np.zeros(1)
            self.held = weakref.ref(large)
            raise StatusError(Code.INVALID_ARGUMENT, "refused")

    servable = Refusing()
    browser = counted(servable, Limits())
    gc.disable()
    try:
        assert browser.post("/v1/models/count:predict", json={}).json() == {"error": "refused"}
        assert servable.held() is None
    finally:
        gc.enable()


def test_a_defect_of_the_server_is_answered_in_json_without_its_details(counted):
    class Broken(Counted):
        def signature(self, name: str) -> Counted:
            raise AssertionError("secret")

    response = counted(Broken(), Limits(), raise_app_exceptions=False).post("/v1/models/count:predict", json={})
    assert response.status_code == 500
    assert response.json() == {"error": "Internal error"}


@pytest.mark.parametrize(
    "field", ["max_body_bytes", "max_batch_rows", "max_text_bytes", "rest_api_timeout_in_ms", "concurrency"]
)
def test_a_limit_that_would_let_nothing_through_is_refused(field):
    with pytest.raises(ValueError, match=f"--{field.replace('_', '-')}: expected"):
        Limits(**{field: 0})
