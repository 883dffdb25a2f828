"""What one decoder step's attention costs as the source grows: global, and local with a gathered window.

    python -m benchmarks.attention_cost

Prints JSON: milliseconds of one step of 64 sentences, the median of several, for each kind and source length, and each
kind's ratio of the longest to the shortest. "context" is what a step adds, its gradient to the state included: a
gathered window should be near 1. "alignment" is the step of a search, which writes all S weights. "memory" has the
gradient to the annotations, S of them, too, which training with input feeding takes at every step.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from benchmarks.machine import machine
from nmt_keras.layers.attention import Attention, GlobalAttention
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import GeneralScore

SENTENCES, UNITS, WINDOW = 64, 512, 10
KINDS: dict[str, Callable[[], Attention]] = {
    "global": lambda: GlobalAttention(GeneralScore(UNITS, UNITS), UNITS),
    "local-m": lambda: MonotonicLocalAttention(GeneralScore(UNITS, UNITS), UNITS, WINDOW),
    "local-p": lambda: PredictiveLocalAttention(
        GeneralScore(UNITS, UNITS), UNITS, WINDOW, units=UNITS, query_size=UNITS
    ),
}


def milliseconds(attention: Attention, length: int, runs: int, what: str) -> float:
    """One step with states, keys and values at hand."""
    random = np.random.default_rng(1)
    values = tf.constant(random.normal(size=[SENTENCES, length, UNITS]), tf.float32)
    mask, lengths = tf.ones([SENTENCES, length], tf.bool), tf.fill([SENTENCES], length)
    memory = Memory(values, values, mask, lengths, ())
    query = tf.constant(random.normal(size=[SENTENCES, 1, UNITS]), tf.float32)
    step = tf.fill([SENTENCES, 1], length // 2)

    @tf.function(autograph=False)
    def once() -> tf.Tensor:
        if what == "alignment":
            attended = attention.attend(query, step, memory)
            return tf.reduce_sum(attended.context) + tf.reduce_sum(attention.alignment(attended, memory))
        sources = [query, values] if what == "memory" else [query]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            context = attention.attend(query, step, memory).context
        return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(x)) for x in tape.gradient(context, sources)])

    once()
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        once().numpy()
        seconds.append(time.perf_counter() - began)
    return 1e3 * float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[50, 100, 200, 400, 800])
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    before, found = machine(), {}
    for name, make in KINDS.items():
        attention = make()
        for what in ("context", "alignment", "memory"):
            costs = {
                length: round(milliseconds(attention, length, arguments.runs, what), 3) for length in arguments.lengths
            }
            ratio = round(costs[arguments.lengths[-1]] / costs[arguments.lengths[0]], 2)
            found[f"{name}, {what}"] = {"ms": costs, "ratio": ratio}
    command = " ".join(["python -m benchmarks.attention_cost", *sys.argv[1:]])
    sizes = {"sentences": SENTENCES, "units": UNITS, "window": WINDOW}
    print(json.dumps({**before, "command": command, **sizes, **found}, indent=1))


if __name__ == "__main__":
    main()
