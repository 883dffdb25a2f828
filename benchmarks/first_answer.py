"""Measures the time from a fresh clone to the first answer of ``make serve``, which serves the committed model.

    python -m benchmarks.first_answer > docs/measured/first-answer.json

Prints JSON with the seconds and the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.machine import machine, output_of, print_result

ROOT = Path(__file__).parents[1]
REQUEST = {"instances": ["¿Todavía están en casa?"]}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    port: int = 8511
    """A free port for the server of the clone."""


def main(settings: Settings) -> None:
    """Clones the repository, serves the model, and prints the result."""
    before, seconds = machine(), {}
    with tempfile.TemporaryDirectory() as folder:
        seconds["`git clone`"] = timed(["git", "clone", "--quiet", str(ROOT), folder], folder)
        seconds["installation of all packages"] = timed(["make", ".venv/.installed"], folder)
        began = time.perf_counter()
        command = ["make", "serve", f"PORT={settings.port}"]
        with subprocess.Popen(command, cwd=folder, start_new_session=True, stdout=sys.stderr) as server:
            try:
                answer = first_answer(f"http://127.0.0.1:{settings.port}/v1/models/spa-eng:predict", server)
                seconds["`make serve`, first answer"] = time.perf_counter() - began
            finally:
                with contextlib.suppress(ProcessLookupError):  # the server ended by itself
                    os.killpg(server.pid, signal.SIGTERM)
    seconds["together"] = sum(seconds.values())
    rows = [{"step": step, "seconds": round(taken, 1)} for step, taken in seconds.items()]
    print_result(before, {"request": REQUEST, "answer": answer}, rows)


def timed(command: Sequence[str], folder: str) -> float:
    """Returns the seconds of one process."""
    began = time.perf_counter()
    output_of(command, cwd=folder)
    return time.perf_counter() - began


def first_answer(url: str, server: subprocess.Popen[bytes]) -> object:
    """Returns the answer to ``REQUEST`` as soon as the server answers with status 200."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url, json.dumps(REQUEST).encode(), timeout=10) as answered:
                return json.load(answered)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            time.sleep(0.1)
        except (urllib.error.URLError, ConnectionError, TimeoutError):  # the server is starting
            time.sleep(0.1)
    raise SystemExit(f"first_answer: make serve ended with exit code {server.returncode}; see its output above.")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
