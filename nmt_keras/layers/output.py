"""Output layers: compute logits from the decoder state, the context and the previous word."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer, Weights
from nmt_keras.layers.matmul import Precision, compute_dtype_weights, matmul


class OutputLayer(BaseLayer):
    """Interface of output layers.

    ``features`` combines states, contexts and embeddings. ``logits`` computes the input of the softmax from them.
    ``project_context`` multiplies contexts by the block of the layer's matrix that belongs to them.

    Args:
        vocabulary_size: V.
        feature_size: Width of ``features``.
        tie_embeddings: If True, the softmax's matrix is the embedding of the target tokens [V, feature_size], which
            the decoder supplies as ``weights.output_kernel`` (Press, Wolf 2017).
    """

    computed_arguments = ("feature_size",)

    def __init__(
        self, *, vocabulary_size: int, feature_size: int, tie_embeddings: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.feature_size, self.tie_embeddings = vocabulary_size, feature_size, tie_embeddings
        if not tie_embeddings:
            self.output_kernel = self.add_weight(
                (feature_size, vocabulary_size), "glorot_uniform", name="output_kernel"
            )
        self.output_bias = self.add_weight((vocabulary_size,), "zeros", name="output_bias")

    def blocks(self) -> dict[str, tf.Tensor]:
        """Returns the blocks of the layer's matrix by name. ``for_context`` is C_o."""
        return {}

    def read_weights(self, precision: Precision = compute_dtype_weights) -> Weights:
        """See :class:`BaseLayer`. Adds the ``blocks`` under their names."""
        weights = super().read_weights(precision)
        for name, matrix in self.blocks().items():
            setattr(weights, name, precision(matrix, self.compute_dtype))
        return weights

    def project_context(self, weights: Weights, context: tf.Tensor) -> tf.Tensor:
        """Returns C_o c: [..., D] -> [..., O]. A layer without C_o returns c."""
        return matmul(context, weights.for_context) if "for_context" in vars(weights) else context

    @abstractmethod
    def features(
        self, weights: Weights, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor
    ) -> tf.Tensor:
        """Returns the input of ``logits``, [B, T, feature_size].

        Args:
            weights: This layer's weights.
            state: [B, T, U] float, decoder states.
            projected_context: [B, T, O] float, C_o c; None without a context.
            embedded: [B, T, E] float, embeddings of the previous words.
        """

    def logits(self, weights: Weights, features: tf.Tensor) -> tf.Tensor:
        """Returns W t + b: [B, T, feature_size] -> [B, T, V]."""
        return matmul(features, weights.output_kernel, weights.output_bias, transpose=self.tie_embeddings)


@keras.saving.register_keras_serializable("nmt_keras")
class MaxoutOutput(OutputLayer):
    """The deep output with one maxout layer (Bahdanau, Cho, Bengio 2014, appendix A.2.2).

        t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i          2l numbers
        t_i  = max of each neighbouring pair of t~_i     l numbers
        p(y_i | ...) = softmax(W_o t_i)

    ``maxout_kernel`` is [U_o ; C_o ; V_o] with its columns in another order: columns n and n + l form a pair. s is
    s_{i-1} in the appendix and s_i in the main text (equation 4). ``BahdanauDecoder.output_state`` chooses one.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
        units: l, number of maxout units.
        state_size, context_size, embedding_size: U, D, E.
    """

    def __init__(
        self,
        *,
        units: int,
        state_size: int,
        context_size: int,
        embedding_size: int,
        **options: Any,
    ) -> None:
        super().__init__(feature_size=units, **options)
        self.units = units
        self.state_size, self.context_size, self.embedding_size = state_size, context_size, embedding_size
        sizes = state_size + context_size + embedding_size
        self.maxout_kernel = self.add_weight((sizes, 2 * units), "glorot_uniform", name="maxout_kernel")
        self.maxout_bias = self.add_weight((2 * units,), "zeros", name="maxout_bias")

    def blocks(self) -> dict[str, tf.Tensor]:
        """Returns U_o, C_o and V_o."""
        sizes = [self.state_size, self.context_size, self.embedding_size]
        names = ("for_state", "for_context", "for_embedding")
        return dict(zip(names, tf.split(self.maxout_kernel, sizes), strict=True))

    def features(
        self, weights: Weights, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor
    ) -> tf.Tensor:
        """Returns t_i."""
        pairs = matmul(state, weights.for_state) + matmul(embedded, weights.for_embedding, weights.maxout_bias)
        if projected_context is not None:
            pairs += projected_context
        return tf.maximum(*tf.split(pairs, 2, axis=-1))


@keras.saving.register_keras_serializable("nmt_keras")
class LinearOutput(OutputLayer):
    """One linear layer: p(y_i | ...) = softmax(W_o [s ; c_i ; e(y_{i-1})] + b) (the PyTorch version of RNNsearch).

    Args:
        vocabulary_size: See :class:`OutputLayer`.
        state_size, context_size, embedding_size: U, D, E.
    """

    def __init__(self, *, state_size: int, context_size: int, embedding_size: int, **options: Any) -> None:
        super().__init__(feature_size=state_size + context_size + embedding_size, **options)
        self.state_size, self.context_size, self.embedding_size = state_size, context_size, embedding_size

    def features(
        self, weights: Weights, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor
    ) -> tf.Tensor:
        """Returns [s ; c_i ; e(y_{i-1})], because ``project_context`` returns c_i."""
        return tf.concat([x for x in (state, projected_context, embedded) if x is not None], axis=-1)


@keras.saving.register_keras_serializable("nmt_keras")
class StateOutput(OutputLayer):
    """Linear layer over the state alone: p(y_i | ...) = softmax(W s_i + b).

    It is the output layer of the TensorFlow tutorial, of cs224d, lecture 9, and of the base model of Luong et al. 2015.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
        state_size: U.
    """

    def __init__(self, *, state_size: int, **options: Any) -> None:
        super().__init__(feature_size=state_size, **options)
        self.state_size = state_size

    def features(
        self, weights: Weights, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor
    ) -> tf.Tensor:
        """Returns s_i."""
        return state


@keras.saving.register_keras_serializable("nmt_keras")
class AttentionalOutput(OutputLayer):
    """Attentional hidden state h~_t = tanh(W_c [c_t ; h_t]), then p(y_t | ...) = softmax(W_s h~_t).

    (Luong et al. 2015, equations 5 and 6.) Both products have a bias, which the paper leaves out of its formulas.

    Args:
        vocabulary_size, tie_embeddings: See :class:`OutputLayer`.
        units: Width of h~.
        state_size, context_size: U, D.
    """

    def __init__(self, *, units: int, state_size: int, context_size: int, **options: Any) -> None:
        super().__init__(feature_size=units, **options)
        self.units, self.state_size, self.context_size = units, state_size, context_size
        self.kernel = self.add_weight((context_size + state_size, units), "glorot_uniform", name="kernel")
        self.bias = self.add_weight((units,), "zeros", name="bias")

    def blocks(self) -> dict[str, tf.Tensor]:
        """Returns the two blocks of W_c."""
        sizes = [self.context_size, self.state_size]
        return dict(zip(("for_context", "for_state"), tf.split(self.kernel, sizes), strict=True))

    def features(
        self, weights: Weights, state: tf.Tensor, projected_context: tf.Tensor | None, embedded: tf.Tensor
    ) -> tf.Tensor:
        """Returns h~_t."""
        sums = matmul(state, weights.for_state, weights.bias)
        return tf.tanh(sums if projected_context is None else sums + projected_context)
