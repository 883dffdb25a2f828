"""Runs all attacks on the embedded server at the same time, and measures honest clients meanwhile.

    python -m benchmarks.attacks --model-dir saved_models --model spa-eng --minutes 30

The server and the attackers run in separate processes. There are two honest clients: on one connection, and on a new
connection for each request. They retry as ``nmt_keras_serve.client`` does. The program prints a JSON document with the
machine, the date, the rounds of each attack and the results of the honest clients. It exits with code 1 if one of
these requirements is violated:

- no honest request fails, gets a wrong answer, or waits longer than ``--bound``;
- after the attacks, the server is alive;
- its memory never exceeded ``--memory``, the limit of ``serve/deploy/systemd``;
- its memory has grown by at most 5 % since the end of honest requests of many shapes without attacks;
- it has no more open descriptors than at that time;
- its log has no traceback and no line that a client wrote.

The server starts with a limit of open files below its ``--connections``, which it must raise.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import itertools
import json
import multiprocessing
import os
import random
import re
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import tyro

from benchmarks.machine import machine
from benchmarks.serve_load import SENTENCES, Report, Server, percentiles, predict_path, started
from serve.client import Client, Retry
from serve.limits import Limits

REFUSED = (OSError, EOFError, asyncio.LimitOverrunError)
"""Errors of an attacker's connection that the server refuses or closes."""


class Target(NamedTuple):
    """The server under attack."""

    host: str
    port: int
    model: str


# Malformed requests


class Parts(NamedTuple):
    """Pieces of a request."""

    pieces: list[bytes]
    pause: float = 0.0
    """Pause after each piece, in seconds."""
    reads: bool = True
    """If ``True``, the client waits for the answer."""


def request(body: bytes, path: str, *headers: str, method: str = "POST") -> bytes:
    """Returns a request with ``body`` that closes its connection."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def malformed_request(rng: random.Random, model: str) -> Parts:
    """Returns a request with a random or damaged body, gzip, path or framing, or an unfinished one.

    tests/serve/test_json.py has JSON of wrong values, types and shapes.
    """
    path, valid = predict_path(model), json.dumps({"instances": SENTENCES[: rng.randrange(1, 9)]}).encode()
    mutated = bytearray(valid)
    for _ in range(rng.randrange(1, 6)):
        mutated[rng.randrange(len(mutated))] = rng.randrange(256)
    depth = rng.choice([60, 64, 65, 200_000])
    body = rng.choice(
        [
            rng.randbytes(rng.randrange(3000)),
            bytes(mutated),
            valid[: rng.randrange(len(valid))],
            b'{"instances": ' + b"[" * depth + b"1" + b"]" * depth + b"}",
            b'{"instances": [' + b'"",' * rng.choice([257, 10_000, 300_000]) + b'""]}',
        ]
    )
    packed = gzip.compress(valid)
    gzipped = rng.choice([packed[:-9], packed[:4], b"plain", packed + packed, b""])
    names = ["", "%00", "%ff", "%2e%2e%2f", "a" * 60_000, "..", f"{model}/versions/{'9' * 30}", f"{model}/labels/%ff"]
    ends = ["", ":predict", "/metadata", ":classify", "/", "?a=1", "#a", ":Predict", "/versions/1:predict"]
    odd_path = rng.choice([f"/v1/models/{rng.choice(names)}{rng.choice(ends)}", "/" + "a/" * 8000, "/."])
    method = rng.choice(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "X"])
    start = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    whole = request(valid, path)
    others = [
        Parts([rng.randbytes(rng.randrange(1, 2000)) + b"\r\n\r\n"]),
        Parts([request(gzipped, path, "Content-Encoding: gzip")]),
        Parts([request(b"{}", odd_path, method=method)]),
        Parts([start + rng.choice(FRAMES)], reads=False),
        Parts([whole[: rng.randrange(len(whole) + 1)]], reads=False),
    ]
    return rng.choice([*others, *[Parts([request(body, path)])] * 2 * len(others)])


FRAMES = [
    b"Content-Length: -1\r\n\r\n{}",
    b"Content-Length: 99999999999999999999\r\n\r\n{}",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"Transfer-Encoding: gzip\r\n\r\n",
    b"X: " + b"a" * 100_000 + b"\r\n\r\n",
    b": \r\n\r\n",
]
"""Endings of a request whose framing is wrong."""
BOMB = gzip.compress(b" " * 150_000_000, 9)
"""A body of 150 kB that unpacks to 150 MB, more than ``--max-body-bytes`` allows."""


# Attacks. One call is one round. It returns the status of the answer, or what happened instead.


async def send(target: Target, parts: Parts, seconds: float = 40.0) -> str:
    """Sends the pieces of a request with pauses, and reads the answer to its end."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(target.host, target.port)
        with contextlib.closing(writer):
            answer = asyncio.ensure_future(reader.read(65536)) if parts.reads else None
            try:
                with contextlib.suppress(ConnectionError):  # the answer may have come before
                    for piece in parts.pieces:
                        if answer is not None and answer.done():
                            break
                        writer.write(piece)
                        await writer.drain()
                        await asyncio.sleep(parts.pause)
                if answer is None:
                    return "not read"
                start = await answer
            finally:
                if answer is not None:
                    answer.cancel()
            with contextlib.suppress(ConnectionError):
                while await reader.read(65536):
                    pass
    return start[9:12].decode() if start.startswith(b"HTTP/") else "closed"


