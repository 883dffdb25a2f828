"""Measures latency and throughput of the embedded server under load, without and with micro-batching.

    python -m benchmarks.serve_load --run runs/spa-eng

Exports the run twice. 1, 8 and 32 clients send requests to each signature. ``benchmarks.attacks`` measures robustness.
Prints JSON. The exit code is 1 if a request failed.
"""

import contextlib
import http.client
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import tyro

from benchmarks.machine import machine, print_result

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
"""Sentences that the clients send in turn."""


# The server


class Server(NamedTuple):
    """Server under test."""

    host: str
    port: int
    process: subprocess.Popen
    log: Path
    """File with the process's stderr."""

    def resident_megabytes(self, field: str = "VmRSS") -> float:
        """Returns the resident memory of the process in megabytes. ``VmHWM`` is its peak so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

    def descriptors(self) -> int:
        """Returns the number of open file descriptors of the process."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


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


def predict_path(model: str) -> str:
    return f"/v1/models/{model}:predict"


# Clients


class Answers(NamedTuple):
    """Results of several clients, which append to the lists at the same time."""

    seconds: list[float]
    """Duration of each answer with status 200."""
    failures: list[str]
    """Reason of each failure."""


def drive(server: Server, path: str, requests: Sequence[bytes], clients: int, seconds: float) -> Answers:
    """Sends requests from ``clients`` threads, each on its own connection, for ``seconds``."""
    answers, end = Answers([], []), time.perf_counter() + seconds

    def ask(first: int) -> None:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=120.0)
        number = first
        while (began := time.perf_counter()) < end:
            try:
                connection.request("POST", path, requests[number % len(requests)], {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as error:
                answers.failures.append(type(error).__name__)
                connection.close()
                continue
            if response.status == 200:
                answers.seconds.append(time.perf_counter() - began)
            else:
                answers.failures.append(f"{response.status} {answer[:200].decode(errors='replace')}")
            number += clients
        connection.close()

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    return answers


# The measurement


class Report(NamedTuple):
    """Measurements, the requirements that were violated, and tables and paragraphs for the documentation."""

    result: dict[str, Any]
    broken: list[str]
    shown: tuple[str | list[dict[str, Any]], ...]

    def print(self, before: dict[str, Any]) -> None:
        """Prints the report as JSON. Raises SystemExit if a requirement was violated."""
        broken = [f"Violated requirements: {', '.join(self.broken)}."] if self.broken else []
        print_result(before, {**self.result, "broken": self.broken}, *self.shown, *broken)
        if self.broken:
            raise SystemExit(1)


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    run: Path
    """Run directory."""
    model: str = "spa-eng"
    """Name of the model."""
    signatures: tuple[str, ...] = ("greedy", "serving_default")
    """Signatures to measure. serving_default uses beam 5, unless the export has another default."""
    clients: tuple[int, ...] = (1, 8, 32)
    """Numbers of concurrent clients."""
    seconds: float = 20.0
    """Seconds of measurement per combination. A warm-up of a tenth of this time precedes it."""

    def measure(self) -> Report:
        """Measures every signature with every number of clients."""
        with tempfile.TemporaryDirectory(prefix="serve-load-") as scratch:
            models = Path(scratch)
            export_twice(self.run, models, self.model)
            with started(models / "plain") as server:
                plain = self._rows(server)
            with started(models / "merged", ["--concurrency", str(max(self.clients))]) as server:
                merged = self._rows(server)
        names = ("sentences/s", PERCENTILES)
        shown = [
            {
                **self._shown(one),
                **{f"micro-batching: {name}": self._shown(other)[name] for name in names},
                "ratio": round(other["sentences_per_second"] / one["sentences_per_second"], 2),
            }
            for one, other in zip(plain, merged, strict=True)
            if one["sentences_per_second"]
        ]
        broken = [f"{row['failures']}" for row in [*plain, *merged] if row["failures"]]
        return Report({"measurements": plain, "with_micro_batching": merged}, broken, (shown,))

    @staticmethod
    def _shown(row: dict[str, Any]) -> dict[str, Any]:
        """Returns a row of the documentation's table."""
        return {
            "signature": row["signature"],
            "clients": row["clients"],
            "sentences/s": round(row["sentences_per_second"]),
            PERCENTILES: " / ".join(f"{row.get(f'p{percent}_ms', 0):.0f}" for percent in (50, 95, 99)),
        }

    def _rows(self, server: Server) -> list[dict[str, Any]]:
        """Returns a row for each signature and number of clients."""
        rows = []
        for signature, clients in itertools.product(self.signatures, self.clients):
            documents = ({"signature_name": signature, "instances": [sentence]} for sentence in SENTENCES)
            requests = [json.dumps(document, ensure_ascii=False).encode() for document in documents]
            drive(server, predict_path(self.model), requests, clients, self.seconds / 10)
            began = time.perf_counter()
            answers = drive(server, predict_path(self.model), requests, clients, self.seconds)
            elapsed = time.perf_counter() - began
            row = {
                "signature": signature,
                "clients": clients,
                "requests": len(answers.seconds),
                "seconds": round(elapsed, 2),
                "sentences_per_second": round(len(answers.seconds) / elapsed, 1),
                **percentiles(answers.seconds),
                "failures": dict(Counter(answers.failures)),
            }
            rows.append(row)
        return rows


def export_twice(run: Path, models: Path, name: str) -> None:
    """Exports a run as version 1 of ``name`` to ``models``/plain, and with micro-batching to ``models``/merged."""
    from nmt_keras.config import ExportConfig, MicroBatchingConfig
    from nmt_keras.export import export, serving_search
    from nmt_keras.runs import Run

    translator = Run(run).translator()
    translator = translator.with_search(serving_search(translator.search))
    merging = MicroBatchingConfig(max_batch_size=32, wait_ms=0.0, queue=1024)
    export(translator, models / "plain" / name)
    export(translator, models / "merged" / name, config=ExportConfig(micro_batching=merging))


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Returns the percentiles 50, 95 and 99 of the durations, in milliseconds."""
    if len(seconds) < 2:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {f"p{percent}_ms": round(1000 * cuts[percent - 1], 2) for percent in (50, 95, 99)}


PERCENTILES = "p50 / p95 / p99, ms"
"""Title of the documentation's column of percentiles."""


def main() -> None:
    """Reads the command line, measures and prints the result."""
    options = tyro.cli(Settings, prog="python -m benchmarks.serve_load", description=__doc__)
    before = machine(("tensorflow", "tensorflow-text", "starlette", "uvicorn", "h11"))
    options.measure().print(before)


if __name__ == "__main__":
    main()
