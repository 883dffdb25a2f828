"""Score functions of attention."""

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.layers.base import InitializerLike, Part, Shape


class ScoreFunction(Part):
    """Computes how well a query matches each annotation. A score of your own defines ``build``, ``keys``, ``scores``.

    Example:
        >>> score = DotScore()
        >>> score(tf.ones([1, 2, 8]), tf.ones([1, 5, 8])).shape
        TensorShape([1, 2, 5])
    """

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Creates the weights.

        Args:
            query_shape: Shape of the queries, [B, Q, U].
            values_shape: Shape of the annotations, [B, S, D].
        """

    def call(self, query: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Returns e_ij [B, Q, S] for queries s_i [B, Q, U] and annotations h_j [B, S, D]."""
        require(query.shape.rank == 3, "query", "the shape [B, Q, U]", query.shape)
        return self.scores(query, self.keys(values))

    @abstractmethod
    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the part of the scores that does not depend on the query: annotations [B, S, D] -> keys [B, S, A]."""

    @abstractmethod
    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Returns e_ij [B, Q, W].

        Args:
            query: [B, Q, U] float.
            keys: [B, W, A] float, shared by all queries; or [B, Q, W, A], the window of each query of local attention.
        """


@keras.saving.register_keras_serializable("nmt_keras")
class AdditiveScore(ScoreFunction):
    """Additive score: e_ij = v_a · tanh(W_a s_i + U_a h_j) (Bahdanau, Cho, Bengio 2014, appendix A.1.2).

    The score "concat" of Luong et al. 2015, v_a · tanh(W_a [h_t ; h_s]), is the same function: their W_a is our
    [W_a U_a].

    Our names: query s_i, values h_j, keys U_a h_j, ``query_kernel`` W_a, ``key_kernel`` U_a, ``score_vector`` v_a.

    Args:
        units: A, number of hidden units of the alignment model (n' in the paper).
        kernel_initializer: Initializer of W_a and U_a.
        vector_initializer: Initializer of v_a; None for N(0, 1 / A).

    Example:
        >>> AdditiveScore(16)(tf.ones([1, 2, 8]), tf.ones([1, 5, 12])).shape
        TensorShape([1, 2, 5])
    """

    def __init__(
        self,
        units: int,
        *,
        kernel_initializer: InitializerLike = "glorot_uniform",
        vector_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require(units >= 1, "units", "at least 1", units)
        self.units = units
        vector_initializer = vector_initializer or keras.initializers.RandomNormal(stddev=units**-0.5)
        self.kernel_initializer, self.vector_initializer = map(
            keras.initializers.get, (kernel_initializer, vector_initializer)
        )

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Creates W_a, U_a and v_a."""
        kernel, units = self.kernel_initializer, self.units
        self.query_kernel = self.add_weight((query_shape[-1], units), kernel, name="query_kernel")
        self.key_kernel = self.add_weight((values_shape[-1], units), kernel, name="key_kernel")
        self.score_vector = self.add_weight((units,), self.vector_initializer, name="score_vector")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Returns U_a h_j."""
        return self.matmul(values, self.key_kernel)

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Returns v_a · tanh(W_a s_i + U_a h_j)."""
        keys = keys if keys.shape.rank == 4 else keys[:, tf.newaxis]  # [B, 1 or Q, W, A]
        hidden = tf.tanh(self.matmul(query, self.query_kernel)[:, :, tf.newaxis] + keys)  # [B, Q, W, A]
        return tf.einsum("bqwa,a->bqw", hidden, self.cast(self.score_vector))


@keras.saving.register_keras_serializable("nmt_keras")
class DotScore(ScoreFunction):
    """Dot product: e_ts = h_t · h_s (Luong, Pham, Manning 2015, section 3.1). h_t and h_s have the same width.

    Example:
        >>> DotScore()(tf.ones([1, 2, 8]), tf.ones([1, 5, 8])).shape
        TensorShape([1, 2, 5])
    """

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Compares the widths of queries and annotations."""
        widths = query_shape[-1], values_shape[-1]
        require(widths[0] == widths[1], "query, values", "equal widths", widths, "GeneralScore takes others.")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Returns h_s."""
        return self.cast(values)

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Returns h_t · h_s."""
        query = self.cast(query)
        if keys.shape.rank == 3:
            return tf.matmul(query, keys, transpose_b=True)
        return tf.matmul(keys, query[..., tf.newaxis])[..., 0]


@keras.saving.register_keras_serializable("nmt_keras")
class GeneralScore(DotScore):
    """General score: e_ts = h_t · W_a h_s (Luong, Pham, Manning 2015, section 3.1).

    Args:
        kernel_initializer: Initializer of W_a.

    Example:
        >>> GeneralScore()(tf.ones([1, 2, 8]), tf.ones([1, 5, 12])).shape
        TensorShape([1, 2, 5])
    """

    def __init__(self, *, kernel_initializer: InitializerLike = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Creates W_a."""
        self.kernel = self.add_weight((values_shape[-1], query_shape[-1]), self.kernel_initializer, name="kernel")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Returns W_a h_s."""
        return self.matmul(values, self.kernel)


@keras.saving.register_keras_serializable("nmt_keras")
class LocationScore(ScoreFunction):
    """Location score: e_t = W_a h_t (Luong, Pham, Manning 2015, equation 8). It depends on the decoder state alone.

    W_a has ``positions`` rows. A shorter source uses the first of them. In a longer source, later positions get weight
    0.

    Args:
        positions: Number of rows of W_a: source positions that can be attended to.
        kernel_initializer: Initializer of W_a.

    Example:
        >>> LocationScore(50)(tf.ones([1, 2, 8]), tf.ones([1, 5, 12])).shape
        TensorShape([1, 2, 5])
    """

    def __init__(
        self, positions: int, *, kernel_initializer: InitializerLike = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require(positions >= 1, "positions", "at least 1", positions)
        self.positions, self.kernel_initializer = positions, keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Creates W_a."""
        self.kernel = self.add_weight((query_shape[-1], self.positions), self.kernel_initializer, name="kernel")

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """Returns keys of width 0: [B, S, 0]."""
        return self.cast(values[..., :0])

    def scores(self, query: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Returns W_a h_t, cut or padded to the width of ``keys``."""
        width = keras.ops.shape(keys)[1]
        scores = self.matmul(query, self.kernel)[..., :width]
        missing = tf.maximum(0, width - self.positions)
        scores = tf.pad(scores, [[0, 0], [0, 0], [0, missing]], constant_values=scores.dtype.min)
        return tf.ensure_shape(scores, [None, None, keys.shape[1]])
