"""Optimisers and learning rates; a rate depends on the step alone."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from nmt_keras.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, total_steps: int) -> float:
    """The rate of update number ``step`` (from 0) of ``total_steps``.

    Linear from 0 to the peak over the warm-up, then constant, or down to 0 along half a cosine (Loshchilov, Hutter
    2017, equation 5, without restarts) or a line.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    done = (step - config.warmup_steps) / max(1, total_steps - config.warmup_steps)
    match config.decay:
        case "cosine":
            return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
        case "linear":
            return config.learning_rate * max(0.0, 1.0 - done)
        case _:
            return config.learning_rate


def build_optimizer(config: TrainConfig, variables: list[keras.Variable]) -> keras.optimizers.Optimizer:
    """Adam (Kingma, Ba 2015) with its slots made, so that a checkpoint can be restored into it."""
    optimizer = keras.optimizers.Adam(config.learning_rate, beta_2=config.beta_2, epsilon=1e-8)
    optimizer.build(variables)
    return optimizer


def clip_by_global_norm(gradients: list[tf.Tensor], clip_norm: float) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Gradients scaled by min(1, clip_norm / norm), and that norm: their joint L2 norm.

    (Pascanu, Mikolov, Bengio 2013, algorithm 1.)
    """
    flat = [tf.reshape(tf.cast(g, tf.float32), [-1]) for g in gradients]
    # products, not sums of squares: XLA may not reorder a float sum, so on a CPU it adds one by one
    norm = tf.sqrt(tf.add_n([tf.tensordot(g, g, axes=1) for g in flat]))
    scale = tf.minimum(1.0, clip_norm / tf.maximum(norm, 1e-30))
    return [g * tf.cast(scale, g.dtype) for g in gradients], norm
