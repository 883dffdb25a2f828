"""What one decoder step's attention costs as the source grows: global, and local with a gathered window.

    python -m benchmarks.attention_cost

Prints JSON: milliseconds of one step of 64 sentences, its gradient included, the median of several, for each kind and
source length; and each kind's ratio of the longest to the shortest. A gathered window should be near 1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from nmt_keras.attention import (
    Attention,
    GeneralScore,
    GlobalAttention,
    Memory,
    MonotonicLocalAttention,
    PredictiveLocalAttention,
)

SENTENCES, UNITS, WINDOW = 64, 512, 10
KINDS: dict[str, Callable[[], Attention]] = {
    "global": lambda: GlobalAttention(GeneralScore(UNITS, UNITS), UNITS),
    "local-m": lambda: MonotonicLocalAttention(GeneralScore(UNITS, UNITS), UNITS, WINDOW),
    "local-p": lambda: PredictiveLocalAttention(GeneralScore(UNITS, UNITS), UNITS, WINDOW, UNITS, UNITS),
}


def milliseconds(attention: Attention, length: int, runs: int) -> float:
    """One step with states, keys and values at hand; its gradient goes to the state."""
    random = np.random.default_rng(1)
    values = tf.constant(random.normal(size=[SENTENCES, length, UNITS]), tf.float32)
    mask, lengths = tf.ones([SENTENCES, length], tf.bool), tf.fill([SENTENCES], length)
    memory = Memory(values, values, mask, lengths, ())
    query = tf.constant(random.normal(size=[SENTENCES, 1, UNITS]), tf.float32)
    step = tf.fill([SENTENCES, 1], length // 2)

    @tf.function(autograph=False)
    def once() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(query)
            context = attention.attend(query, step, memory).context
        return tape.gradient(context, query)

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
    found = {}
    for name, make in KINDS.items():
        attention = make()
        costs = {length: round(milliseconds(attention, length, arguments.runs), 3) for length in arguments.lengths}
        found[name] = {"ms": costs, "ratio": round(costs[arguments.lengths[-1]] / costs[arguments.lengths[0]], 2)}
    print(json.dumps({"sentences": SENTENCES, "units": UNITS, "window": WINDOW, **found}, indent=1))


if __name__ == "__main__":
    main()
