"""Local attention: a window of source positions (Luong, Pham, Manning 2015, section 3.2)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.attention import Attended, Attention, masked_softmax
from nmt_keras.layers.base import Weights
from nmt_keras.layers.matmul import Weight, matmul
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import ScoreFunction


class LocalAttention(Attention):
    """Attention over the annotations within D positions of p_t (Luong, Pham, Manning 2015, section 3.2).

    Only the 2D + 1 positions of the window are gathered, so the cost of a context does not depend on the source's
    length. A batch known to be no wider than that is read whole, which is cheaper. Where the window reaches beyond the
    sentence, the positions inside compete. Positions count from 0.

    Args:
        score: Computes e_ts.
        value_size: Width of h_s.
        window: D.
    """

    def __init__(self, score: ScoreFunction, value_size: int, window: int, **options: Any) -> None:
        super().__init__(**options)
        self.score, self.value_size, self.window = score, value_size, window
        self.context_size = value_size

    @abstractmethod
    def centre(self, weights: Weights, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns p_t [B, Q] float32, within the sentence."""

    def reads_all(self, memory: Memory) -> bool:
        """Returns whether the batch is known to be no wider than the window."""
        width = memory.mask.shape[1]
        return width is not None and width <= 2 * self.window + 1

    def prefer(self, alpha: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Returns attention weights [B, Q, W], changed by the ``distance`` s - p_t of each position if at all."""
        return alpha

    def keys(self, weights: Weights, encoding: Any) -> tf.Tensor:
        """Returns the score function's keys."""
        return self.score.keys(weights.score, encoding.values)

    def attend(self, weights: Weights, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """Returns a_t within the window, and c_t."""
        centre = self.centre(weights, query, step, memory)[..., tf.newaxis]
        if self.reads_all(memory):
            distance = tf.range(float(memory.mask.shape[1])) - centre  # [B, Q, S]
            inside = memory.mask[:, tf.newaxis] & (tf.abs(distance) <= self.window)
            alpha = masked_softmax(self.score.scores(weights.score, query, memory.keys), inside)
            alpha = self.prefer(alpha, distance)
            return Attended(tf.matmul(alpha, memory.values), alpha, tf.zeros_like(step))
        lengths = memory.lengths[:, tf.newaxis, tf.newaxis]
        first = tf.cast(tf.math.ceil(centre - self.window), tf.int32)
        positions = first + tf.range(2 * self.window + 1)  # [B, Q, W]
        distance = tf.cast(positions, tf.float32) - centre
        inside = (positions >= 0) & (positions < lengths) & (distance <= self.window)
        read = tf.clip_by_value(positions, 0, lengths - 1)
        keys, values = (tf.gather(x, read, batch_dims=1) for x in (memory.keys, memory.values))
        alpha = masked_softmax(self.score.scores(weights.score, query, keys), inside)
        alpha = self.prefer(alpha, distance)
        return Attended(tf.matmul(alpha[:, :, tf.newaxis], values)[:, :, 0], alpha, first[..., 0])

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """Returns the window's weights at their source positions."""
        if self.reads_all(memory):
            return attended.weights
        width = memory.mask.shape[1] or tf.shape(memory.mask)[1]
        last = 2 * self.window
        places = tf.range(width) - attended.first[..., tf.newaxis]  # [B, Q, S]: where in the window
        weights = tf.gather(attended.weights, tf.clip_by_value(places, 0, last), batch_dims=2)
        return tf.where((places >= 0) & (places <= last), weights, tf.zeros([], weights.dtype))


@keras.saving.register_keras_serializable("nmt_keras")
class MonotonicLocalAttention(LocalAttention):
    """local-m: p_t = t, as if source and target were monotonically aligned; beyond the source, its last position."""

    def centre(self, weights: Weights, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns t."""
        return tf.cast(tf.minimum(step, memory.lengths[:, tf.newaxis] - 1), tf.float32)


@keras.saving.register_keras_serializable("nmt_keras")
class PredictiveLocalAttention(LocalAttention):
    """local-p: p_t is predicted from the decoder state, and weights fall with the distance from it.

        p_t    = S · sigma(v_p · tanh(W_p h_t))
        a_t(s) = align(h_t, h_s) · exp(-(s - p_t)^2 / (2 sigma^2))            sigma = D / 2

    S counts the sentence's own tokens. (Luong, Pham, Manning 2015, equations 9 and 10.) As there, the weights of a
    context sum to less than 1. The alignment is divided by that sum: a distribution, as that of every attention.

    Args:
        score, value_size, window: See :class:`LocalAttention`.
        units: Rows of W_p.
        query_size: Width of h_t.
    """

    def __init__(
        self, score: ScoreFunction, value_size: int, window: int, *, units: int, query_size: int, **options: Any
    ) -> None:
        super().__init__(score, value_size, window, **options)
        self.units, self.query_size = units, query_size
        self.position_kernel = self.add_weight((query_size, units), "glorot_uniform", name="position_kernel")
        self.position_energy = self.add_weight(
            (units,), keras.initializers.RandomNormal(stddev=units**-0.5), name="position_energy"
        )

    def centre(self, weights: Weights, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns p_t."""
        hidden = tf.tanh(matmul(query, weights.position_kernel))
        share = tf.sigmoid(matmul(hidden, Weight(weights.position_energy[:, tf.newaxis]))[..., 0])
        return tf.cast(memory.lengths[:, tf.newaxis], tf.float32) * tf.cast(share, tf.float32)

    def prefer(self, alpha: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Returns weights times the Gaussian."""
        return alpha * tf.cast(tf.exp(-0.5 * (distance / (0.5 * self.window)) ** 2), alpha.dtype)

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """Returns the window's weights at their source positions, divided by their sum."""
        alpha = super().alignment(attended, memory)
        return alpha / tf.reduce_sum(alpha, axis=-1, keepdims=True)  # a Gaussian within 2 sigma: the sum exceeds 0.1
