#!/usr/bin/env python3
"""Measures the cost of logging: the share of training time for log rows, the progress line and TensorBoard.

    python -m benchmarks.log_cost
    python -m benchmarks.log_cost --log-every 1

Trains the sample recipe for some updates, as ``nmt train --tensorboard`` does. Measures the time of every call that
only logs: counting a batch, making and writing a row of the log, the scalars for TensorBoard, the progress line. The
clock starts after the updates of a row are finished. Translations and pictures, which each validation writes, are
reported separately. Prints JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import tyro

from benchmarks.machine import machine
from nmt_keras.cli.memory import keep_memory

PICTURES = "translations and pictures for TensorBoard"


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    steps: int = 600
    """Number of updates of the run."""
    log_every: int = 50
    """Number of updates between two rows of the log, as in a recipe."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    before = machine()
    spent: defaultdict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder, timed(spent):
        train(Path(folder), settings)
    seconds = spent.pop("updates")
    percent = {name: round(100 * spent[name] / seconds, 3) for name in sorted(spent)}
    told = sum(share for name, share in percent.items() if name != PICTURES)
    command = " ".join(["python -m benchmarks.log_cost", *sys.argv[1:]])
    result = {"updates_s": round(seconds, 1), "percent": percent, "percent_without_pictures": round(told, 3)}
    print(json.dumps({**before, "command": command, "log_every": settings.log_every, **result}, indent=2))


def train(folder: Path, settings: Settings) -> None:
    """Trains as ``nmt train --tensorboard`` does."""
    from nmt_keras.cli.console import Console
    from nmt_keras.config import RunOptions
    from nmt_keras.corpus.loading import sample_corpus
    from nmt_keras.recipes import SAMPLE
    from nmt_keras.runs import Run

    lasting = replace(SAMPLE.train, steps=settings.steps, minutes=None, epochs=None, log_every=settings.log_every)
    console, options = Console(), RunOptions(tensorboard=True)
    Run(folder, replace(SAMPLE, train=lasting)).train(sample_corpus(), console.say, console.show, options)
    console.close()


@contextlib.contextmanager
def timed(spent: defaultdict[str, float]) -> Iterator[None]:
    """Adds the seconds of updates and of every logging call to ``spent``, by name."""
    from nmt_keras.cli.console import Console
    from nmt_keras.training.log import Log, LogInterval
    from nmt_keras.training.tensorboard import TensorBoardCallback
    from nmt_keras.training.updater import Updater

    def clocked(owner: type, method: str, name: Callable[..., str], wait: bool = False) -> Any:
        original = getattr(owner, method)

        def call(self: Any, *arguments: Any) -> Any:
            began = time.perf_counter()
            result = original(self, *arguments)
            if wait:
                float(result.gradient_norm)
            spent[name(*arguments)] += time.perf_counter() - began
            return result

        return mock.patch.object(owner, method, call)

    with contextlib.ExitStack() as stack:
        for each in (
            clocked(Updater, "update", lambda *_: "updates", wait=True),
            clocked(LogInterval, "add", lambda *_: "rows of log.jsonl"),
            clocked(LogInterval, "row", lambda *_: "rows of log.jsonl"),
            clocked(Log, "append", lambda *_: "rows of log.jsonl"),
            clocked(Console, "show", lambda *_: "progress line"),
            clocked(
                TensorBoardCallback,
                "on_log",
                lambda row: PICTURES if "valid_loss" in row else "scalars for TensorBoard",
            ),
        ):
            stack.enter_context(each)
        yield


if __name__ == "__main__":
    keep_memory()
    main(tyro.cli(Settings, description=__doc__))
