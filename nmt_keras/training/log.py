"""Log of a run, ``log.jsonl``: one row every ``TrainConfig.log_every`` updates, and one for each validation."""

import json
import math
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf

from nmt_keras.corpus.batches import Batch
from nmt_keras.files import sync, write_whole, writing
from nmt_keras.training.updater import Metrics


class Log:
    """File ``log.jsonl`` with one JSON object per line. A resumed run first drops rows newer than its checkpoint.

    If lines are damaged, the old file is kept as ``damaged-log.jsonl``.

    Args:
        path: Path of the file.
        step: Step of the checkpoint.
    """

    def __init__(self, path: Path, step: int):
        found, damaged = _read_rows(path)
        if damaged:
            write_whole(path.with_name(f"damaged-{path.name}"), path.read_bytes())
        rows = [row for row in found if row["step"] <= step]
        write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))
        self.path = path

    def append(self, row: Mapping[str, float]) -> None:
        """Appends a row and syncs the file to the disk. Raises OSError with the path of the file."""
        lost = f"The row of step {row['step']} is missing; the checkpoints are unchanged."
        with writing(self.path, lost):
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            sync([self.path])


def read_log(path: Path) -> list[dict[str, float]]:
    """Returns the rows of a log in order, without an incomplete last line. Returns ``[]`` if there is no file.

    A warning names the damaged lines, which are skipped: the log is not needed to resume training.
    """
    return _read_rows(path)[0]


def _read_rows(path: Path) -> tuple[list[dict[str, float]], list[int]]:
    """Returns the rows of a log, and the numbers of its damaged lines."""
    rows, damaged = [], []
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.append({**row, "step": int(row["step"])})
        except (ValueError, TypeError, KeyError):
            damaged.append(number)
    if damaged:
        warnings.warn(
            f"{path}: skipped {len(damaged)} damaged lines, the first of which is line {damaged[0]}.", stacklevel=3
        )
    return rows, damaged


class LogInterval:
    """Metrics of the updates between two rows of the log. Tensors are read only when the row is computed."""

    def __init__(self) -> None:
        self.metrics: list[Metrics] = []
        self.positions = 0
        self.began = time.perf_counter()  # moved forward by each validation, whose time is not counted

    def add(self, batches: Sequence[Batch], metrics: Metrics) -> None:
        """Adds an update."""
        self.metrics.append(metrics)
        self.positions += sum(batch.target.size for batch in batches)

    def row(self, step: int, epoch: int, rate: float, remaining: int) -> dict[str, float]:
        """Returns a row with losses in nats per target token, and the speed in target tokens per second.

        Tokens include END but not padding. Losses and norms are those of finite updates. ``skipped`` counts the
        non-finite updates. If all updates were skipped, the row has no losses.
        """
        tokens = float(tf.add_n([m.loss.tokens for m in self.metrics]))
        seconds = time.perf_counter() - self.began
        norms = [float(m.gradient_norm) for m in self.metrics]
        totals = [float(m.loss.total) for m in self.metrics]
        sound = [
            m
            for m, norm, total in zip(self.metrics, norms, totals, strict=True)
            if math.isfinite(norm) and math.isfinite(total)
        ]
        learnt: dict[str, float] = {}
        if sound:
            sums = [float(tf.add_n(column)) for column in zip(*(m.loss for m in sound), strict=True)]
            total, cross_entropy, correct, counted = sums
            learnt = {
                "loss": total / counted,
                "cross_entropy": cross_entropy / counted,
                "perplexity": math.exp(min(cross_entropy / counted, 700.0)),
                "accuracy": correct / counted,
                "gradient_norm": statistics.median(float(m.gradient_norm) for m in sound),
            }
        return {
            "step": step,
            "epoch": epoch,
            **learnt,
            "skipped": len(self.metrics) - len(sound),
            "learning_rate": rate,
            "tokens_per_s": tokens / seconds,
            "seconds_left": remaining * seconds / len(self.metrics),
            "padding": 1.0 - tokens / self.positions,
        }


def describe(step: int, total_steps: int, row: Mapping[str, float]) -> str:
    """Returns the progress of training in at most 80 columns: step, loss, speed and time left.

    Args:
        step: Number of updates so far.
        total_steps: Number of updates of the training.
        row: Last training row of the log; empty if there is none.
    """
    position = f"step {step:,} of {total_steps:,}"
    if not row:
        return position
    loss = f"loss {row['loss']:.3f}" if "loss" in row else "no finite loss"
    minutes = row["seconds_left"] / 60.0
    left = f"{minutes:.1f} min" if minutes < 90.0 else f"{minutes / 60.0:.1f} h"
    return f"{position}: {loss}, {row['tokens_per_s']:,.0f} tokens/s, {left} left"
