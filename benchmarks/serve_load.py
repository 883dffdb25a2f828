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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from benchmarks.machine import field, machine, print_result

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
SIGNATURES = ("greedy", "serving_default")
"""Signatures to measure. serving_default uses beam 5, unless the export has another default."""
CLIENTS = (1, 8, 32)
SECONDS = 20.0
"""Seconds of measurement per signature and number of clients. A warm-up of a tenth of this time precedes it."""


# The server


class Server(NamedTuple):
    """Server under test."""

    address: str  # HOST:PORT
    process: subprocess.Popen
    log: Path  # stderr of the process

    def resident_megabytes(self, name: str = "VmRSS") -> float:
        """Returns the resident memory of the process in megabytes. ``VmHWM`` is its peak so far."""
        return int(field(f"/proc/{self.process.pid}/status", rf"^{name}:\s+(\d+)")) / 1024

    def descriptors(self) -> int:
        """Returns the number of open file descriptors of the process."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextlib.contextmanager
def started(model_dir: Path, options: Sequence[str] = (), wrapper: Sequence[str] = ()) -> Iterator[Server]:
    """Runs the embedded server for ``model_dir`` on a free port, in its own process.

    Args:
        model_dir: Folder that holds NAME/VERSION/.
        options: Further options of the server.
        wrapper: Command that starts the server in its place, such as ``prlimit``.
    """
    command = [*wrapper, sys.executable, "-m", "serve.server", "--model-dir", str(model_dir), "--port", "0", *options]
    with (
        tempfile.NamedTemporaryFile("w") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line, log = process.stdout.readline(), Path(file.name)
            if not line.startswith("Listening on http://"):
                raise SystemExit(f"{Path(sys.argv[0]).stem}: the server did not start: {log.read_text()[-2000:]}")
            yield Server(line.rpartition("/")[2].strip(), process, log)
        finally:
            process.terminate()


def predict_path(model: str) -> str:
    return f"/v1/models/{model}:predict"


# Clients


def drive(
    server: Server, path: str, requests: Sequence[bytes], clients: int, seconds: float
) -> tuple[list[float], list[str]]:
    """Sends requests from ``clients`` threads, each on its own connection, for ``seconds``.

    Returns the duration of each answer with status 200, and the other answers.
    """
    durations, failures = list[float](), list[str]()  # threads append to them at the same time
    end = time.perf_counter() + seconds

    def ask(first: int) -> None:
        connection = http.client.HTTPConnection(server.address, timeout=120.0)
        turns = itertools.islice(itertools.cycle(requests), first, None, clients)
        while (began := time.perf_counter()) < end:
            connection.request("POST", path, next(turns), {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status == 200:
                durations.append(time.perf_counter() - began)
            else:
                failures.append(f"{response.status} {answer[:200].decode(errors='replace')}")
        connection.close()

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    return durations, failures


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Returns the percentiles 50, 95 and 99 of the durations, in milliseconds."""
    if len(seconds) < 2:
        return {}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {f"p{percent}_ms": round(1000 * cuts[percent - 1], 2) for percent in (50, 95, 99)}


# The measurement


def main(run: Path, model: str = "spa-eng") -> None:
    """Measures every signature with every number of clients, and prints the result.

    Args:
        run: Run directory.
        model: Name of the model.
    """
    before = machine(("tensorflow", "tensorflow-text", "starlette", "uvicorn", "h11"))
    with tempfile.TemporaryDirectory(prefix="serve-load-") as scratch:
        models = Path(scratch)
        export_twice(run, models, model)
        with started(models / "plain") as server:
            plain = measure(server, model)
        with started(models / "merged", ["--concurrency", str(max(CLIENTS))]) as server:
            merged = measure(server, model)
    rows = [
        {
            "signature": one["signature"],
            "clients": one["clients"],
            **speed(one),
            **{f"micro-batching: {name}": value for name, value in speed(other).items()},
            "ratio": round(other["sentences_per_second"] / one["sentences_per_second"], 2),
        }
        for one, other in zip(plain, merged, strict=True)
        if one["sentences_per_second"]
    ]
    broken = [f"{row['failures']}" for row in [*plain, *merged] if row["failures"]]
    print_report(before, {"measurements": plain, "with_micro_batching": merged}, broken, rows)


def measure(server: Server, model: str) -> list[dict[str, Any]]:
    """Returns a row for each signature and number of clients."""
    rows = []
    for signature, clients in itertools.product(SIGNATURES, CLIENTS):
        documents = ({"signature_name": signature, "instances": [sentence]} for sentence in SENTENCES)
        requests = [json.dumps(document, ensure_ascii=False).encode() for document in documents]
        drive(server, predict_path(model), requests, clients, SECONDS / 10)
        began = time.perf_counter()
        durations, failures = drive(server, predict_path(model), requests, clients, SECONDS)
        elapsed = time.perf_counter() - began
        rows.append(
            {
                "signature": signature,
                "clients": clients,
                "requests": len(durations),
                "seconds": round(elapsed, 2),
                "sentences_per_second": round(len(durations) / elapsed, 1),
                **percentiles(durations),
                "failures": dict(Counter(failures)),
            }
        )
    return rows


def speed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns two columns of the documentation's table."""
    times = " / ".join(f"{row.get(f'p{percent}_ms', 0):.0f}" for percent in (50, 95, 99))
    return {"sentences/s": round(row["sentences_per_second"]), "p50 / p95 / p99, ms": times}


def print_report(before: Mapping[str, Any], result: Mapping[str, Any], broken: list[str], *shown: Any) -> None:
    """Prints a result as JSON, with the violated requirements. Raises SystemExit if there are any."""
    told = [f"Violated requirements: {', '.join(broken)}."] if broken else []
    print_result(before, {**result, "broken": broken}, *shown, *told)
    if broken:
        raise SystemExit(1)


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


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
