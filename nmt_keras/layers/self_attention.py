"""Self-attention: positions that attend to each other in one step (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.attention import masked_softmax
from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.dropout import Randomness, dropout
from nmt_keras.layers.matmul import product


def sinusoids(positions: tf.Tensor, units: int) -> tf.Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i / units)), PE(p, 2i + 1) = cos of the same (Vaswani et al. 2017, section 3.5).

    Args:
        positions: [...] int32, counted from 0.
        units: even.

    Returns:
        [..., units] float32; sines first, then cosines, where the paper interleaves them: a fixed permutation.
    """
    rates = 10000.0 ** (-tf.range(0, units, 2, dtype=tf.float32) / units)
    angles = tf.cast(positions, tf.float32)[..., tf.newaxis] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)


def layer_norm(x: tf.Tensor, scale: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """(x - mean) / sqrt(variance + 1e-5) · scale + bias over the last axis, in float32 (Ba, Kiros, Hinton 2016)."""
    wide = tf.cast(x, tf.float32)
    mean, variance = tf.nn.moments(wide, axes=-1, keepdims=True)
    return tf.cast((wide - mean) * tf.math.rsqrt(variance + 1e-5), x.dtype) * scale + bias


@keras.saving.register_keras_serializable("nmt_keras")
class MultiHead(BaseLayer):
    """Scaled dot-product attention in several heads (Vaswani et al. 2017, section 3.2).

        head_n = softmax(Q W_n^Q (K W_n^K)^T / sqrt(C)) V W_n^V             output = [head_1 ; ... ; head_N] W^O

    Args:
        units: of queries and outputs; C = units / heads.
        heads: N.
        value_size: width of what is attended to.
    """

    def __init__(self, units: int, heads: int, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.heads, self.value_size = units, heads, value_size
        self.query_kernel = self.weight("query_kernel", (units, units), "glorot_uniform")
        self.pair_kernel = self.weight("pair_kernel", (value_size, 2 * units), "glorot_uniform")  # W^K, W^V
        self.kernel = self.weight("kernel", (units, units), "glorot_uniform")

    def split(self, x: tf.Tensor) -> tf.Tensor:
        """[B, P, units] -> [B, N, P, C]."""
        shape = tf.concat([tf.shape(x)[:-1], [self.heads, self.units // self.heads]], axis=0)
        return tf.transpose(tf.reshape(x, shape), [0, 2, 1, 3])

    def pairs(self, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Keys and values [B, N, P, C] of what is attended to, [B, P, value_size]."""
        keys, contents = tf.split(product(values, self.matrix(self.pair_kernel)), 2, axis=-1)
        return self.split(keys), self.split(contents)

    def attend(self, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What queries x [B, Q, units] find among keys and values [B, N, P, C].

        Args:
            mask: [B, 1 or Q, P] bool, True at positions that may be seen.

        Returns:
            Outputs [B, Q, units], and weights [B, Q, P], the mean over heads.
        """
        query = self.split(product(x, self.matrix(self.query_kernel)))  # [B, N, Q, C]
        scores = tf.matmul(query, keys, transpose_b=True) * (self.units / self.heads) ** -0.5
        weights = masked_softmax(scores, mask[:, tf.newaxis])
        found = tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3])  # [B, Q, N, C]
        joined = tf.reshape(found, tf.concat([tf.shape(x)[:-1], [self.units]], axis=0))
        return product(tf.ensure_shape(joined, x.shape), self.matrix(self.kernel)), tf.reduce_mean(weights, axis=1)

    def attend_apart(self, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """What queries find when each has a past of its own: x [B, Q, units], keys and values [B, Q, P, units].

        Args:
            mask: [B, Q, P] bool, True at positions that may be seen.

        Returns:
            [B, Q, units].
        """
        shape = tf.concat([tf.shape(keys)[:-1], [self.heads, self.units // self.heads]], axis=0)
        query = tf.reshape(product(x, self.matrix(self.query_kernel)), tf.concat([shape[:2], shape[3:]], axis=0))
        scores = tf.einsum("bqnc,bqpnc->bqnp", query, tf.reshape(keys, shape)) * (self.units / self.heads) ** -0.5
        weights = masked_softmax(scores, mask[:, :, tf.newaxis])
        found = tf.einsum("bqnp,bqpnc->bqnc", weights, tf.reshape(values, shape))
        return product(tf.ensure_shape(tf.reshape(found, tf.shape(x)), x.shape), self.matrix(self.kernel))


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionLayer(BaseLayer):
    """x + MultiHead(norm(x)), then (x + MultiHead(norm(x), memory), then) x + W_2 relu(W_1 norm(x) + b_1) + b_2.

    (Vaswani et al. 2017, figure 1, each normalisation before its sublayer.) The hidden layer has 4 · units.

    Args:
        units: of each position.
        heads: of each attention.
        dropout: probability of dropping an entry of what a sublayer adds, in training.
        memory_size: D, width of the annotations that the middle sublayer attends to; 0 for a layer without it.
    """

    def __init__(self, units: int, heads: int, *, dropout: float = 0.0, memory_size: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.heads, self.dropout, self.memory_size = units, heads, dropout, memory_size
        self.own = MultiHead(units, heads, units, name="own")
        norms = 2
        if memory_size:
            self.source = MultiHead(units, heads, memory_size, name="source")
            norms = 3
        self.scales = self.weight("scales", (norms, units), "ones")
        self.shifts = self.weight("shifts", (norms, units), "zeros")
        self.widen = self.weight("widen", (units, 4 * units), "glorot_uniform")
        self.widen_bias = self.weight("widen_bias", (4 * units,), "zeros")
        self.narrow = self.weight("narrow", (4 * units, units), "glorot_uniform")
        self.narrow_bias = self.weight("narrow_bias", (units,), "zeros")

    def norm(self, x: tf.Tensor, number: int) -> tf.Tensor:
        """The input of sublayer ``number``."""
        return layer_norm(x, self.cast(self.scales)[number], self.cast(self.shifts)[number])

    def forward(self, x: tf.Tensor, randomness: Randomness | None) -> tf.Tensor:
        """x plus the last sublayer's output."""
        hidden = tf.nn.relu(product(self.norm(x, -1), self.matrix(self.widen), self.cast(self.widen_bias)))
        added = product(hidden, self.matrix(self.narrow), self.cast(self.narrow_bias))
        return x + dropout(added, self.dropout, randomness, f"{self.name} forward")

    def over_all(self, x: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None) -> tf.Tensor:
        """The first and last sublayers: positions x [B, P, units] see each other where mask [B, 1 or P, P] allows."""
        normed = self.norm(x, 0)
        added, _ = self.own.attend(normed, *self.own.pairs(normed), mask)
        return self.forward(x + dropout(added, self.dropout, randomness, f"{self.name} own"), randomness)

    def over_source(
        self, x: tf.Tensor, source: tuple[tf.Tensor, tf.Tensor], mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The middle sublayer: x [B, Q, units] attends to the source's keys and values, whose mask is [B, S].

        Returns:
            x plus what it found, and the alignment [B, Q, S], the mean over heads.
        """
        added, alignment = self.source.attend(self.norm(x, 1), *source, mask[:, tf.newaxis])
        return x + dropout(added, self.dropout, randomness, f"{self.name} source"), alignment
