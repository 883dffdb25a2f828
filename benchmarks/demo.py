#!/usr/bin/env python3
"""Runs the demo in an empty folder, as a new user would, and reports its results.

    python -m benchmarks.demo --corpus spa-eng.zip > docs/measured/demo-spa-eng.json
    python -m benchmarks.demo --corpus sample > docs/measured/demo-sample.json
    python -m benchmarks.demo --corpus spa-eng.zip --recipe rnnsearch-base --minutes 10

Prints JSON: test scores, number of updates, speed, length buckets and seconds of compilation, minutes of training and
of the whole command, and peak memory. The demo's own output goes to standard error.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.machine import machine, print_result

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    corpus: str
    """Path of a corpus file, or "sample"."""
    minutes: float | None = None
    """Training time in minutes. None uses the time in the recipe."""
    recipe: str | None = None
    """Name of a recipe. None uses the demo's recipe for the corpus."""


def main(settings: Settings) -> None:
    """Runs the demo and prints the result."""
    before = machine()
    path = Path(settings.corpus)
    options = ["--corpus", str(path.resolve()) if path.exists() else settings.corpus]
    if settings.minutes is not None:
        options += ["--minutes", str(settings.minutes)]
    if settings.recipe is not None:
        options += ["--recipe", settings.recipe]
    with tempfile.TemporaryDirectory() as folder:
        # a new user has no compiled training steps
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": f"{folder}/cache"}
        began = time.perf_counter()
        command = [sys.executable, "-m", "nmt_keras", "demo", *options]
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                print(line, end="", file=sys.stderr, flush=True)
                said.append(line)
        if process.returncode:
            raise SystemExit(f"demo: failed with exit code {process.returncode}; see its output above")
        seconds = time.perf_counter() - began
        (run,) = (Path(folder) / "runs").iterdir()
        found = result_of(run, "".join(said))
    kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    found |= {"command_minutes": round(seconds / 60.0, 2), "peak_megabytes": round(kilobytes / 1024)}
    print_result(before, found, shown(found))


def shown(found: dict[str, Any]) -> list[dict[str, str]]:
    """Returns the table of the results."""
    test = found["test"]
    rows = {
        "test BLEU / chrF (greedy, raw, cased)": f"{test['bleu']:.2f} / {test['chrf']:.2f}",
        "test sentences translated exactly": f"{test['exact']:.1f} %",
        "updates (epochs)": f"{test['step']:,} ({found['epochs']:.1f})",
        "target tokens per second (median of the log's rows)": f"{found['tokens_per_s']:,}",
        "padding": f"{100.0 * found['padding']:.0f} %",
        "length buckets": f"{found['shapes']}",
        "compilation": f"{found['compile_s']:.0f} s",
        "peak memory of the process": f"{found['peak_megabytes']:,} MB",
        "training / whole command, without installation": (
            f"{found['training_minutes']:.1f} min / {found['command_minutes']:.1f} min"
        ),
    }
    return [{"": name, "result": value} for name, value in rows.items()]


def result_of(run: Path, said: str) -> dict[str, Any]:
    """Returns the results from a finished run directory and from the demo's output."""
    test = json.loads((run / "scores.json").read_text(encoding="utf-8"))["test"]
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    compiled = [float(found) for found in re.findall(r"compiled batches of .*? in ([\d.]+) s", said)]
    (minutes,) = re.findall(r"trained for ([\d.]+) minutes", said)
    batches = int(re.findall(r"epochs of (\d+) batches", said)[-1])
    return {
        "test": {name: test[name] for name in ("bleu", "chrf", "exact", "signature", "search", "step")},
        "epochs": round(max(row["step"] for row in rows) / batches, 2),
        "tokens_per_s": round(statistics.median(row["tokens_per_s"] for row in rows if "tokens_per_s" in row)),
        "padding": round(statistics.median(row["padding"] for row in rows if "padding" in row), 3),
        "shapes": len(compiled),
        "compile_s": round(sum(compiled), 1),
        "training_minutes": float(minutes),
        "said": excerpt(said.splitlines()),
    }


def excerpt(lines: list[str]) -> list[str]:
    """Returns the demo's output lines with test scores, five sentences, the request's body and the answer."""
    begin = max(i for i, line in enumerate(lines) if line.startswith("test: BLEU"))
    end, last = (next(i for i, line in enumerate(lines) if line.startswith(step)) for step in ("[4/", "[6/"))
    said = [*lines[begin:end], "...", *itertools.takewhile(bool, lines[last:])]
    left_out = r"\w+\.cc\(\d+\) |  POST "  # library logs, and the URL with a random port
    return [line for line in said if not re.match(left_out, line)]


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
