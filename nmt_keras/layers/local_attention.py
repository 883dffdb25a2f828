"""Local attention: a window of source positions (Luong, Pham, Manning 2015, section 3.2)."""

from abc import abstractmethod
from typing import Any, Literal

import keras
import tensorflow as tf

from nmt_keras.config import require, require_choice
from nmt_keras.layers.attention import AttentionWeights, GlobalAttention, masked_softmax
from nmt_keras.layers.base import InitializerLike, Shape
from nmt_keras.layers.matmul import matmul
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import LocationScore, ScoreFunction


class LocalAttention(GlobalAttention):
    """Attention over the annotations within D positions of p_t (Luong, Pham, Manning 2015, section 3.2).

    Only the 2D + 1 positions of the window are gathered, so the cost of a context does not depend on the length of the
    source. If the window extends beyond the sentence, only the positions inside the sentence compete. Positions count
    from 0, so what a mask hides must be at the end. D is the paper's half-width of the window, not the width of an
    annotation.

    Args:
        score: Function that computes e_ts; not :class:`LocationScore`, whose scores belong to positions of the source.
        window: D, at least 1.
    """

    def __init__(self, score: ScoreFunction, window: int, **kwargs: Any) -> None:
        require(not isinstance(score, LocationScore), "score", "a score that reads the annotations", score)
        require(window >= 1, "window", "at least 1", window)
        super().__init__(score, **kwargs)
        self.window = window

    @abstractmethod
    def center(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns p_t [B, Q] float32, within the sentence."""

    def weight_by_distance(self, alpha: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights, adjusted by distance.

        Args:
            alpha: [B, Q, W] float. Attention weights.
            distance: [B, Q, W] float. Distance s - p_t of each position.
        """
        return alpha

    def attend(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> AttentionWeights:
        """Returns a_t within the window."""
        center = self.center(query, position, memory)[..., tf.newaxis]
        lengths = memory.lengths[:, tf.newaxis, tf.newaxis]
        first = tf.cast(tf.math.ceil(center - self.window), tf.int32)
        positions = first + tf.range(2 * self.window + 1)  # [B, Q, W]
        distance = tf.cast(positions, tf.float32) - center
        inside = (positions >= 0) & (positions < lengths) & (distance <= self.window)
        keys = self._window(memory.keys, first)
        alpha = masked_softmax(self.score.scores(query, keys), inside)
        return AttentionWeights(self.weight_by_distance(self.cast(alpha), distance), first[..., 0])

    def weighted_sum(self, weights: AttentionWeights, vectors: tf.Tensor) -> tf.Tensor:
        """Returns the sum over the window."""
        window = self._window(vectors, weights.first[..., tf.newaxis])
        return tf.matmul(tf.cast(weights.alpha, vectors.dtype)[:, :, tf.newaxis], window)[:, :, 0]

    def _window(self, per_position: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
        """Returns the windows of ``per_position`` that begin at ``first``.

        Positions before 0 repeat position 0. Positions after S - 1 repeat position S - 1. Both have the attention
        weight 0.

        Args:
            per_position: [B, S, P].
            first: [B, Q, 1] int32. First position of each window.

        Returns:
            [B, Q, W, P].
        """
        positions = first + tf.range(2 * self.window + 1)
        inside = tf.clip_by_value(positions, 0, tf.shape(per_position)[1] - 1)
        return tf.gather(per_position, inside, batch_dims=1)

    def alignment(self, weights: AttentionWeights, memory: Memory) -> tf.Tensor:
        """Returns the window's weights at their source positions."""
        width = keras.ops.shape(memory.mask)[1]
        last = 2 * self.window
        offsets = tf.range(width) - weights.first[..., tf.newaxis]  # [B, Q, S]: positions within the window
        alpha = tf.gather(weights.alpha, tf.clip_by_value(offsets, 0, last), batch_dims=2)
        return tf.where((offsets >= 0) & (offsets <= last), alpha, tf.zeros([], alpha.dtype))


@keras.saving.register_keras_serializable("nmt_keras")
class MonotonicLocalAttention(LocalAttention):
    """local-m: p_t = min(t, S - 1), which assumes a monotonic alignment. S counts the sentence's own tokens.

    Example:
        >>> context, alpha = MonotonicLocalAttention(DotScore(), window=2)(tf.ones([1, 3, 8]), tf.ones([1, 9, 8]))
        >>> context.shape, alpha.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 9]))
    """

    def center(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns min(t, S - 1)."""
        return tf.cast(tf.minimum(position, memory.lengths[:, tf.newaxis] - 1), tf.float32)


@keras.saving.register_keras_serializable("nmt_keras")
class PredictiveLocalAttention(LocalAttention):
    """local-p: p_t is predicted from the decoder state, and weights fall with the distance from p_t.

        p_t    = S · sigmoid(v_p · tanh(W_p h_t))                             in the paper, and with "sum"
        p_t    = S · sigmoid(v_p · tanh(W_p h_t) / units)                     with "mean", the default
        a_t(s) = align(h_t, h_s) · exp(-(s - p_t)^2 / (2 sigma^2))            sigma = D / 2

    (Luong, Pham, Manning 2015, equations 9 and 10.) S counts the sentence's own tokens. As in the paper, the weights of
    a context sum to less than 1. ``alignment`` divides them by their sum, so each row of the alignment sums to 1.

    The product with v_p is a sum over the units, as in the paper, or their mean. Both can express the same positions,
    but learn differently. An update of Adam moves each weight by about the learning rate, so a sum can move by the
    number of units times that rate. If the sigmoid saturates, its gradient vanishes, and p_t stays at an end of the
    sentence. A mean moves by at most about the rate. With SGD, a mean divides the updates of v_p by the number of
    units, and their effect on the sigmoid's argument by its square, so only W_p learns. p_t begins near the middle of
    the sentence.

    Args:
        score, window: See :class:`LocalAttention`.
        units: Number of rows of W_p.
        position_logit: "sum" or "mean".
        kernel_initializer: Initializer of W_p.
        vector_initializer: Initializer of v_p; None for a normal distribution.

    Example:
        >>> attention = PredictiveLocalAttention(DotScore(), window=2, units=16)
        >>> context, alpha = attention(tf.ones([1, 3, 8]), tf.ones([1, 9, 8]))
        >>> context.shape, alpha.shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 9]))
    """

    def __init__(
        self,
        score: ScoreFunction,
        window: int,
        *,
        units: int,
        position_logit: Literal["mean", "sum"] = "mean",
        kernel_initializer: InitializerLike = "glorot_uniform",
        vector_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(score, window, **kwargs)
        require(units >= 1, "units", "at least 1", units)
        require_choice("position_logit", ("mean", "sum"), position_logit)
        self.units, self.position_logit = units, position_logit
        self.position_divisor = units if position_logit == "mean" else 1
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.vector_initializer = keras.initializers.get(
            vector_initializer or keras.initializers.RandomNormal(stddev=self.position_divisor / units)
        )

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Creates W_p and v_p, and builds the score function."""
        super().build(query_shape, values_shape)
        shape = (query_shape[-1], self.units)
        self.position_kernel = self.add_weight(shape, self.kernel_initializer, name="position_kernel")
        self.position_vector = self.add_weight((self.units,), self.vector_initializer, name="position_vector")

    def center(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> tf.Tensor:
        """Returns p_t."""
        hidden = tf.tanh(self.matmul(query, self.position_kernel))
        logit = matmul(hidden, self.cast(self.position_vector)[:, tf.newaxis])[..., 0] / self.position_divisor
        return tf.cast(memory.lengths[:, tf.newaxis], tf.float32) * tf.cast(tf.sigmoid(logit), tf.float32)

    def weight_by_distance(self, alpha: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Returns weights times the Gaussian."""
        return alpha * tf.cast(tf.exp(-0.5 * (distance / (0.5 * self.window)) ** 2), alpha.dtype)

    def alignment(self, weights: AttentionWeights, memory: Memory) -> tf.Tensor:
        """Returns the window's weights at their source positions, divided by their sum."""
        alpha = super().alignment(weights, memory)
        return alpha / tf.reduce_sum(alpha, axis=-1, keepdims=True)  # the sum exceeds 0.1: the window ends at 2 sigma
