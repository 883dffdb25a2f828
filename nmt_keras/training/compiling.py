"""Compiles the update before training."""

import math
import time
from collections.abc import Callable

import numpy as np

from nmt_keras.config import END, require
from nmt_keras.corpus.batches import Batch, BatchSource
from nmt_keras.layers.internals import start_names_anew
from nmt_keras.training.updater import Updater


def compile_updates(
    updater: Updater, batches: BatchSource, report: Callable[[str], None], within: float = math.inf
) -> None:
    """Compiles or traces an update of each bucket, then restores the model's variables, optimizer and counters.

    Args:
        updater: Updater to compile.
        batches: Batches of the training set.
        report: Function that receives messages for the user.
        within: Seconds that the training has for the compilation and one update.

    Raises:
        ValueError: they will take longer. The compilation is estimated from the buckets compiled so far.
    """
    start, count = time.perf_counter(), len(batches.buckets)
    state = [*updater.model.variables, *updater.optimizer.variables, *updater.stability.variables]
    before = [variable.numpy() for variable in state]
    updater.stability.scale.assign(1.0)  # an overflow would skip the change of the weights
    start_names_anew()
    # largest first, so that the other buckets reuse its memory
    for number, bucket in enumerate(reversed(batches.buckets), start=1):
        batch = _of_single_tokens(batches.masked(bucket))
        began = time.perf_counter()
        if number == 1:
            updater.share_trace(batch)
        _update(updater, batch)
        compiling = time.perf_counter() - began
        began = time.perf_counter()
        _update(updater, batch)
        seconds = time.perf_counter() - began
        report(
            f"{'compiled' if updater.uses_xla else 'traced'} batches of {len(batch.source)} x ({bucket.source} "
            f"source, {bucket.target} target tokens) in {compiling:.1f} s; {seconds * 1e3:.0f} ms per update"
        )
        needed = (time.perf_counter() - start) * count / number + seconds
        require(
            needed < within,
            "TrainConfig.minutes",
            f"more than {needed / 60.0:.1f} (about the time for compiling {count} length buckets and one update)",
            updater.config.minutes,
            "Train for longer, with fewer length_buckets, or on a GPU with XLA_FLAGS=--xla_gpu_autotune_level=0.",
        )
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)


def _of_single_tokens(batch: Batch) -> Batch:
    """Returns a batch of masked rows with END as the only target token of each row, so that the loss is finite."""
    target = np.array(batch.target)
    target[:, 0] = END
    return batch._replace(target=target, pairs=len(target))


def _update(updater: Updater, batch: Batch) -> None:
    """Makes an update with the learning rate 0, and waits for it."""
    metrics = updater.train_step([batch] * updater.config.gradient_accumulation_steps, 0, 0.0)
    float(metrics.gradient_norm)
