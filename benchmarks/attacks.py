"""Runs all attacks on the embedded server at the same time, and measures honest clients meanwhile.

    python -m benchmarks.attacks --model-dir saved_models --model spa-eng --minutes 30

The server and the attackers run in separate processes. There are two honest clients: on one connection, and on a new
connection for each request. They retry as ``nmt_keras_serve.client`` does. The program prints a JSON document with the
machine, the date, the rounds of each attack and the results of the honest clients. It exits with code 1 if one of
these requirements is violated:

- no honest request fails, gets a wrong answer, or waits longer than ``BOUND``;
- after the attacks, the server is alive;
- its memory never exceeded ``MEMORY``, the limit of ``serve/deploy/systemd``;
- its memory has grown by at most 5 % since the end of honest requests of many shapes without attacks;
- it has no more open descriptors than at that time;
- its log has no traceback and no line that a client wrote.

The server starts with a limit of open files below its ``--connections``, which it must raise. ``tests/serve`` sends
hostile requests one by one, also kinds that are not here, such as pipelined requests, many headers and tiny chunks.
"""

import asyncio
import base64
import contextlib
import gzip
import itertools
import json
import os
import random
import re
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from benchmarks.machine import in_new_process, machine
from benchmarks.serve_load import SENTENCES, Server, percentiles, predict_path, print_report, started
from serve.client import Client, Retry
from serve.limits import Limits

BOUND = 30.0
"""Maximum duration of an honest request in seconds, including retries."""
MEMORY = 4000.0
"""Maximum resident memory in megabytes."""
GROWTH = 0.05
"""Allowed relative growth of memory."""


