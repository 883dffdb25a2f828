"""Local attention: a window of source positions (Luong, Pham, Manning 2015, section 3.2)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.attention import Attended, Attention, masked_softmax
from nmt_keras.layers.matmul import product
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import ScoreFunction


class LocalAttention(Attention):
    """The annotations within D positions of p_t compete (Luong, Pham, Manning 2015, section 3.2).

    Only the 2D + 1 positions of the window are read, so that a context costs the same however long the source is; a
    batch that is known to be no wider is read as it stands, which costs less. (An alignment has S numbers, and so has
    the gradient of what a window was read from.) Where the window reaches beyond the sentence, the rest of it competes.
    Positions count from 0.

    Args:
        score: gives e_ts.
        value_size: width of h_s.
        window: D.
    """

    def __init__(self, score: ScoreFunction, value_size: int, window: int, **options: Any) -> None:
        super().__init__(**options)
        self.score, self.value_size, self.window = score, value_size, window
        self.context_size = value_size

    @abstractmethod
    def centre(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """p_t [B, Q], float32, within the sentence."""

    def reads_all(self, memory: Memory) -> bool:
        """Whether the batch is known to be no wider than the window."""
        width = memory.mask.shape[1]
        return width is not None and width <= 2 * self.window + 1

    def prefer(self, weights: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Weights [B, Q, W] as they are, or changed by the ``distance`` s - p_t of each."""
        return weights

    def keys(self, encoding: Any) -> tf.Tensor:
        """The score's."""
        return self.score.keys(encoding.values)

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """a_t within the window, and c_t."""
        centre = self.centre(query, step, memory)[..., tf.newaxis]
        if self.reads_all(memory):
            distance = tf.range(float(memory.mask.shape[1])) - centre  # [B, Q, S]
            inside = memory.mask[:, tf.newaxis] & (tf.abs(distance) <= self.window)
            weights = masked_softmax(self.score.scores(query, memory.keys), inside)
            weights = self.prefer(weights, distance)
            return Attended(tf.matmul(weights, memory.values), weights, tf.zeros_like(step))
        lengths = memory.lengths[:, tf.newaxis, tf.newaxis]
        first = tf.cast(tf.math.ceil(centre - self.window), tf.int32)
        positions = first + tf.range(2 * self.window + 1)  # [B, Q, W]
        distance = tf.cast(positions, tf.float32) - centre
        inside = (positions >= 0) & (positions < lengths) & (distance <= self.window)
        read = tf.clip_by_value(positions, 0, lengths - 1)
        keys, values = (tf.gather(x, read, batch_dims=1) for x in (memory.keys, memory.values))
        weights = masked_softmax(self.score.scores(query, keys), inside)
        weights = self.prefer(weights, distance)
        return Attended(tf.matmul(weights[:, :, tf.newaxis], values)[:, :, 0], weights, first[..., 0])

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """The window's weights at their source positions."""
        if self.reads_all(memory):
            return attended.weights
        width = memory.mask.shape[1] or tf.shape(memory.mask)[1]
        last = 2 * self.window
        places = tf.range(width) - attended.first[..., tf.newaxis]  # [B, Q, S]: where in the window
        weights = tf.gather(attended.weights, tf.clip_by_value(places, 0, last), batch_dims=2)
        return tf.where((places >= 0) & (places <= last), weights, tf.zeros([], weights.dtype))


@keras.saving.register_keras_serializable("nmt_keras")
class MonotonicLocalAttention(LocalAttention):
    """local-m: p_t = t, as if source and target ran side by side; past the source's end, its last position."""

    def centre(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """t."""
        return tf.cast(tf.minimum(step, memory.lengths[:, tf.newaxis] - 1), tf.float32)


@keras.saving.register_keras_serializable("nmt_keras")
class PredictiveLocalAttention(LocalAttention):
    """local-p: the decoder says where to look, and weights fall with the distance from there.

        p_t    = S · sigma(v_p · tanh(W_p h_t))                   S: the sentence's own tokens
        a_t(s) = align(h_t, h_s) · exp(-(s - p_t)^2 / (2 sigma^2))            sigma = D / 2

    (Luong, Pham, Manning 2015, equations 9 and 10.) As there, weights are not normalised again: a row of
    the alignment sums to less than 1.

    Args:
        score, value_size, window: see :class:`LocalAttention`.
        units: rows of W_p.
        query_size: width of h_t.
    """

    def __init__(
        self, score: ScoreFunction, value_size: int, window: int, *, units: int, query_size: int, **options: Any
    ) -> None:
        super().__init__(score, value_size, window, **options)
        self.units, self.query_size = units, query_size
        self.position_kernel = self.weight("position_kernel", (query_size, units), "glorot_uniform")
        self.position_energy = self.weight(
            "position_energy", (units,), keras.initializers.RandomNormal(stddev=units**-0.5)
        )

    def centre(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> tf.Tensor:
        """p_t."""
        hidden = tf.tanh(product(query, self.matrix(self.position_kernel)))
        share = tf.sigmoid(product(hidden, self.cast(self.position_energy)[:, tf.newaxis])[..., 0])
        return tf.cast(memory.lengths[:, tf.newaxis], tf.float32) * tf.cast(share, tf.float32)

    def prefer(self, weights: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Weights under the Gaussian."""
        return weights * tf.cast(tf.exp(-0.5 * (distance / (0.5 * self.window)) ** 2), weights.dtype)
