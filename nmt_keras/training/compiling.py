"""Compiles the update before training, and measures its speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_keras.corpus.batches import BatchSource, Bucket
from nmt_keras.layers.internals import start_names_anew
from nmt_keras.training.updater import Updater


def compile_and_time(updater: Updater, batches: BatchSource, report: Callable[[str], None]) -> dict[Bucket, float]:
    """Compiles or traces all functions on batches of masked rows, then restores weights and optimizer.

    Masked rows have no target tokens.

    Returns:
        Seconds per batch of each bucket, including the batch's share of an update.
    """
    counters = [*updater.skipped.variables, *(updater.loss_scale.variables if updater.loss_scale else ())]
    state = [*updater.variables, *updater.optimizer.variables, *counters]
    before = [variable.numpy() for variable in state]
    seconds: dict[Bucket, float] = {}
    share_of_update = 0.0
    start_names_anew()
    for bucket in reversed(batches.buckets):  # largest first, so that the other buckets reuse its memory
        batch = batches.masked(bucket)
        arguments = updater.replicas.split(batch), tf.constant(0), updater.sampling(0.0), updater.scale
        began = time.perf_counter()
        if updater.shares_trace and not seconds:
            updater.gradients.get_concrete_function(*tf.nest.map_structure(_of_any_size, arguments))
        sums = updater.gradients(*arguments)
        _wait_for(updater, sums)
        if not seconds:
            share_of_update = _seconds_of_update(updater, sums)
        compiling = time.perf_counter() - began
        seconds[bucket] = share_of_update + _seconds(updater, updater.gradients, *arguments)
        report(
            f"{'compiled' if updater.uses_xla else 'traced'} batches of {len(batch.source)} x ({bucket.source} "
            f"source, {bucket.target} target tokens) in {compiling:.1f} s; {seconds[bucket] * 1e3:.0f} ms per batch"
        )
    for variable, value in zip(state, before, strict=True):
        variable.assign(value)
    return seconds


def _seconds_of_update(updater: Updater, sums: Any) -> float:
    """Returns the seconds per batch for adding and applying gradients."""

    def apply() -> tf.Tensor:
        gradients, _ = updater.replicas.sum(sums)
        return updater.apply_gradients(gradients, tf.constant(0.0), tf.constant(1.0), tf.constant(0.0))

    apply()
    accumulated = updater.config.gradient_accumulation_steps
    seconds = _seconds(updater, apply) / accumulated
    if accumulated > 1:
        updater.add(sums, sums)
        seconds += _seconds(updater, updater.add, sums, sums)
    return seconds


def _seconds(updater: Updater, function: Callable[..., Any], *arguments: Any) -> float:
    """Returns the seconds until the results of ``function`` are computed."""
    began = time.perf_counter()
    _wait_for(updater, function(*arguments))
    return time.perf_counter() - began


def _wait_for(updater: Updater, results: Any) -> None:
    """Waits until the last of ``results`` is computed."""
    np.asarray(updater.replicas.local(tf.nest.flatten(results)[-1]))


def _of_any_size(argument: Any) -> Any:
    """Returns the signature of a tensor of any size and of its rank. Other arguments are returned as they are."""
    return tf.TensorSpec([None] * len(argument.shape), argument.dtype) if tf.is_tensor(argument) else argument
