"""Measures the embedded server under load: its speed, its stability during version changes, and its robustness.

    python -m benchmarks.serve_load latency --model-dir saved_models --model spa-eng
        Latency and sentences per second for 1, 8 and 32 clients, per signature. --url measures a running server
        instead, such as TensorFlow Serving. --run runs/spa-eng compares two exports of a run, without and with
        micro-batching.
    python -m benchmarks.serve_load swap --model-dir saved_models --model spa-eng --seconds 600
        Failed requests and memory of the server with 32 clients, while a new version is published twice.
    python -m benchmarks.serve_load hostile --model-dir saved_models --model spa-eng --requests 100000
        Answers to invalid requests. Also checks that the server still runs and answers correctly.

Each command prints a JSON document with the machine, the date and the versions. The exit code is 1 if a request failed,
memory grew, or a request got a 5xx status other than 503 (overload).
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import tyro

from benchmarks.machine import machine

ROOT = Path(__file__).parents[1]

SENTENCES = (
    "¿Todavía están en casa?",
    "Hace mucho frío aquí.",
    "No creo que Tom sepa nadar.",
    "Mi hermana mayor trabaja en un hospital.",
    "El médico me dijo que dejara de fumar, pero no puedo.",
    "¿Podrías decirme a qué hora sale el último tren para Madrid?",
    "Cuando llegamos a la estación, el tren ya había salido.",
    "Gracias.",
)
"""Sentences that the clients send in turn, unless a file is given."""


# The server


class Server(NamedTuple):
    """Server under test."""

    host: str
    port: int
    process: subprocess.Popen | None
    """``None`` for a server at a given URL."""
    log: Path | None = None
    """File with the process's stderr. ``None`` for a server at a given URL."""

    def resident_megabytes(self) -> float:
        """Returns the resident memory of the process in megabytes."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def descriptors(self) -> int:
        """Returns the number of open file descriptors of the process."""
        assert self.process is not None
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def is_alive(self) -> bool:
        return self.process is None or self.process.poll() is None

    def connect(self, timeout: float = 120.0) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)


@contextlib.contextmanager
def started(model_dir: Path, options: Sequence[str] = ()) -> Iterator[Server]:
    """Runs the embedded server for ``model_dir`` on a free port, in its own process.

    Args:
        model_dir: Folder that holds NAME/VERSION/.
        options: Further options of the server.
    """
    command = [sys.executable, "-m", "serve.server", "--model-dir", str(model_dir), "--port", "0", *options]
    with tempfile.TemporaryDirectory(prefix="serve-load-") as scratch:
        log = Path(scratch, "log")
        with (
            log.open("w") as file,
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True) as process,
        ):
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                if not line.startswith("Listening on "):
                    raise SystemExit(f"{Path(sys.argv[0]).stem}: the server did not start: {log.read_text()[-2000:]}")
                url = urlsplit(line.split()[-1])
                assert url.hostname is not None
                assert url.port is not None
                yield Server(url.hostname, url.port, process, log)
            finally:
                process.terminate()
                process.wait(60)


@contextlib.contextmanager
def reached(model_dir: Path, url: str | None, options: Sequence[str]) -> Iterator[Server]:
    """Yields the server at ``url``, or a new one if ``url`` is ``None``."""
    if url is None:
        with started(model_dir, options) as server:
            yield server
        return
    address = urlsplit(url)
    yield Server(address.hostname or "127.0.0.1", address.port or 8501, None)


def post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
    """Sends a request and returns the status and body of the answer."""
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


def predict_path(model: str) -> str:
    return f"/v1/models/{model}:predict"


def bodies(signature: str, sentences: Sequence[str], batch_size: int) -> list[bytes]:
    """Returns request bodies for all ``sentences``. The last body is filled up with the first sentences."""
    rows = [*sentences, *sentences[:batch_size]]
    batches = [rows[start : start + batch_size] for start in range(0, len(sentences), batch_size)]
    documents = ({"signature_name": signature, "instances": batch} for batch in batches)
    return [json.dumps(document, ensure_ascii=False).encode() for document in documents]


# Clients


class Tally:
    """Results of several clients. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seconds: list[float] = []
        self.failures: Counter[str] = Counter()

    def add(self, seconds: float) -> None:
        with self._lock:
            self.seconds.append(seconds)

    def fail(self, reason: str) -> None:
        with self._lock:
            self.failures[reason] += 1


