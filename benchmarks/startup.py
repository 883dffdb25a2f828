#!/usr/bin/env python3
"""Measures how long commands take from start to end, as whole processes.

    python -m benchmarks.startup
    python -m benchmarks.startup --model saved_models/demo/1 --training

The first command measures the help of several commands. ``--model`` adds the translation of one sentence with an
exported model. ``--training`` adds trainings of two recipes on the sample corpus, with an empty and with a filled
compilation cache: the time from the start of the process to its first update, and the time of compiling or loading.

Each command first runs once, so that its files are cached and compiled. Then the commands take turns for several runs.
Prints JSON with the milliseconds of each process and their median, by command.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tyro

from benchmarks.machine import machine

ROOT = Path(__file__).parents[1]
HELP = ("nmt --help", "nmt train --help", "nmt translate --help")
SENTENCE = "Mi casa es roja."
LOAD = """
import sys, time, tensorflow, nmt_keras
began = time.perf_counter()
nmt_keras.load(sys.argv[1])
print(1000 * (time.perf_counter() - began))
"""
RECIPES = ("sample", "conditional-gru")
COMPILED = re.compile(r"compiled batches of .*? in ([\d.]+) s")


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    runs: int = 5
    """Number of processes per command."""
    model: Path | None = None
    """Directory of an exported version. Adds ``nmt translate``, ``nmt_keras.load`` and the import of TensorFlow."""
    training: bool = False
    """If True, adds the first and the second training of ``RECIPES``."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    before = machine()
    measures: dict[str, Callable[[], float]] = {}
    for command in HELP:
        measures[command] = partial(whole, *command.split()[1:])
    if settings.model:
        model = str(settings.model.resolve())
        measures[f'nmt translate MODEL "{SENTENCE}"'] = partial(whole, "translate", model, SENTENCE)
        measures["python -c 'import tensorflow'"] = lambda: timed(["-c", "import tensorflow"])
        measures["nmt_keras.load(MODEL), after import"] = lambda: float(output(["-c", LOAD, model]).splitlines()[-1])
    found: dict[str, list[float]] = {name: [] for name in measures}
    for measure in measures.values():
        measure()
    for _ in range(settings.runs):
        for name, measure in measures.items():
            found[name].append(measure())
        if settings.training:
            for recipe in RECIPES:
                for name, milliseconds in two_trainings(recipe).items():
                    found.setdefault(name, []).append(milliseconds)
    result = {
        "command": " ".join(["python -m benchmarks.startup", *sys.argv[1:]]),
        "median_ms": {name: round(statistics.median(each)) for name, each in found.items()},
        "ms": {name: [round(one) for one in each] for name, each in found.items()},
    }
    print(json.dumps({**before, **result}, indent=2))


def whole(*words: str) -> float:
    """Returns the milliseconds of one process that runs this clone's ``nmt`` with this interpreter."""
    return timed(["-m", "nmt_keras", *words])


def timed(words: list[str]) -> float:
    """Returns the milliseconds of one process of this interpreter."""
    began = time.perf_counter()
    output(words)
    return 1000 * (time.perf_counter() - began)


def two_trainings(recipe: str) -> dict[str, float]:
    """Returns the milliseconds to the first update with an empty compilation cache and with a filled one."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "filled"):
            words = ["train", recipe, "--corpus", "sample", "--run", f"{folder}/{cache}"]
            words += ["--steps", "2", "--train.validations", "1", "--train.log-every", "1"]
            first, said = first_update(words, f"{folder}/cache")
            found[f"nmt train {recipe}, first update, {cache} cache"] = first
            compiling = sum(map(float, COMPILED.findall(said)))
            found[f"nmt train {recipe}, compilation, {cache} cache"] = 1000 * compiling
    return found


def first_update(words: list[str], cache: str) -> tuple[float, str]:
    """Runs ``nmt``. Returns the milliseconds until it reports the first update, and its whole output."""
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
                first = 1000 * (time.perf_counter() - began)
    if process.returncode or first is None:
        raise SystemExit(f"startup: nmt {' '.join(words)} failed:\n{''.join(lines[-20:])}")
    return first, "".join(lines)


def output(words: list[str]) -> str:
    """Runs this interpreter in the root of the clone, and returns its output."""
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
