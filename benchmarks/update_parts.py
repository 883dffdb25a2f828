#!/usr/bin/env python3
"""Measures the time of one update: its forward and backward pass, the components of this pass, and the optimizer.

    python -m benchmarks.update_parts
    python -m benchmarks.update_parts --units 512 --batch 128
    python -m benchmarks.update_parts --units 512 --batch 128 --precision bfloat16-products

The components are the encoder, the decoder, and the softmax with the loss. The model is the matched model of
train_speed, on one batch with 10 tokens on each side. The forward and backward pass of each component is compiled
separately. These times do not add up to the time of the whole pass, because components share work there. Prints JSON
with medians in milliseconds and the floating-point operations of the products in both passes.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import tyro

from benchmarks.machine import machine
from nmt_keras.cli.memory import keep_memory

TOKENS = 10
VOCABULARY = 5_004


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    units: int = 256
    batch: int = 64
    precision: Literal["float32", "bfloat16-products"] = "float32"
    runs: int = 15


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    before = machine()
    milliseconds = measure(settings)
    gigaflop = products(settings) * settings.batch * TOKENS * 1e-9
    command = " ".join(["python -m benchmarks.update_parts", *sys.argv[1:]])
    result = {
        "milliseconds": milliseconds,
        "gigaflop": round(gigaflop, 2),
        "gigaflop_per_s_of_the_passes": round(1e3 * gigaflop / milliseconds["forward and backward pass as a whole"]),
        "gigaflop_per_s_of_one_large_product": round(large_product(settings.precision)),
    }
    print(json.dumps({**before, "command": command, **result}, indent=2))


def products(settings: Settings) -> float:
    """Returns the floating-point operations of the matrix products per target token, forward and backward."""
    units, half, embedding = settings.units, settings.units // 2, 256
    encoder = 2 * 3 * half * (embedding + half) + units * units  # both directions; keys
    decoder = 3 * units * (embedding + 2 * units) + units * units + 2 * units * units  # cell, query, output layer
    attention = 2 * TOKENS * units  # energies and context
    return 3.0 * 2.0 * (encoder + decoder + attention + units * VOCABULARY)


def measure(settings: Settings) -> dict[str, float]:
    """Returns the milliseconds of each component."""
    import numpy as np
    import tensorflow as tf

    from benchmarks.train_speed import matched
    from nmt_keras.config import START
    from nmt_keras.layers.losses import masked_cross_entropy
    from nmt_keras.layers.matmul import bfloat16_products, weights_read_once
    from nmt_keras.layers.scan import scan
    from nmt_keras.training.execution import build_for_training
    from nmt_keras.training.updater import Updater

    recipe = matched(settings.units, settings.batch)
    recipe = replace(recipe, train=replace(recipe.train, precision=settings.precision))
    tf.keras.utils.set_random_seed(1)
    model = build_for_training(recipe, VOCABULARY, VOCABULARY)
    updater = Updater(model, recipe.train)
    random = np.random.default_rng(1)
    source, target = (
        tf.constant(random.integers(4, VOCABULARY, [settings.batch, TOKENS]).astype(np.int32)) for _ in range(2)
    )
    starts = tf.fill([settings.batch, 1], tf.constant(START))
    read = tf.concat([starts, target[:, :-1]], axis=1)
    everywhere = tf.ones(tf.shape(source), tf.bool)

    precision = bfloat16_products if updater.rounds_products else None

    def encoding() -> Any:
        return model.encoder(source, everywhere)

    encoded = encoding()
    width = settings.units
    hidden = tf.Variable(tf.random.normal([settings.batch, TOKENS, width]))

    def decoding() -> tf.Tensor:
        memory = model.decoder.setup_memory(encoded)
        x = model.decoder.inputs(read)
        start = model.decoder.initial_state(memory)
        _, (attentional, _) = scan(lambda one, state: model.decoder.advance(one, state, memory), x, start)
        return attentional

    def loss() -> tf.Tensor:
        logits = model.decoder.output_layer.logits(hidden.value(), *model.decoder.classifier)
        return masked_cross_entropy(logits, target, everywhere).total

    def pass_of(output: Callable[[], tf.Tensor], variables: list[Any]) -> Callable[[], Any]:
        """Returns the compiled forward and backward pass of ``output``, or of its sum of squares if it is no scalar."""

        @tf.function(jit_compile=True, autograph=False)
        def compiled() -> Any:
            with tf.GradientTape() as tape, weights_read_once(model, precision):
                value = output()
                total = value if not value.shape.rank else tf.reduce_sum(value * value)
            found = tape.gradient(total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            return [tf.convert_to_tensor(gradient) for gradient in found]

        return compiled

    encoder, decoder = ([v.value for v in part.trainable_variables] for part in (model.encoder, model.decoder))
    output_weights = [v.value for v in model.decoder.output_layer.trainable_variables]
    arguments = (source, target, None), tf.constant(0), None, 1.0
    gradients, _ = updater.gradients(*arguments)
    rest = gradients, tf.constant(0.0), tf.constant(1.0), tf.constant(0.0)
    parts: dict[str, Callable[[], Any]] = {
        "encoder": pass_of(lambda: encoding().values, encoder),
        "decoder's loop": pass_of(decoding, decoder),
        "softmax and loss": pass_of(loss, [hidden, *output_weights]),
        "forward and backward pass as a whole": lambda: updater.gradients(*arguments),
        "norm, clipping, Adam": lambda: updater.apply_gradients(*rest),
    }
    return {name: round(1e3 * median_seconds(part, settings.runs), 1) for name, part in parts.items()}


def median_seconds(part: Callable[[], Any], runs: int) -> float:
    """Returns the median seconds of ``part``, after two calls to compile and warm up."""
    import tensorflow as tf

    durations = []
    for _ in range(runs + 2):
        began = time.perf_counter()
        tf.nest.flatten(part())[-1].numpy()
        durations.append(time.perf_counter() - began)
    return statistics.median(durations[2:])


def large_product(precision: str, size: int = 2048) -> float:
    """Returns the GFLOP/s of one large product under XLA, including the rounding of its factors to ``precision``."""
    import tensorflow as tf

    from nmt_keras.layers.matmul import bfloat16_products, compute_dtype_weights, matmul

    one, other = (tf.random.normal([size, size]) for _ in range(2))

    @tf.function(jit_compile=True, autograph=False)
    def multiplied(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        read = bfloat16_products if precision == "bfloat16-products" else compute_dtype_weights
        return matmul(left, read(right, "float32"))

    return 2.0 * size**3 / median_seconds(lambda: [multiplied(one, other)], 15) * 1e-9


if __name__ == "__main__":
    keep_memory()
    main(tyro.cli(Settings, description=__doc__))
