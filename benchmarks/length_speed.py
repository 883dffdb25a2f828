"""Measures training speed by sentence length, of a self-attention encoder and decoder and of a recurrent model.

    python -m benchmarks.length_speed

The systems are those of the group "self-attention" of ``benchmarks.results``, with 5,000 random words. All batches have
``TOKENS`` source and target tokens, in longer or shorter sentences of equal length. The systems take turns.
"""

import itertools
import statistics
import time
from dataclasses import replace

import numpy as np
import tensorflow as tf
import tyro

from benchmarks.machine import machine, print_result
from benchmarks.results import groups
from nmt_keras.corpus.batches import Batch
from nmt_keras.io.startup import keep_freed_memory
from nmt_keras.training.execution import build_for_training
from nmt_keras.training.updater import Updater

TOKENS, WORDS, UPDATES = 2560, 5_000, 10


def main(lengths: tuple[int, ...] = (5, 10, 20, 40, 80), turns: int = 3) -> None:
    """Measures and prints target tokens per second.

    Args:
        lengths: Tokens per sentence.
        turns: Number of measurements of each system with each length.
    """
    keep_freed_memory()
    facts, draw = machine(), np.random.default_rng(1)
    systems = [
        replace(each, train=replace(each.train, length_buckets=1)) for each in groups()["self-attention"].systems
    ]
    updaters = {each.name: Updater(build_for_training(each, WORDS, WORDS), each.train) for each in systems}
    batches = {}
    for length in lengths:
        source, target = draw.integers(4, WORDS, (2, TOKENS // length, length), np.int32)
        batches[length] = Batch(source, target, pairs=TOKENS // length)
    rates: dict[tuple[str, int], list[float]] = {(name, length): [] for name in updaters for length in lengths}
    for turn, (name, length) in itertools.product(range(turns + 1), rates):
        began = time.perf_counter()
        for step in range(1, UPDATES + 1):
            metrics = updaters[name].train_step([batches[length]], step, 1e-3)
        float(metrics.gradient_norm)  # waits for the updates
        if turn:  # the first turn compiles
            rates[name, length].append(UPDATES * TOKENS / (time.perf_counter() - began))
    rows = [
        {
            "tokens per sentence": length,
            **{name: round(statistics.median(rates[name, length])) for name in updaters},
        }
        for length in lengths
    ]
    print_result(
        facts, {"runs": {f"{name}, {length}": list(map(round, each)) for (name, length), each in rates.items()}}, rows
    )


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(1)
    tyro.cli(main, description=__doc__)