def post(target: Target, body: bytes, *headers: str) -> bytes:
    return request(body, predict_path(target.model), *headers)


async def malformed(target: Target, rng: random.Random) -> str:
    return await send(target, malformed_request(rng, target.model))


async def slow_headers(target: Target, rng: random.Random) -> str:
    began = time.monotonic()
    parts = Parts([b"GET / HTTP/1.1\r\n", *[b"X: 1\r\n"] * 1000], pause=rng.uniform(0.05, 0.5))
    outcome = await send(target, parts)
    return "closed after a second" if outcome == "closed" and time.monotonic() > began + 1.0 else outcome


async def slow_body(target: Target, rng: random.Random) -> str:
    whole = post(target, b" " * 10_000)
    return await send(target, Parts([whole[:-10_000], *[b" "] * 10_000], pause=rng.uniform(0.05, 0.5)))


async def unfinished_body(target: Target, rng: random.Random) -> str:
    """Sends the largest body but its last byte. All such bodies together exceed the server's limit."""
    return await send(target, Parts([post(target, b" " * Limits.max_body_bytes)[:-1]]))


async def tiny_chunks(target: Target, rng: random.Random) -> str:
    """Sends a body in chunks of one byte, at 0.6 MB/s."""
    head = f"POST {predict_path(target.model)} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    chunks = [b"1\r\n \r\n" * 2000] * rng.randrange(10, 100)
    pieces = [f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), *chunks, b"0\r\n\r\n"]
    return await send(target, Parts(pieces, pause=0.02))


async def slow_reader(target: Target, rng: random.Random) -> str:
    """Requests a large answer and reads only its status, seconds later."""
    body = json.dumps({"signature_name": "align", "instances": ["a " * 200] * 4}).encode()
    return await unread(target, post(target, body), rng)


