"""Log of a run, ``log.jsonl``: one row every ``TrainConfig.log_every`` updates, and one for each validation."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nmt_keras.corpus.batches import Batch
from nmt_keras.io.files import read_rows, sync, write_whole, writing
from nmt_keras.training.updater import Metrics


class Log:
    """File ``log.jsonl`` with one JSON object per line. A resumed run first drops rows newer than its checkpoint.

    If lines are damaged, the old file is kept as ``damaged-log.jsonl``.

    Args:
        path: Path of the file.
        step: Step of the checkpoint.
    """

    def __init__(self, path: Path, step: int):
        found, damaged = read_rows(path)
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
    return read_rows(path)[0]


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
        losses = np.array([[float(value) for value in metrics.loss] for metrics in self.metrics])
        norms = np.array([float(metrics.gradient_norm) for metrics in self.metrics])
        finite = np.isfinite(losses[:, 0]) & np.isfinite(norms)
        tokens = float(losses[:, -1].sum())
        seconds = time.perf_counter() - self.began
        learnt: dict[str, float] = {}
        if finite.any():
            total, cross_entropy, correct, counted = losses[finite].sum(axis=0).tolist()
            learnt = {
                "loss": total / counted,
                "cross_entropy": cross_entropy / counted,
                "perplexity": math.exp(min(cross_entropy / counted, 700.0)),
                "accuracy": correct / counted,
                "gradient_norm": float(np.median(norms[finite])),
            }
        return {
            "step": step,
            "epoch": epoch,
            **learnt,
            "skipped": int((~finite).sum()),
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
