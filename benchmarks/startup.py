#!/usr/bin/env python3
"""Measures how long commands take from start to end, as whole processes, and how long the first answer takes.

    python -m benchmarks.startup
    python -m benchmarks.startup --model saved_models/spa-eng/1 --training
    python -m benchmarks.startup --clone > docs/measured/first-answer.json

The first command measures the help of several commands. ``--model`` adds the translation of one sentence with an
exported model. ``--training`` adds trainings of two recipes on the sample corpus, with an empty and with a filled
compilation cache: the time from the start of the process to its first update, and the time of compiling or loading.
Each command first runs once, so that its files are cached and compiled. Then the commands take turns for several runs.

``--clone`` measures instead the time from a fresh clone to the first answer of ``make serve``, which serves the
committed model. Prints JSON with the seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from benchmarks.machine import machine, output_of, print_result

ROOT = Path(__file__).parents[1]
HELP = ("nmt --help", "nmt train --help", "nmt translate --help")
SENTENCE = "Mi casa es roja."
LOAD = """
import sys, time, tensorflow, nmt_keras
began = time.perf_counter()
nmt_keras.load(sys.argv[1])
print(time.perf_counter() - began)
"""
RECIPES = ("sample", "conditional-gru")
COMPILED = re.compile(r"compiled batches of .*? in ([\d.]+) s")
REQUEST = {"instances": ["¿Todavía están en casa?"]}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    runs: int = 5
    """Number of processes per command."""
    model: Path | None = None
    """Directory of an exported version. Adds ``nmt translate``, ``nmt_keras.load`` and the import of TensorFlow."""
    training: bool = False
    """If True, adds the first and the second training of ``RECIPES``."""
    clone: bool = False
    """If True, measures only a fresh clone, its installation and its first answer."""
    port: int = 8511
    """A free port for the server of the clone."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    (from_clone if settings.clone else commands)(settings)


def commands(settings: Settings) -> None:
    """Measures the commands and prints the result."""
    before = machine()
    measures: dict[str, Callable[[], float]] = {}
    for command in HELP:
        measures[command] = partial(whole, *command.split()[1:])
    if settings.model:
        model = str(settings.model.resolve())
        measures[f'nmt translate MODEL "{SENTENCE}"'] = partial(whole, "translate", model, SENTENCE)
        measures["python -c 'import tensorflow'"] = lambda: timed([sys.executable, "-c", "import tensorflow"])
        measures["nmt_keras.load(MODEL), after import"] = lambda: float(
            output_of([sys.executable, "-c", LOAD, model], cwd=ROOT).splitlines()[-1]
        )
    found: dict[str, list[float]] = {name: [] for name in measures}
    for measure in measures.values():
        measure()
    for _ in range(settings.runs):
        for name, measure in measures.items():
            found[name].append(measure())
        if settings.training:
            for recipe in RECIPES:
                for name, seconds in two_trainings(recipe).items():
                    found.setdefault(name, []).append(seconds)
    rows = []
    for name, each in found.items():
        typed, comma, rest = name.partition(", ")
        seconds_of_each = [round(one, 2) for one in each]
        median = round(statistics.median(each), 2)
        rows.append({"command": f"`{typed}`{comma}{rest}", "each process, s": seconds_of_each, "median, s": median})
    result = {
        "median_s": {name: round(statistics.median(each), 3) for name, each in found.items()},
        "seconds": {name: [round(one, 3) for one in each] for name, each in found.items()},
    }
    print_result(before, result, rows)


def whole(*words: str) -> float:
    """Returns the seconds of one process that runs this clone's ``nmt`` with this interpreter."""
    return timed([sys.executable, "-m", "nmt_keras", *words])


def timed(command: Sequence[str], folder: str | Path = ROOT) -> float:
    """Returns the seconds of one process."""
    began = time.perf_counter()
    output_of(command, cwd=folder)
    return time.perf_counter() - began


def two_trainings(recipe: str) -> dict[str, float]:
    """Returns the seconds to the first update with an empty compilation cache and with a filled one."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "filled"):
            words = ["train", recipe, "--corpus", "sample", "--run", f"{folder}/{cache}"]
            words += ["--steps", "2", "--train.validations", "1", "--train.log-every", "1"]
            first, said = first_update(words, f"{folder}/cache")
            found[f"nmt train {recipe}, first update, {cache} cache"] = first
            found[f"nmt train {recipe}, compilation, {cache} cache"] = sum(map(float, COMPILED.findall(said)))
    return found


def first_update(words: list[str], cache: str) -> tuple[float, str]:
    """Runs ``nmt``. Returns the seconds until it reports the first update, and its whole output."""
    began, first, lines = time.perf_counter(), None, []
    with subprocess.Popen(
        [sys.executable, "-m", "nmt_keras", *words],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": cache},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if first is None and line.startswith("step 1 of"):
                first = time.perf_counter() - began
    if process.returncode or first is None:
        raise SystemExit(f"startup: nmt {' '.join(words)} failed:\n{''.join(lines[-20:])}")
    return first, "".join(lines)


def from_clone(settings: Settings) -> None:
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
    raise SystemExit(f"startup: make serve ended with exit code {server.returncode}; see its output above.")


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
