#!/usr/bin/env python3
"""Measures the time of ``nmt --help`` commands, as whole processes.

    python -m benchmarks.startup

Each command first runs once, so that its files are cached and compiled. Then the commands take turns for several runs.
Prints JSON with the milliseconds of each process and their median, by command.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.machine import machine

ROOT = Path(__file__).parents[1]
COMMANDS = ("nmt --help", "nmt train --help", "nmt translate --help")


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    runs: int = 5
    """Number of processes per command."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    before = machine()
    for command in COMMANDS:
        milliseconds(command)
    found: dict[str, list[float]] = {command: [] for command in COMMANDS}
    for _ in range(settings.runs):
        for command in COMMANDS:
            found[command].append(milliseconds(command))
    result = {
        "command": " ".join(["python -m benchmarks.startup", *sys.argv[1:]]),
        "median_ms": {command: round(statistics.median(each)) for command, each in found.items()},
        "ms": {command: [round(one) for one in each] for command, each in found.items()},
    }
    print(json.dumps({**before, **result}, indent=2))


def milliseconds(command: str) -> float:
    """Returns the milliseconds of one process that runs this clone's ``nmt`` with this interpreter."""
    words = [sys.executable, "-m", "nmt_keras", *shlex.split(command)[1:]]
    began = time.perf_counter()
    subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
