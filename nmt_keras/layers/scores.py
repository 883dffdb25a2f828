"""ScoreFunction functions of attention: how well a query matches each annotation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.matmul import product


class ScoreFunction(BaseLayer):
    """How well a query matches annotations: the contract is ``keys``, once for a sentence, and ``scores``."""

    @abstractmethod
    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """What of the annotations [B, S, D] depends on no query: [B, S, A]."""

    @abstractmethod
    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """e_ij [B, Q, W] of queries [B, Q, U] with keys: [B, W, A] that all queries share, or [B, Q, W, A]."""


@keras.saving.register_keras_serializable("nmt_keras")
class AdditiveScore(ScoreFunction):
    """e_ij = v_a · tanh(W_a s_i + U_a h_j) (Bahdanau, Cho, Bengio 2014, appendix A.1.2).

    Luong's "concat", v_a · tanh(W_a [h_t ; h_s]), is the same: his W_a is [W_a U_a] here.

    Our names: query s_i, values h_j, keys U_a h_j, ``query_kernel`` W_a, ``key_kernel`` U_a, ``energy`` v_a.

    Args:
        units: A, the alignment model's hidden units (n' in the paper).
        query_size: width of s_i.
        value_size: D, width of h_j.
    """

    def __init__(self, units: int, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.query_size, self.value_size = units, query_size, value_size
        self.query_kernel = self.weight("query_kernel", (query_size, units), "glorot_uniform")
        self.key_kernel = self.weight("key_kernel", (value_size, units), "glorot_uniform")
        self.energy = self.weight("energy", (units,), keras.initializers.RandomNormal(stddev=units**-0.5))

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """U_a h_j."""
        return product(values, self.matrix(self.key_kernel))

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """v_a · tanh(W_a s_i + U_a h_j)."""
        each = keys if keys.shape.rank == 4 else keys[:, tf.newaxis]
        sums = product(query, self.matrix(self.query_kernel))[:, :, tf.newaxis] + each
        # flat before tanh, so that the loop's gradient keeps one tensor and not two of different shapes
        hidden = tf.tanh(tf.reshape(sums, [-1, self.units]))
        # a product, not a sum over the last axis: XLA may not reorder a float sum, so on a CPU it adds one by one
        return tf.reshape(tf.matmul(hidden, self.cast(self.energy)[:, tf.newaxis]), tf.shape(sums)[:-1])


@keras.saving.register_keras_serializable("nmt_keras")
class DotScore(ScoreFunction):
    """e_ts = h_t · h_s (Luong, Pham, Manning 2015, section 3.1); states and annotations have one width."""

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """h_s."""
        return values

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """h_t · h_s."""
        if keys.shape.rank == 3:
            return tf.matmul(query, keys, transpose_b=True)
        return tf.matmul(keys, query[..., tf.newaxis])[..., 0]


@keras.saving.register_keras_serializable("nmt_keras")
class GeneralScore(DotScore):
    """e_ts = h_t · W_a h_s (Luong, Pham, Manning 2015, section 3.1).

    Args:
        query_size: width of h_t.
        value_size: D, width of h_s.
    """

    def __init__(self, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.query_size, self.value_size = query_size, value_size
        self.kernel = self.weight("kernel", (value_size, query_size), "glorot_uniform")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """W_a h_s."""
        return product(values, self.matrix(self.kernel))


@keras.saving.register_keras_serializable("nmt_keras")
class LocationScore(ScoreFunction):
    """e_t = W_a h_t (Luong, Pham, Manning 2015, equation 8): the state alone says where to look.

    A shorter source uses the first rows of W_a; positions beyond them get weight 0.

    Args:
        positions: rows of W_a, the source positions that can be looked at.
        query_size: width of h_t.
    """

    def __init__(self, positions: int, query_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.positions, self.query_size = positions, query_size
        self.kernel = self.weight("kernel", (query_size, positions), "glorot_uniform")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Nothing, for S positions: [B, S, 0]."""
        return values[..., :0]

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """W_a h_t."""
        width = keys.shape[1] or tf.shape(keys)[1]
        known = product(query, self.matrix(self.kernel))[..., :width]
        beyond = tf.maximum(0, width - self.positions)
        scores = tf.pad(known, [[0, 0], [0, 0], [0, beyond]], constant_values=known.dtype.min)
        return tf.ensure_shape(scores, [None, None, keys.shape[1]])
