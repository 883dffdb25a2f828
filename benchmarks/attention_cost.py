"""Measures how the time of one attention step grows with the source length, for global and for local attention.

    python -m benchmarks.attention_cost

Prints JSON with the median milliseconds of one step of 64 sentences, for each kind of attention and source length. The
ratio is the time at the longest length divided by the time at the shortest. There are three measurements:

context    forward pass and gradient with respect to the state; the ratio of local attention should be near 1
alignment  a step of a search, which writes all S weights
memory     also the gradient with respect to all S annotations, as in each training step with input feeding
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import tyro

from benchmarks.machine import machine
from nmt_keras.layers.attention import Attention, GlobalAttention
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import GeneralScore

SENTENCES, UNITS, WINDOW = 64, 512, 10
KINDS: dict[str, Callable[[], Attention]] = {
    "global": lambda: GlobalAttention(GeneralScore()),
    "local-m": lambda: MonotonicLocalAttention(GeneralScore(), WINDOW),
    "local-p": lambda: PredictiveLocalAttention(GeneralScore(), WINDOW, units=UNITS),
}


def milliseconds(attention: Attention, length: int, runs: int, what: str) -> float:
    """Returns the median milliseconds of one step. The time to compute states, keys and values is not included."""
    random = np.random.default_rng(1)
    values = tf.constant(random.normal(size=[SENTENCES, length, UNITS]), tf.float32)
    mask, lengths = tf.ones([SENTENCES, length], tf.bool), tf.fill([SENTENCES], length)
    memory = Memory(values, values, mask, lengths, None)
    query = tf.constant(random.normal(size=[SENTENCES, 1, UNITS]), tf.float32)
    step = tf.fill([SENTENCES, 1], length // 2)

    @tf.function(autograph=False)
    def once() -> tf.Tensor:
        if what == "alignment":
            attended = attention.attend(query, step, memory)
            context = attention.context(attended, values)
            return tf.reduce_sum(context) + tf.reduce_sum(attention.alignment(attended, memory))
        sources = [query, values] if what == "memory" else [query]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            context = attention.context(attention.attend(query, step, memory), values)
        return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(x)) for x in tape.gradient(context, sources)])

    once()
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        once().numpy()
        seconds.append(time.perf_counter() - began)
    return 1e3 * float(np.median(seconds))


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    lengths: tuple[int, ...] = (50, 100, 200, 400, 800)
    """Source lengths in tokens, ascending."""
    runs: int = 50
    """Number of measured steps per combination."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    before, found = machine(), {}
    for name, make in KINDS.items():
        attention = make()
        attention.build((SENTENCES, 1, UNITS), (SENTENCES, None, UNITS))
        for what in ("context", "alignment", "memory"):
            lengths = settings.lengths
            costs = {length: round(milliseconds(attention, length, settings.runs, what), 3) for length in lengths}
            ratio = round(costs[lengths[-1]] / costs[lengths[0]], 2)
            found[f"{name}, {what}"] = {"ms": costs, "ratio": ratio}
    command = " ".join(["python -m benchmarks.attention_cost", *sys.argv[1:]])
    sizes = {"sentences": SENTENCES, "units": UNITS, "window": WINDOW}
    print(json.dumps({**before, "command": command, **sizes, **found}, indent=1))


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
