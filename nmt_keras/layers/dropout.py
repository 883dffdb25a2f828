"""Dropout masks as a pure function of seed, step and site."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import tensorflow as tf


class Randomness(NamedTuple):
    """Where the randomness of one training step comes from: masks are a pure function of (seed, step, site)."""

    seed: tf.Tensor  # [] int32
    step: tf.Tensor  # [] int32
    position: Any = ()  # [] int32: within a sentence, where positions draw one by one; else ()


def random_uniform(shape: tf.Tensor, randomness: Randomness, site: str) -> tf.Tensor:
    """Numbers in [0, 1), float32, multiples of 2^-24: a pure function of ``randomness`` and of ``site``.

    The generator is named because it matters: Philox draws the same bits with and without XLA, on every device, and
    XLA's own default takes some twenty times as long on a CPU.

    Args:
        shape: [N] int32.
        randomness: the step's randomness.
        site: name of the place that draws, so that no two places of a model share their numbers.
    """
    place = tf.constant(zlib.crc32(site.encode()) & 0x7FFFFFFF, tf.int32)
    position = randomness.position if tf.is_tensor(randomness.position) else 0
    seed = tf.stack([tf.bitwise.bitwise_xor(randomness.seed, place) + position, randomness.step])
    bits = tf.random.stateless_uniform(shape, seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32)), tf.float32) * 2.0**-24


def dropout_mask(shape: tf.Tensor, rate: float, randomness: Randomness, site: str, dtype: tf.DType) -> tf.Tensor:
    """Numbers to multiply with: 0 with probability ``rate``, else 1 / (1 - rate); ``dtype``. See ``uniform``."""
    kept = random_uniform(shape, randomness, site) >= rate
    return tf.where(kept, tf.constant(1.0 / (1.0 - rate), dtype), tf.zeros([], dtype))


def dropout(x: tf.Tensor, rate: float, randomness: Randomness | None, site: str) -> tf.Tensor:
    """Multiplies ``x`` by a dropout mask; returns ``x`` if ``randomness`` is None (outside training)."""
    if randomness is None or rate == 0.0:
        return x
    return x * dropout_mask(tf.shape(x), rate, randomness, site, x.dtype)
