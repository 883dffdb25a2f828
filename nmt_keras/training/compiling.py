"""Compiles the update before training, and measures its speed."""

import time
from collections.abc import Callable

import numpy as np

from nmt_keras.config import END
from nmt_keras.corpus.batches import Batch, BatchSource, Bucket
from nmt_keras.layers.internals import start_names_anew
from nmt_keras.training.updater import Updater


def compile_and_time(updater: Updater, batches: BatchSource, report: Callable[[str], None]) -> dict[Bucket, float]:
    """Compiles or traces an update of each bucket, then restores weights, optimizer and counters.

    Returns:
        Seconds of an update with batches of each bucket.
    """
    state = [*updater.variables, *updater.optimizer.variables, *updater.stability.variables]
    before = [variable.numpy() for variable in state]
    updater.stability.scale.assign(1.0)  # an overflow would skip the change of the weights
    seconds: dict[Bucket, float] = {}
    start_names_anew()
    for bucket in reversed(batches.buckets):  # largest first, so that the other buckets reuse its memory
        batch = _of_single_tokens(batches.masked(bucket))
        began = time.perf_counter()
        if not seconds:
            updater.share_trace(batch)
        _update(updater, batch)
        compiling = time.perf_counter() - began
        began = time.perf_counter()
        _update(updater, batch)
        seconds[bucket] = time.perf_counter() - began
        report(
            f"{'compiled' if updater.uses_xla else 'traced'} batches of {len(batch.source)} x ({bucket.source} "
            f"source, {bucket.target} target tokens) in {compiling:.1f} s; {seconds[bucket] * 1e3:.0f} ms per update"
        )
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)
    return seconds


def _of_single_tokens(batch: Batch) -> Batch:
    """Returns a batch of masked rows with END as the only target token of each row, so that the loss is finite."""
    target = np.array(batch.target)
    target[:, 0] = END
    return batch._replace(target=target, pairs=len(target))


def _update(updater: Updater, batch: Batch) -> None:
    """Makes an update with the learning rate 0, and waits for it."""
    metrics = updater.train_step([batch] * updater.config.gradient_accumulation_steps, 0, 0.0)
    float(metrics.gradient_norm)
