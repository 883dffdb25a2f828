"""Measures the time from a fresh clone to the first answer of ``make serve``, which serves the committed model.

    python -m benchmarks.first_answer > docs/measured/first-answer.json

Prints JSON: seconds of the clone, of the installation and of the start, the request and its answer.
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
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.machine import machine

ROOT = Path(__file__).parents[1]
REQUEST = {"instances": ["¿Todavía están en casa?"]}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    port: int = 8511
    """A free port."""


def main(settings: Settings) -> None:
    """Clones the repository, serves the model, and prints the result."""
    before, seconds = machine(), {}
    with tempfile.TemporaryDirectory() as folder:
        seconds["clone"] = timed(["git", "clone", "--quiet", str(ROOT), folder], folder)
        seconds["install"] = timed(["make", ".venv/.installed"], folder)
        began = time.perf_counter()
        command = ["make", "serve", f"PORT={settings.port}"]
        with subprocess.Popen(command, cwd=folder, start_new_session=True, stdout=sys.stderr) as server:
            try:
                answer = first_answer(f"http://127.0.0.1:{settings.port}/v1/models/spa-eng:predict", server)
                seconds["start"] = time.perf_counter() - began
            finally:
                with contextlib.suppress(ProcessLookupError):  # the server ended by itself
                    os.killpg(server.pid, signal.SIGTERM)
    result = {
        "command": " ".join(["python -m benchmarks.first_answer", *sys.argv[1:]]),
        "seconds": {step: round(taken, 1) for step, taken in seconds.items()},
        "request": REQUEST,
        "answer": answer,
    }
    print(json.dumps({**before, **result}, indent=2, ensure_ascii=False))


def timed(command: list[str], folder: str) -> float:
    """Returns the seconds of a command."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
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
