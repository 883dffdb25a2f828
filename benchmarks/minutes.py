#!/usr/bin/env python3
"""Measures how closely a training keeps to its number of minutes while another load takes half the machine.

    python -m benchmarks.minutes --corpus spa-eng.zip

Trains the default recipe twice: with the load in the last 70 % of the minutes, and with the load in the first 30 %.
The load is one busy process per core, with the same priority as the training. Prints JSON with the minutes of training,
as the command reports them, and the number of updates.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.machine import machine

ROOT = Path(__file__).parents[1]
SHARE = 0.3
"""Share of the minutes after which the load begins or ends."""


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    corpus: str
    """Path of a corpus file, or "sample"."""
    minutes: float = 10.0
    """Minutes of each training."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    before = machine()
    change = 60 * SHARE * settings.minutes
    found = {
        "in the last 70 % of the time": trained(settings, change, 3600 * settings.minutes),
        "in the first 30 % of the time": trained(settings, 0.0, change),
    }
    command = " ".join(["python -m benchmarks.minutes", *sys.argv[1:]])
    print(json.dumps({**before, "command": command, "minutes": settings.minutes, "load": found}, indent=2))


def trained(settings: Settings, begin: float, end: float) -> dict[str, float]:
    """Trains with a load from ``begin`` to ``end``, in seconds. Returns the minutes and updates of the training."""
    with tempfile.TemporaryDirectory() as folder, loaded(begin, end):
        options = ["--corpus", settings.corpus, "--minutes", str(settings.minutes), "--run", f"{folder}/run"]
        said = subprocess.run(
            [sys.executable, "-m", "nmt_keras", "train", *options],
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        ).stdout
    done = re.search(r"trained for ([\d.]+) minutes, (\d+) steps", said)
    assert done is not None, said
    return {"minutes": float(done[1]), "updates": int(done[2])}


@contextlib.contextmanager
def loaded(begin: float, end: float) -> Iterator[None]:
    """Keeps one process per core busy from ``begin`` to ``end``, in seconds, or until the context ends."""
    stop = threading.Event()

    def keep_busy() -> None:
        if stop.wait(begin):
            return
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
        stop.wait(end - begin)
        for process in busy:
            process.kill()
            process.wait()

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