def drive(server: Server, path: str, requests: Sequence[bytes], clients: int, stop: threading.Event) -> Tally:
    """Sends requests from ``clients`` threads, each on its own connection, until ``stop`` is set."""
    tally = Tally()

    def ask(first: int) -> None:
        connection = server.connect()
        number = first
        while not stop.is_set():
            began = time.perf_counter()
            try:
                status, answer = post(connection, path, requests[number % len(requests)])
            except (OSError, http.client.HTTPException) as error:
                tally.fail(type(error).__name__)
                connection.close()
                continue
            if status == 200:
                tally.add(time.perf_counter() - began)
            else:
                tally.fail(f"{status} {answer[:200].decode(errors='replace')}")
            number += clients
        connection.close()

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def after(seconds: float) -> threading.Event:
    """Returns an event that is set after ``seconds``."""
    event = threading.Event()
    timer = threading.Timer(seconds, event.set)
    timer.daemon = True
    timer.start()
    return event


# Subcommands


@dataclass(frozen=True)
class Latency:
    """Measures latency and throughput."""

    model_dir: Path = Path("saved_models")
    """Folder with NAME/VERSION/."""
    model: str = "spa-eng"
    """Name of the model."""
    url: str | None = None
    """URL of a running server. None starts the embedded server."""
    signatures: tuple[str, ...] = ("greedy", "serving_default")
    """Signatures to measure. serving_default uses beam 5, unless the export has another default."""
    clients: tuple[int, ...] = (1, 8, 32)
    """Numbers of concurrent clients."""
    batch_size: int = 1
    """Number of sentences per request."""
    seconds: float = 20.0
    """Seconds of measurement per combination. A warm-up of a tenth of this time precedes it."""
    sentences: Path | None = None
    """File with a sentence per line. None uses eight Spanish sentences."""
    concurrency: int = 2
    """The server's --concurrency. A server with micro-batching uses the largest number of clients."""
    run: Path | None = None
    """Run directory to export without and with micro-batching, for comparison."""
    max_batch_size: int = 32
    """Maximum number of sentences that micro-batching merges."""
    wait_ms: float = 0.0
    """Time in milliseconds that micro-batching waits for a batch to fill."""

    def measure(self) -> Report:
        """Measures every signature with every number of clients."""
        if self.run is None:
            with reached(self.model_dir, self.url, ["--concurrency", str(self.concurrency)]) as server:
                rows = self._rows(server)
            return self._report({"measurements": rows}, rows)
        with tempfile.TemporaryDirectory(prefix="serve-load-") as scratch:
            models = Path(scratch)
            export_twice(self.run, models, self.model, self.max_batch_size, self.wait_ms)
            with started(models / "plain", ["--concurrency", str(self.concurrency)]) as server:
                plain = self._rows(server)
            with started(models / "merged", ["--concurrency", str(max(self.clients))]) as server:
                merged = self._rows(server)
        ratios = [
            {
                "signature": one["signature"],
                "clients": one["clients"],
                "times_as_many_sentences": round(other["sentences_per_second"] / one["sentences_per_second"], 2),
            }
            for one, other in zip(plain, merged, strict=True)
            if one["sentences_per_second"]
        ]
        result = {"measurements": plain, "with_micro_batching": merged, "ratios": ratios}
        return self._report(result, [*plain, *merged])

    @staticmethod
    def _report(result: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Report:
        return Report(result, [f"{row['failures']}" for row in rows if row["failures"]])

    def _rows(self, server: Server) -> list[dict[str, Any]]:
        """Returns a row for each signature and number of clients."""
        sentences = self.sentences.read_text("utf-8").splitlines() if self.sentences else SENTENCES
        rows = []
        for signature in self.signatures:
            requests = bodies(signature, sentences, self.batch_size)
            for clients in self.clients:
                drive(server, predict_path(self.model), requests, clients, after(self.seconds / 10))
                began = time.perf_counter()
                tally = drive(server, predict_path(self.model), requests, clients, after(self.seconds))
                rows.append(self._row(signature, clients, tally, time.perf_counter() - began))
        return rows

    def _row(self, signature: str, clients: int, tally: Tally, elapsed: float) -> dict[str, Any]:
        return {
            "signature": signature,
            "clients": clients,
            "batch_size": self.batch_size,
            "requests": len(tally.seconds),
            "seconds": round(elapsed, 2),
            "sentences_per_second": round(len(tally.seconds) * self.batch_size / elapsed, 1),
            **percentiles(tally.seconds),
            "failures": dict(tally.failures),
        }


def export_twice(run: Path, models: Path, name: str, max_batch_size: int, wait_ms: float) -> None:
    """Exports a run as version 1 of ``name`` to ``models``/plain, and with micro-batching to ``models``/merged."""
    from nmt_keras.config import ExportConfig, MicroBatchingConfig
    from nmt_keras.export import export
    from nmt_keras.export.signatures import serving_search
    from nmt_keras.runs import Run

    translator = Run(run).translator()
    translator = translator.with_search(serving_search(translator.search))
    merging = MicroBatchingConfig(max_batch_size=max_batch_size, wait_ms=wait_ms, queue=1024)
    export(translator, models / "plain" / name)
    export(translator, models / "merged" / name, config=ExportConfig(micro_batching=merging))


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Returns the percentiles 50, 95 and 99 of the durations, in milliseconds."""
    if len(seconds) < 2:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {f"p{percent}_ms": round(1000 * cuts[percent - 1], 2) for percent in (50, 95, 99)}


@dataclass(frozen=True)
class Swap:
    """Publishes new versions under load."""

    model_dir: Path = Path("saved_models")
    """Folder with NAME/VERSION/. A copy is served, so the folder does not change."""
    model: str = "spa-eng"
    """Name of the model."""
    signature: str = "serving_default"
    """Signature to request."""
    seconds: float = 600.0
    """Seconds of load."""
    clients: int = 32
    """Number of concurrent clients."""
    publications: int = 2
    """Number of new versions, evenly spaced."""
    tolerance: float = 0.1
    """Allowed relative growth of memory, from the tenth of the time before the first publication to the last tenth."""

    def measure(self) -> Report:
        """Measures failed requests, and the server's memory every second."""
        with tempfile.TemporaryDirectory(prefix="serve-load-") as scratch:
            models = Path(scratch)
            version = max(int(path.name) for path in (self.model_dir / self.model).iterdir() if path.name.isdecimal())
            shutil.copytree(self.model_dir / self.model / str(version), models / self.model / "1")
            with started(models) as server:
                return self._report(server, models / self.model)

    def _report(self, server: Server, folder: Path) -> Report:
        stop = after(self.seconds)
        memory: list[float] = []
        watcher = threading.Thread(target=self._watch, args=(server, folder, stop, memory))
        watcher.start()
        tally = drive(server, predict_path(self.model), bodies(self.signature, SENTENCES, 1), self.clients, stop)
        watcher.join()
        connection = server.connect()
        connection.request("GET", f"/v1/models/{self.model}")
        states = {
            status["version"]: status["state"]
            for status in json.loads(connection.getresponse().read())["model_version_status"]
        }
        connection.close()
        expected = {str(n + 1): "AVAILABLE" if n == self.publications else "END" for n in range(self.publications + 1)}
        settled = statistics.median(self._tenth(memory, 1.0 / (self.publications + 1) - 0.11))
        at_the_end = statistics.median(memory[-max(1, len(memory) // 10) :])
        result = {
            "seconds": self.seconds,
            "clients": self.clients,
            "requests": len(tally.seconds),
            "failures": dict(tally.failures),
            **percentiles(tally.seconds),
            "versions": states,
            "megabytes_before_first_publication": round(settled, 1),
            "megabytes_at_the_end": round(at_the_end, 1),
            "megabytes_at_most": round(max(memory), 1),
        }
        broken = [f"failed: {tally.failures}"] if tally.failures else []
        if states != expected:
            broken.append(f"versions: expected {expected}, received {states}")
        if at_the_end > settled * (1 + self.tolerance):
            broken.append(f"memory grew from {settled:.0f} to {at_the_end:.0f} MB")
        return Report(result, broken)

    def _watch(self, server: Server, folder: Path, stop: threading.Event, memory: list[float]) -> None:
        """Records the memory every second, and publishes the new versions."""
        began, published = time.monotonic(), 0
        while not stop.wait(min(1.0, self.seconds / 50)):
            memory.append(server.resident_megabytes())
            due = self.seconds * (published + 1) / (self.publications + 1)
            if published < self.publications and time.monotonic() - began >= due:
                published += 1
                shutil.copytree(folder / "1", folder / "partial")
                os.rename(folder / "partial", folder / str(published + 1))

    @staticmethod
    def _tenth(memory: list[float], share: float) -> list[float]:
        """Returns a tenth of the measurements, starting at ``share`` of them."""
        first = min(int(len(memory) * share), len(memory) - 1)
        return memory[first : first + max(1, len(memory) // 10)]


@dataclass(frozen=True)
class Hostile:
    """Sends invalid requests."""

    model_dir: Path = Path("saved_models")
    """Folder with NAME/VERSION/."""
    model: str = "spa-eng"
    """Name of the model."""
    requests: int = 100_000
    """Number of invalid requests."""
    clients: int = 16
    """Number of concurrent clients."""
    seed: int = 0
    """Seed of the random requests."""
    slow_share: float = 0.002
    """Share of the requests that are sent slowly or left unfinished."""
    tolerance: float = 0.25
    """Allowed relative growth of memory after the first tenth of the requests."""

    def measure(self) -> Report:
        """Counts the answers by kind of request, and checks that a valid request gets the same answer as before."""
        with started(self.model_dir, ["--rest-api-timeout-in-ms", "10000"]) as server:
            honest = bodies("serving_default", SENTENCES[:1], 1)[0]
            before = self._ask(server, honest)
            if before[0] != 200:
                raise SystemExit(f"serve_load: expected status 200 for a valid request, received {before}")
            memory: list[float] = []
            meanwhile: Counter[str] = Counter()
            over = threading.Event()

            def watch() -> None:
                """Sends valid requests one after the other during the attack."""
                while not over.wait(0.2) and server.is_alive():
                    try:
                        status, body = self._ask(server, honest)
                    except (OSError, http.client.HTTPException) as error:
                        meanwhile[type(error).__name__] += 1
                    else:
                        right = "right" if (status, body) == before else f"{status}"
                        meanwhile[right] += 1
                    memory.append(server.resident_megabytes() if server.is_alive() else 0.0)

            watcher = threading.Thread(target=watch)
            watcher.start()
            answers: Counter[str] = Counter()
            lock = threading.Lock()

            def attack(client: int) -> None:
                rng = random.Random(self.seed * 1000 + client)
                for _ in range(client, self.requests, self.clients):
                    kind = rng.choice(SLOW_KINDS if rng.random() < self.slow_share else KINDS)
                    status = exchange(server, kind(rng, self.model))
                    with lock:
                        answers[f"{kind.__name__}: {status}"] += 1

            threads = [threading.Thread(target=attack, args=(client,)) for client in range(self.clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            over.set()
            watcher.join()
            is_alive = server.is_alive()
            later = self._ask(server, honest) if is_alive else None
            result = {
                "requests": sum(answers.values()),
                "answers": dict(sorted(answers.items())),
                "is_alive": is_alive,
                "later_answer_is_right": later == before,
                "honest_answers_meanwhile": dict(meanwhile),
                "megabytes_after_a_tenth": round(memory[len(memory) // 10], 1),
                "megabytes_at_most": round(max(memory), 1),
                "megabytes_after": round(server.resident_megabytes(), 1) if is_alive else None,
            }
            grew = is_alive and server.resident_megabytes() > memory[len(memory) // 10] * (1 + self.tolerance)
        wrong = [f"{kind} ({count})" for kind, count in answers.items() if is_wrong(kind.rsplit(": ", 1)[1])]
        promises = {
            "the server died": is_alive,
            "a wrong answer afterwards": later == before,
            "a wrong answer meanwhile": set(meanwhile) <= {"right", "429", "503"},
            "memory grew": not grew,
        }
        return Report(result, [*wrong, *(name for name, kept in promises.items() if not kept)])

    def _ask(self, server: Server, body: bytes) -> tuple[int, bytes]:
        connection = server.connect()
        try:
            return post(connection, predict_path(self.model), body)
        finally:
            connection.close()


def is_wrong(status: str) -> bool:
    """Returns ``True`` if there was no answer, or a 5xx status other than 503 (overload)."""
    return status.startswith("no answer") or (status.isdecimal() and int(status) >= 500 and int(status) != 503)


# Invalid requests: each function returns the pieces to send one after the other, with pauses between them


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


def random_bytes(rng: random.Random, model: str) -> Parts:
    return Parts([rng.randbytes(rng.randrange(1, 2000)) + b"\r\n\r\n"])


def random_body(rng: random.Random, model: str) -> Parts:
    return Parts([request(rng.randbytes(rng.randrange(3000)), predict_path(model))])


def mutated_body(rng: random.Random, model: str) -> Parts:
    body = bytearray(bodies("serving_default", SENTENCES, rng.randrange(1, 8))[0])
    for _ in range(rng.randrange(1, 6)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    return Parts([request(bytes(body), predict_path(model))])


def truncated_json(rng: random.Random, model: str) -> Parts:
    body = bodies("serving_default", SENTENCES, 8)[0]
    return Parts([request(body[: rng.randrange(len(body))], predict_path(model))])


def deep_nesting(rng: random.Random, model: str) -> Parts:
    depth = rng.choice([60, 64, 65, 100, 1000, 200_000])
    opening, closing = rng.choice([("[", "]"), ('{"inputs":', "}"), ('{"a":[', "]}")])
    inner = opening * depth + "1" + closing * rng.choice([depth, 0])
    return Parts([request(f'{{"instances": {inner}}}'.encode(), predict_path(model))])


def huge_numbers(rng: random.Random, model: str) -> Parts:
    digits = "9" * rng.choice([1, 19, 20, 400, 5000, 100_000])
    number = rng.choice(
        [digits, f"-{digits}", f"1e{digits}", f"0.{digits}", f"1{digits}e-{digits}", "NaN", "-Infinity"]
    )
    return Parts([request(f'{{"{rng.choice(["instances", "inputs"])}": [{number}]}}'.encode(), predict_path(model))])


def wrong_shapes(rng: random.Random, model: str) -> Parts:
    values: list[Any] = ["a", [], [[]], [["a"]], [["a"], "b"], ["a", ["b"]], [["a", "b"], ["c"]], [[[[[["a"]]]]]], {}]
    document = {rng.choice(["instances", "inputs"]): rng.choice(values)}
    return Parts([request(json.dumps(document).encode(), predict_path(model))])


def wrong_types(rng: random.Random, model: str) -> Parts:
    values: list[Any] = [
        None,
        True,
        1,
        1.5,
        "",
        "\0",
        "\U0010ffff",
        {"b64": "A"},
        {"b64": 1},
        {"text": 1},
        {"x": "a"},
        [],
    ]
    row = [rng.choice(values) for _ in range(rng.randrange(1, 4))]
    document: dict[str, Any] = {rng.choice(["instances", "inputs", "examples", "x"]): rng.choice([row, *values])}
    if rng.random() < 0.3:
        document["signature_name"] = rng.choice(["", "x", 1, None, [], "align", "__saved_model_init_op"])
    method = rng.choice(["predict", "predict", "classify", "regress"])
    return Parts([request(json.dumps(document).encode(), f"/v1/models/{model}:{method}")])


def odd_strings(rng: random.Random, model: str) -> Parts:
    strings = [
        b"\\ud800",
        b"\\udc00\\ud800",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\\u0000",
        b"\x00",
        b"\\x",
        b"a" * 70_000,
        b"a b " * 9000,
    ]
    body = b'{"instances": ["' + b"".join(rng.choices(strings, k=rng.randrange(1, 3))) + b'"]}'
    return Parts([request(body, predict_path(model))])


def large_batches(rng: random.Random, model: str) -> Parts:
    rows = rng.choice([257, 10_000, 500_000])
    return Parts([request(b'{"instances": [' + b'"",' * rows + b'""]}', predict_path(model))])


def equal_keys(rng: random.Random, model: str) -> Parts:
    body = b'{"inputs": 1, "inputs": ["a"], "instances": [{"text": "a", "text": 1}], "instances": 2}'
    return Parts([request(body[: rng.choice([len(body), 36])], predict_path(model))])


def packed(rng: random.Random, model: str) -> Parts:
    whole = gzip.compress(bodies("serving_default", SENTENCES, 1)[0])
    body = BOMB if rng.random() < 0.02 else rng.choice([whole[:-9], whole[:4], b"plain", whole + whole, b""])
    return Parts([request(body, predict_path(model), "Content-Encoding: gzip")])


def odd_paths(rng: random.Random, model: str) -> Parts:
    names = [
        "",
        "%00",
        "%ff",
        "%2e%2e%2f",
        "a" * 60_000,
        "%",
        "..",
        f"{model}/versions/{'9' * 30}",
        f"{model}/labels/%ff",
    ]
    ends = ["", ":predict", "/metadata", ":classify", "/", "?a=1", "#a", ":Predict", "/versions/1:predict"]
    path = f"/v1/models/{rng.choice(names)}{rng.choice(ends)}"
    return Parts(
        [request(b"{}", path, method=rng.choice(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "X"]))]
    )


def odd_framing(rng: random.Random, model: str) -> Parts:
    start = f"POST {predict_path(model)} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    frames = [
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
    return Parts([start + rng.choice(frames)], reads=False)


def aborted(rng: random.Random, model: str) -> Parts:
    whole = request(bodies("serving_default", SENTENCES, 1)[0], predict_path(model))
    return Parts([whole[: rng.randrange(len(whole) + 1)]], reads=False)


def byte_by_byte(rng: random.Random, model: str) -> Parts:
    whole = request(bodies("serving_default", SENTENCES, 1)[0], predict_path(model))
    return Parts([whole[position : position + 1] for position in range(len(whole))], pause=0.01)


def unfinished_headers(rng: random.Random, model: str) -> Parts:
    return Parts([b"POST /v1/models/", b""], pause=0.5)


def unfinished_body(rng: random.Random, model: str) -> Parts:
    return Parts([request(b"{}", predict_path(model)).replace(b"Length: 2", b"Length: 200")])


KINDS: tuple[Callable[[random.Random, str], Parts], ...] = (
    random_bytes,
    random_body,
    mutated_body,
    truncated_json,
    deep_nesting,
    huge_numbers,
    wrong_shapes,
    wrong_types,
    odd_strings,
    large_batches,
    equal_keys,
    packed,
    odd_paths,
    odd_framing,
    aborted,
)
SLOW_KINDS: tuple[Callable[[random.Random, str], Parts], ...] = (byte_by_byte, unfinished_headers, unfinished_body)

BOMB = gzip.compress(b" " * 150_000_000, 9)
"""A body of 150 kB that unpacks to 150 MB, more than ``--max-body-bytes`` allows."""


def exchange(server: Server, parts: Parts) -> str:
    """Sends ``parts``. Returns the status of the answer, or the outcome of the connection."""
    try:
        with socket.create_connection((server.host, server.port), timeout=60) as connection:
            for piece in parts.pieces:
                connection.sendall(piece)
                time.sleep(parts.pause)
            if not parts.reads:
                return "left"
            answer = connection.recv(65536)
    except ConnectionError:
        return "closed"
    except TimeoutError:
        return "no answer in 60 s"
    words = answer.split(b" ", 2)
    return words[1].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "closed"


# Reports


class Report(NamedTuple):
    """Measurements, and the requirements that were violated."""

    result: dict[str, Any]
    broken: list[str]


PACKAGES = ("tensorflow", "tensorflow-text", "starlette", "uvicorn", "h11")
"""Packages whose versions are reported."""


Commands = (
    Annotated[Latency, tyro.conf.subcommand("latency")]
    | Annotated[Swap, tyro.conf.subcommand("swap")]
    | Annotated[Hostile, tyro.conf.subcommand("hostile")]
)


def main() -> None:
    """Reads the command line, measures and prints the result."""
    options: Latency | Swap | Hostile = tyro.cli(Commands, prog="python -m benchmarks.serve_load", description=__doc__)
    names = {
        "benchmark": f"serve_load {type(options).__name__.lower()}",
        "command": " ".join(["python -m benchmarks.serve_load", *sys.argv[1:]]),
    }
    before = machine(PACKAGES)
    report = options.measure()
    found = {**names, **before, **report.result, "broken": report.broken}
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if report.broken:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