class Target(NamedTuple):
    """The server under attack."""

    host: str
    port: int
    model: str

    def request(self, body: bytes, *headers: str, method: str = "POST", path: str = "") -> bytes:
        """Returns a request with ``body`` that closes its connection. Default: for a translation."""
        lines = [
            f"{method} {path or predict_path(self.model)} HTTP/1.1",
            f"Host: {self.host}",
            "Connection: close",
            f"Content-Length: {len(body)}",
            *headers,
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# Attacks. One call is one round. It returns the status of the answer, or "closed".


async def malformed(target: Target, rng: random.Random) -> str:
    """Sends random bytes, or a request with a damaged line, header, body, gzip or path."""
    valid = json.dumps({"instances": SENTENCES}).encode()
    packed, damaged = gzip.compress(valid), bytearray(target.request(valid))
    for _ in range(rng.randrange(1, 6)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    name = rng.choice(["", "%00", "%ff", "%0aforged", "%1b[31mforged", "%e2%80%aeforged", "..%2f", "a" * 60_000])
    end = rng.choice([":predict", "/metadata", "?a=1", "/versions/99999999999999999999", "/labels/%ff:predict"])
    method = rng.choice(["GET", "POST", "HEAD", "PUT", "DELETE", "X"])
    requests = [
        bytes(damaged),
        rng.randbytes(rng.randrange(1, 2000)) + b"\r\n\r\n",
        target.request(rng.randbytes(rng.randrange(3000))),
        target.request(valid[: rng.randrange(len(valid))]),
        target.request(packed[: rng.randrange(len(packed))], "Content-Encoding: gzip"),
        target.request(b"{}", method=method, path=f"/v1/models/{name}{end}"),
    ]
    return await send(target, rng.choice(requests))


async def slow(target: Target, rng: random.Random) -> str:
    """Sends headers, or a body, byte by byte, or the largest body but its last byte."""
    began, pause = time.monotonic(), rng.uniform(0.05, 0.5)
    head = target.request(b" " * 10_000)[:-10_000]
    sent = [
        [b"GET / HTTP/1.1\r\n", *[b"X: 1\r\n"] * 1000],
        [head, *[b" "] * 9_999],
        [target.request(b" " * Limits.max_body_bytes)[:-1]],
    ]
    outcome = await send(target, *rng.choice(sent), pause=pause)
    return "closed after a second" if outcome == "closed" and time.monotonic() > began + 1.0 else outcome


async def unread(target: Target, rng: random.Random) -> str:
    """Requests a large answer and reads only its status, seconds later."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (target.host, target.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1)
    with contextlib.closing(writer):
        writer.write(target.request(json.dumps({"signature_name": "align", "instances": ["a " * 200] * 4}).encode()))
        await asyncio.sleep(rng.uniform(1.0, 5.0))
        async with asyncio.timeout(40.0):
            return status_of(await reader.read(12))


async def heavy(target: Target, rng: random.Random) -> str:
    """Sends a body in gzip that takes much more memory or time than bytes."""
    name = rng.choice("aé\U0001f600") * 250_000  # error messages repeat it
    unit = rng.choice(UNITS)
    sentence = " ".join(rng.choices(" ".join(SENTENCES).replace(".", "").split(), k=50))
    documents: list[dict[str, Any]] = [
        {"signature_name": name, "instances": ["a"]},
        {"instances": [{"text": 1, name: 1}]},
        {"instances": [{"b64": base64.b64encode(bytes(700_000)).decode()}]},
        {"inputs": [[]] * 300_000},
        {"inputs": dict.fromkeys(map(str, range(90_000)), 1)},
        {"instances": [unit * (Limits.max_text_bytes // len(unit.encode()))] * rng.randrange(1, 8)},
        {"instances": [sentence] * Limits.max_batch_rows},
        {"signature_name": "beam", "instances": [sentence] * Limits.max_batch_rows},
        {"signature_name": "text", "instances": [f"{sentence}.\n" * 32] * (Limits.max_batch_rows // 32)},
        {"signature_name": "text", "instances": ["No.\n" * 32] * Limits.max_batch_rows},
    ]
    text = json.dumps(rng.choice(documents), ensure_ascii=False, separators=(",", ":"))
    packed = BOMB if rng.random() < 0.1 else gzip.compress(text.encode(), 1)
    return await send(target, target.request(packed, "Content-Encoding: gzip"))


BOMB = gzip.compress(b" " * 150_000_000, 9)
"""A body of 150 kB that unpacks to 150 MB, more than ``--max-body-bytes`` allows."""
UNITS = ("\u0301", "\u0338\u00ad", "a" + "\u0323\u0307" * 500, "\U0001d165", "\u200b ", "x", "\ufdfa", "1 ")
"""Texts whose repetitions make a step of the text's normalisation slow if it is not bounded."""


async def idle_sockets(target: Target, rng: random.Random) -> str:
    """Opens ten thousand sockets, or as many as the process may open, for a few seconds."""
    limit = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2000)
    found: list[Any] = []
    while len(found) < limit:
        opening = [asyncio.open_connection(target.host, target.port) for _ in range(100)]
        found += await asyncio.gather(*opening, return_exceptions=True)
    await asyncio.sleep(2.0)
    opened = [each for each in found if isinstance(each, tuple)]
    for _, writer in opened:
        writer.close()
    return "more than the limit" if len(opened) > Limits.connections else "fewer than the limit"


async def send(target: Target, *pieces: bytes, pause: float = 0.0) -> str:
    """Sends the pieces of a request, each followed by a pause in seconds, until an answer begins."""
    async with asyncio.timeout(90.0):
        reader, writer = await asyncio.open_connection(target.host, target.port)
        with contextlib.closing(writer):
            answer = asyncio.ensure_future(reader.read(65536))
            with contextlib.suppress(ConnectionError):  # the answer may have come before
                for piece in pieces:
                    if answer.done():
                        break
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(pause)
            return status_of(await answer)


def status_of(start: bytes) -> str:
    """Returns the status in the first bytes of an answer."""
    return start[9:12].decode() if start.startswith(b"HTTP/") else "closed"


Attack = Callable[[Target, random.Random], Awaitable[str]]
ATTACKS: dict[Attack, int] = {malformed: 4, slow: 200, unread: 10, heavy: 12, idle_sockets: 1}
"""Number of attackers of each kind."""


def attack(target: Target, seconds: float) -> dict[str, Counter[str]]:
    """Runs all attackers for ``seconds`` in this process. Returns the numbers of outcomes of each attack's rounds."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 20_000), most))
    rounds: dict[str, Counter[str]] = {kind.__name__: Counter() for kind in ATTACKS}

    async def repeat(kind: Attack, number: int) -> None:
        rng = random.Random(f"{kind.__name__} {number}")
        while True:
            try:
                outcome = await kind(target, rng)
            except TimeoutError:
                outcome = "no end"
            except OSError:  # the server refuses or closes the connection
                outcome = "closed"
            rounds[kind.__name__][outcome] += 1
            await asyncio.sleep(15.0 if kind is idle_sockets else rng.uniform(0.0, 0.2))

    async def repeat_all() -> None:
        attackers = [repeat(kind, number) for kind, count in ATTACKS.items() for number in range(count)]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*attackers), seconds)

    asyncio.run(repeat_all())
    return rounds


# Honest clients


JOINED = [[" ".join(SENTENCES[first : first + number]) for first in range(8)] for number in (1, 2, 4)]
REQUESTS = [texts[:size] for size in range(1, 9) for texts in JOINED]
"""Texts of the honest requests. They differ in number and length, because TensorFlow keeps code for each shape."""


class Honest:
    """A client that repeats some requests and records the latency of each answer.

    Args:
        url: URL of the server.
        model: Name of the model.
        reconnects: If `True`, opens a connection for each request.
    """

    def __init__(self, url: str, model: str, *, reconnects: bool) -> None:
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter()
        self._connect = partial(Client, url, model, retry=Retry(8), timeout=60)
        self._reconnects = reconnects
        with self._connect() as client:
            self._turns = itertools.cycle([(texts, client.translate(texts)) for texts in REQUESTS])

    def run(self, stop: threading.Event) -> None:
        """Sends the requests in turn until ``stop`` is set."""
        with self._connect() as kept:
            while not stop.wait(0.1):
                texts, expected = next(self._turns)
                began = time.monotonic()
                try:
                    with self._connect() if self._reconnects else contextlib.nullcontext(kept) as client:
                        if client.translate(texts) != expected:
                            self.failures["a wrong answer"] += 1
                except Exception as error:
                    self.failures[str(error)[:200] or repr(error)] += 1
                self.seconds.append(time.monotonic() - began)

    def summary(self) -> dict[str, Any]:
        return {
            "requests": len(self.seconds),
            "failures": dict(self.failures),
            **percentiles(self.seconds),
            "longest_ms": round(1000 * max(self.seconds)),
        }


@contextlib.contextmanager
def running(clients: Sequence[Honest]) -> Iterator[None]:
    """Runs each client in a thread while the context lasts."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(clients)) as threads:
        for client in clients:
            threads.submit(client.run, stop)
        try:
            yield
        finally:
            stop.set()


# The measurement


def main(
    model_dir: Path = Path("saved_models"),
    model: str = "spa-eng",
    minutes: float = 30.0,
    timeout_seconds: float = 30.0,
) -> None:
    """Runs all attacks on the embedded server at the same time, and measures honest clients meanwhile.

    Args:
        model_dir: Folder that holds NAME/VERSION/.
        model: Name of the model.
        minutes: Duration of the attacks.
        timeout_seconds: The server's ``--rest-api-timeout-in-ms``, in seconds.
    """
    facts = machine(("tensorflow", "starlette", "uvicorn", "h11"))
    options = ("--rest-api-timeout-in-ms", f"{1000 * timeout_seconds:.0f}")
    few_files = ("prlimit", f"--nofile={Limits.connections}:")
    with started(model_dir, options, few_files) as server:
        url = f"http://{server.address}"
        clients = {
            "one connection": Honest(url, model, reconnects=False),
            "a connection for each request": Honest(url, model, reconnects=True),
        }
        start_of_log = len(server.log.read_text())
        fill_caches(url, model, minutes)
        with running([*clients.values()]):
            time.sleep(min(120.0, 30 * minutes))
        before = settled(server, timeout_seconds)
        for client in clients.values():
            client.seconds.clear()
        host, port = server.address.split(":")
        target = Target(host, int(port), model)
        # from another process, so that the attackers do not delay the threads of the honest clients
        with running([*clients.values()]):
            rounds = in_new_process(attack, target, 60 * minutes)
        after = settled(server, timeout_seconds)
        peak = server.resident_megabytes("VmHWM")
        log = server.log.read_text()[start_of_log:]
        is_alive = server.process.poll() is None
    result = {
        "options": {
            "model_dir": str(model_dir),
            "model": model,
            "minutes": str(minutes),
            "timeout_seconds": str(timeout_seconds),
        },
        "descriptors_allowed": (Limits.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "rounds": {name: dict(outcomes.most_common()) for name, outcomes in sorted(rounds.items())},
        "honest": {name: client.summary() for name, client in clients.items()},
        "before": before,
        "after": after,
        "peak_megabytes": peak,
        "log_bytes": len(log),
        "load_after": os.getloadavg()[0],
    }
    promises = {
        "the server died": is_alive,
        f"memory exceeded {MEMORY:g} MB": peak <= MEMORY,
        "memory grew": after["megabytes"] <= before["megabytes"] * (1 + GROWTH),
        "descriptors stayed open": after["descriptors"] <= before["descriptors"],
        **{
            f"{name}: a request took longer than {BOUND:g} s": max(client.seconds) <= BOUND
            for name, client in clients.items()
        },
    }
    failures = [(name, *failure) for name, client in clients.items() for failure in client.failures.items()]
    broken = [
        *(name for name, kept in promises.items() if not kept),
        *(f"{name}: {count} times {failure}" for name, failure, count in failures),
        *(f"in the log: {line[:200]!r}" for line in lines_of_clients(log)[:60]),
    ]
    print_report(facts, result, broken)


def fill_caches(url: str, model: str, minutes: float) -> None:
    """Sends batches of many shapes, the largest first.

    TensorFlow keeps the memory of the largest batch, and oneDNN compiled operations for each shape, up to a limit.
    serve/README.md has measurements.
    """
    rng, most = random.Random(0), Limits.max_batch_rows
    sizes = [(59, most), *((rng.randrange(1, 60), rng.randrange(1, most)) for _ in range(round(20 * minutes)))]
    with Client(url, model, timeout=BOUND) as client:
        for words, rows in sizes[:400]:
            client.translate([" ".join(rng.choices(SENTENCES[0].split(), k=words))] * rows)


def settled(server: Server, timeout_seconds: float) -> dict[str, float]:
    """Returns the server's memory and descriptors after it has returned free memory and closed idle connections."""
    time.sleep(2 * timeout_seconds + 10)  # by default a minute, after which the server returns free memory
    return {"megabytes": server.resident_megabytes(), "descriptors": server.descriptors()}


def lines_of_clients(log: str) -> list[str]:
    """Returns unexpected lines of the server's log: tracebacks, and text written by clients."""
    own = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING) [^\x00-\x1f\x7f-\x9f]*")
    return [line for line in log.split("\n") if line and (not own.fullmatch(line) or "forged" in line)]


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