async def unread(target: Target, message: bytes, rng: random.Random) -> str:
    """Sends a request, and reads only the status of its answer, seconds later."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (target.host, target.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1)
    with contextlib.closing(writer):
        writer.write(message)
        await asyncio.sleep(rng.uniform(1.0, 5.0))
        async with asyncio.timeout(40.0):
            start = await reader.read(12)
    return start[9:].decode() if start.startswith(b"HTTP/") else "closed"


async def pipelined(target: Target, rng: random.Random) -> str:
    """Sends fifty requests at once."""
    body = json.dumps({"instances": [rng.choice(SENTENCES)]}).encode()
    one = post(target, body).replace(b"Connection: close\r\n", b"")
    return await send(target, Parts([one * 49 + post(target, body)], reads=rng.random() < 0.7))


async def header_flood(target: Target, rng: random.Random) -> str:
    lines = rng.choice([b"X: a\r\n" * 50_000, b"X: " + b"a" * 1_000_000, b"".join(b"X%d: a\r\n" % n for n in range(9))])
    return await send(target, Parts([b"GET /v1/models/a HTTP/1.1\r\nHost: 127.0.0.1\r\n", lines, b"\r\n\r\n"]))


async def bomb(target: Target, rng: random.Random) -> str:
    """Sends a body that takes much more memory or time than bytes: gzip, base64, many empty lists, or many keys."""
    if rng.random() < 0.3:
        return await send(target, Parts([post(target, BOMB, "Content-Encoding: gzip")]))
    bodies: list[dict[str, Any]] = [
        {"instances": [{"b64": base64.b64encode(bytes(700_000)).decode()}]},
        {"inputs": [[]] * 300_000},
        {"inputs": dict.fromkeys(map(str, range(90_000)), 1)},
    ]
    return await send(target, Parts([post(target, json.dumps(rng.choice(bodies), separators=(",", ":")).encode())]))


async def huge_names(target: Target, rng: random.Random) -> str:
    """Sends a name of up to a megabyte where error messages repeat it, and does not read the answer for seconds."""
    name = rng.choice("aé\U0001f600") * 250_000
    documents: list[dict[str, Any]] = [
        {"signature_name": name, "instances": ["a"]},
        {"signature_name": [name]},
        {"inputs": {name: ["a"]}},
        {"instances": [{name: "a"}]},
        {"instances": [{"text": 1, name: 1}]},
    ]
    body = gzip.compress(json.dumps(rng.choice(documents), ensure_ascii=False).encode(), 1)
    return await unread(target, post(target, body, "Content-Encoding: gzip"), rng)


async def long_text(target: Target, rng: random.Random) -> str:
    """Sends sentences of 64 KB that make a step of the text's normalisation slow if it is not bounded."""
    unit = rng.choice(
        ["\u0301", "\u0338\u00ad", "a" + "\u0323\u0307" * 500, "\U0001d165", "\u200b ", "x", "\ufdfa", "1 "]
    )
    text = unit * (65_536 // len(unit.encode()))
    body = gzip.compress(json.dumps({"instances": [text] * rng.randrange(1, 8)}, ensure_ascii=False).encode())
    return await send(target, Parts([post(target, body, "Content-Encoding: gzip")]), seconds=90.0)


async def many_sentences(target: Target, rng: random.Random) -> str:
    """Sends as many sentences of fifty words as a request may have, or far more in texts, in a body of a kilobyte."""
    sentence = " ".join(rng.choices(" ".join(SENTENCES).replace(".", "").split(), k=50))
    document = rng.choice(
        [
            {"instances": [sentence] * Limits.max_batch_rows},
            {"signature_name": "beam", "instances": [sentence] * Limits.max_batch_rows},
            {"signature_name": "text", "instances": [f"{sentence}.\n" * 32] * (Limits.max_batch_rows // 32)},
            {"signature_name": "text", "instances": ["No.\n" * 32] * Limits.max_batch_rows},
        ]
    )
    body = gzip.compress(json.dumps(document, ensure_ascii=False).encode())
    return await send(target, Parts([post(target, body, "Content-Encoding: gzip")]))


async def forged_log(target: Target, rng: random.Random) -> str:
    """Sends a model name with line breaks or control characters."""
    name = rng.choice(["a%0a2026-01-01%20ERROR%20forged", "a%0d%0aforged", "%1b[31mforged", "%e2%80%aeforged", "..%2f"])
    path = rng.choice([f"/v1/models/{name}", f"/v1/models/{name}:predict", f"/{name}"])
    return await send(target, Parts([request(b"{}", path)]))


async def idle_sockets(target: Target, rng: random.Random) -> str:
    """Opens ten thousand sockets, or as many as the process may open, for a few seconds."""
    limit = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2000)
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(limit // 100):
            opening = [asyncio.open_connection(target.host, target.port) for _ in range(100)]
            for opened in await asyncio.gather(*opening, return_exceptions=True):
                if not isinstance(opened, BaseException):
                    writers.append(opened[1])
        await asyncio.sleep(2.0)
    finally:
        for writer in writers:
            writer.close()
    return "more than the limit" if len(writers) > Limits.connections else "fewer than the limit"


async def idle_clients(target: Target, rng: random.Random) -> str:
    """Opens more connections than the server accepts. Each sends one request and then waits for a few seconds."""
    asking = [_request_and_wait(target) for _ in range(Limits.connections + 88)]
    answers = await asyncio.gather(*asking, return_exceptions=True)
    outcomes = Counter("closed" if isinstance(answer, BaseException) else answer for answer in answers)
    return outcomes.most_common(1)[0][0]


async def _request_and_wait(target: Target) -> str:
    reader, writer = await asyncio.open_connection(target.host, target.port)
    with contextlib.closing(writer):
        writer.write(f"GET /v1/models/{target.model} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        async with asyncio.timeout(20.0):
            start = await reader.read(12)
        await asyncio.sleep(5.0)
    return start[9:].decode() or "closed"


Attack = Callable[[Target, random.Random], Awaitable[str]]
ATTACKS: dict[Attack, int] = {
    malformed: 4,
    slow_headers: 50,
    slow_body: 50,
    unfinished_body: 140,
    tiny_chunks: 6,
    slow_reader: 10,
    pipelined: 2,
    header_flood: 2,
    bomb: 2,
    huge_names: 6,
    long_text: 2,
    many_sentences: 4,
    forged_log: 2,
    idle_sockets: 1,
    idle_clients: 1,
}
"""Number of attackers of each kind."""
RARE = (unfinished_body, idle_sockets, idle_clients)
"""Attacks whose rounds are 15 seconds apart. The pauses of others are random and up to 0.2 seconds long."""


async def attack(target: Target, seconds: float, seed: int) -> dict[str, Counter[str]]:
    """Runs all attackers for ``seconds``. Returns the numbers of outcomes of each attack's rounds."""
    rounds: dict[str, Counter[str]] = {kind.__name__: Counter() for kind in ATTACKS}
    end = time.monotonic() + seconds

    async def repeat(kind: Attack, number: int) -> None:
        rng = random.Random(f"{seed} {kind.__name__} {number}")
        while time.monotonic() < end:
            try:
                outcome = await kind(target, rng)
            except TimeoutError:
                outcome = "no end"
            except REFUSED:
                outcome = "closed"
            rounds[kind.__name__][outcome] += 1
            await asyncio.sleep(15.0 if kind in RARE else rng.uniform(0.0, 0.2))

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for kind, count in ATTACKS.items():
                for number in range(count):
                    group.create_task(repeat(kind, number))
    return rounds


def attack_and_send(target: Target, seconds: float, seed: int, results: Any) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))
    results.put(asyncio.run(attack(target, seconds, seed)))


# Honest clients


@dataclass(frozen=True)
class CountedRetry(Retry):
    """Records the requests that were sent more than once."""

    repeated: list[Callable[[], Any]] = field(default_factory=list)

    def run(self, request: Callable[[], Any]) -> Any:
        attempts = itertools.count(1)

        def counted() -> Any:
            if next(attempts) == 2:
                self.repeated.append(request)
            return request()

        return super().run(counted)


JOINED = [[" ".join(SENTENCES[first : first + number]) for first in range(8)] for number in (1, 2, 4)]
REQUESTS = [texts[:size] for size in range(1, 9) for texts in JOINED]
"""Texts of the honest requests. They differ in number and length, because TensorFlow keeps code for each shape."""


class Honest:
    """A client that repeats some requests and records the latency of each answer.

    Args:
        name: Name in the report.
        url: URL of the server.
        model: Name of the model.
        reconnects: If `True`, opens a connection for each request.
    """

    def __init__(self, name: str, url: str, model: str, *, reconnects: bool = False) -> None:
        self.name = name
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter()
        self._retry = CountedRetry(8)
        self._connect = lambda: Client(url, model, retry=self._retry, timeout=60)
        self._reconnects = reconnects
        with self._connect() as client:
            self._expected = [client.translate(texts) for texts in REQUESTS]

    def run(self, stop: threading.Event) -> None:
        """Sends the requests in turn until ``stop`` is set."""
        with contextlib.ExitStack() as kept:
            client = kept.enter_context(self._connect())
            turns = itertools.cycle(zip(REQUESTS, self._expected, strict=True))
            while not stop.wait(0.1):
                texts, expected = next(turns)
                began = time.monotonic()
                try:
                    with self._connect() if self._reconnects else contextlib.nullcontext(client) as asked:
                        if asked.translate(texts) != expected:
                            self.failures["a wrong answer"] += 1
                except Exception as error:
                    self.failures[str(error)[:200] or repr(error)] += 1
                self.seconds.append(time.monotonic() - began)

    def forget(self) -> None:
        """Forgets durations and repeated requests, but no failure."""
        self.seconds.clear()
        self._retry.repeated.clear()

    def summary(self) -> dict[str, Any]:
        return {
            "requests": len(self.seconds),
            "failures": dict(self.failures),
            "repeated": len(self._retry.repeated),
            **percentiles(self.seconds),
            "longest_ms": round(1000 * max(self.seconds, default=0.0)),
        }


@contextlib.contextmanager
def running(clients: Sequence[Honest]) -> Iterator[None]:
    """Runs each client in a thread while the context lasts."""
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# The server's log


def lines_of_clients(log: str) -> list[str]:
    """Returns unexpected lines of the server's log: tracebacks, and text written by clients."""
    own = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING) [^\x00-\x1f\x7f-\x9f]*")
    return [line for line in log.split("\n") if line and (not own.fullmatch(line) or "forged" in line)]


@contextlib.contextmanager
def few_descriptors() -> Iterator[None]:
    """Lowers the soft limit of open files below the server's ``--connections``. Attackers raise their own limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], Limits.connections), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@dataclass(frozen=True)
class Settings:
    """Runs all attacks on the embedded server at the same time, and measures honest clients meanwhile."""

    model_dir: Path = Path("saved_models")
    """Folder that holds NAME/VERSION/."""
    model: str = "spa-eng"
    """Name of the model."""
    minutes: float = 30.0
    """Duration of the attacks."""
    bound: float = 30.0
    """Maximum duration of an honest request in seconds, including retries."""
    timeout_seconds: float = 30.0
    """The server's ``--rest-api-timeout-in-ms``, in seconds."""
    memory: float = 4000.0
    """Maximum resident memory in megabytes."""
    tolerance: float = 0.05
    """Allowed relative growth of memory."""
    seed: int = 0
    """Seed of the attackers' random numbers."""

    def measure(self) -> Report:
        """Returns the honest clients' answers, the server's memory and descriptors, and the violated requirements."""
        options = ("--rest-api-timeout-in-ms", f"{1000 * self.timeout_seconds:.0f}")
        with few_descriptors(), started(self.model_dir, options) as server:
            return self._report(server)

    def _report(self, server: Server) -> Report:
        target = Target(server.host, server.port, self.model)
        url = f"http://{server.host}:{server.port}"
        clients = [
            Honest("one connection", url, self.model),
            Honest("a connection for each request", url, self.model, reconnects=True),
        ]
        start_of_log = len(server.log.read_text())
        self._fill_caches(url)
        with running(clients):
            time.sleep(min(120.0, 30 * self.minutes))
        self._settle(server)
        before = {"megabytes": server.resident_megabytes(), "descriptors": server.descriptors()}
        for client in clients:
            client.forget()
        with running(clients):
            rounds = self._attack(target, 60 * self.minutes)
        self._settle(server)
        after = {"megabytes": server.resident_megabytes(), "descriptors": server.descriptors()}
        peak = server.resident_megabytes("VmHWM")
        log = server.log.read_text()[start_of_log:]
        result = {
            "options": {name: str(value) for name, value in asdict(self).items()},
            "descriptors_allowed": resource.getrlimit(resource.RLIMIT_NOFILE),
            "rounds": {name: dict(outcomes.most_common()) for name, outcomes in sorted(rounds.items())},
            "honest": {client.name: client.summary() for client in clients},
            "before": before,
            "after": after,
            "peak_megabytes": peak,
            "log_bytes": len(log),
            "load_after": os.getloadavg()[0],
        }
        promises = {
            "the server died": server.is_alive(),
            f"memory exceeded {self.memory:g} MB": peak <= self.memory,
            "memory grew": after["megabytes"] <= before["megabytes"] * (1 + self.tolerance),
            "descriptors stayed open": after["descriptors"] <= before["descriptors"],
        }
        broken = [name for name, kept in promises.items() if not kept]
        for client in clients:
            broken += [f"{client.name}: {count} times {failure}" for failure, count in client.failures.items()]
            if max(client.seconds, default=float("inf")) > self.bound:
                broken.append(f"{client.name}: a request took longer than {self.bound:g} s")
        broken += [f"in the log: {line[:200]!r}" for line in lines_of_clients(log)[:60]]
        return Report(result, broken, ())

    def _fill_caches(self, url: str) -> None:
        """Sends batches of many shapes, the largest first.

        TensorFlow keeps the memory of the largest batch, and oneDNN compiled operations for each shape, up to a limit.
        serve/README.md has measurements.
        """
        rng, most = random.Random(self.seed), Limits().max_batch_rows
        sizes = [(59, most), *((rng.randrange(1, 60), rng.randrange(1, most)) for _ in range(round(20 * self.minutes)))]
        with httpx.Client(timeout=self.bound, trust_env=False) as client:
            for words, rows in sizes[:400]:
                sentence = " ".join(rng.choices(SENTENCES[0].split(), k=words))
                document = {"instances": [sentence] * rows}
                client.post(url + predict_path(self.model), json=document).raise_for_status()

    def _attack(self, target: Target, seconds: float) -> dict[str, Counter[str]]:
        """Attacks from another process, so that the attackers do not delay the threads of the honest clients."""
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        attacker = context.Process(target=attack_and_send, args=(target, seconds, self.seed, results))
        attacker.start()
        rounds = results.get(timeout=seconds + 120)
        attacker.join()
        return rounds

    def _settle(self, server: Server) -> None:
        """Waits until the server has returned free memory, and its number of descriptors no longer changes."""
        time.sleep(2 * self.timeout_seconds + 2)  # by default a minute, after which the server returns free memory
        seen = [server.descriptors()]
        while len(seen) < 60 and len(set(seen[-5:])) * 5 != len(seen[-5:]):
            time.sleep(1.0)
            seen.append(server.descriptors())


def main() -> None:
    """Reads the command line, runs the attacks and prints the report."""
    attacks = tyro.cli(Settings, prog="python -m benchmarks.attacks", description=__doc__)
    facts = machine(("tensorflow", "starlette", "uvicorn", "h11"))
    attacks.measure().print(facts)


if __name__ == "__main__":
    main()
