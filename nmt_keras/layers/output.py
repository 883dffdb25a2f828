"""Readouts: from the decoder's state, the context and the last word to logits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.dropout import Randomness, dropout
from nmt_keras.layers.matmul import product
from nmt_keras.layers.memory import CachedProjections


class OutputLayer(BaseLayer):
    """The contract: states, contexts and embeddings give logits; ``hidden`` is what stands below the softmax.

    Args:
        vocabulary_size: V.
        hidden_size: width below the softmax.
        dropout: probability of dropping an entry there, in training.
        tied_embedding: an embedding of V rows and ``hidden_size`` columns, used as the softmax's matrix (Press, Wolf
            2017); None for a matrix of its own.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        hidden_size: int,
        dropout: float = 0.0,
        tied_embedding: keras.layers.Embedding | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.hidden_size, self.dropout, self.tied_embedding = (
            vocabulary_size,
            hidden_size,
            dropout,
            tied_embedding,
        )
        if tied_embedding is None:
            self.output_rows = self.weight("output_rows", (vocabulary_size, hidden_size), "glorot_uniform")
        self.output_bias = self.weight("output_bias", (vocabulary_size,), "zeros")

    @abstractmethod
    def hidden(self, state: tf.Tensor, context: tf.Tensor | CachedProjections, embedded: tf.Tensor) -> tf.Tensor:
        """What the softmax sees, [B, T, hidden_size], of states [B, T, U], contexts [B, T, D], embeddings [B, T, E]."""

    def project_context(self, context: tf.Tensor) -> tf.Tensor:
        """What ``hidden`` adds up of contexts [..., D]; the contexts themselves where it does not."""
        return context

    def call(
        self,
        state: tf.Tensor,
        context: tf.Tensor | CachedProjections,
        embedded: tf.Tensor,
        randomness: Randomness | None = None,
    ) -> tf.Tensor:
        """Returns logits [B, T, V] from states [B, T, U], contexts [B, T, D] and embeddings [B, T, E]."""
        return self.logits(self.hidden(state, context, embedded), randomness)

    @property
    def rows(self) -> keras.Variable:
        """The softmax's matrix, [V, hidden_size]: one row for each token, as in an embedding."""
        return self.output_rows if self.tied_embedding is None else self.tied_embedding.embeddings

    def logits(self, hidden: tf.Tensor, randomness: Randomness | None = None) -> tf.Tensor:
        """Returns logits [B, T, V] from what ``hidden`` returned."""
        hidden = dropout(hidden, self.dropout, randomness, "readout")
        return product(hidden, self.matrix(self.rows), self.cast(self.output_bias), transposed=True)


def _mixed(
    parts: Sequence[tf.Tensor | CachedProjections], sizes: Sequence[int], kernel: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """K [x_1 ; x_2 ; ...] + b: one product, or several and what a CachedProjections holds already.

    Args:
        parts: x_k [B, T, size]; a CachedProjections stands for its own rows' product.
        sizes: of each.
        kernel: [sum of sizes, O].
        bias: [O].
    """
    if not any(isinstance(part, CachedProjections) for part in parts):
        return product(tf.concat(parts, axis=-1), kernel, bias)
    products = [
        part.output if isinstance(part, CachedProjections) else product(part, rows)
        for part, rows in zip(parts, tf.split(kernel, sizes), strict=True)
    ]
    return tf.add_n(products) + bias


@keras.saving.register_keras_serializable("nmt_keras")
class MaxoutOutput(OutputLayer):
    """The deep output with one maxout layer (Bahdanau, Cho, Bengio 2014, appendix A.2.2).

        t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i          2l numbers
        t_i  = max of each neighbouring pair of t~_i     l numbers
        p(y_i | ...) = softmax(W_o t_i)

    Our rows of U_o, V_o and C_o are in another order: those of the first of each pair, then those of the second.

    The appendix reads s as s_{i-1}, the main text (equation 4) as s_i: the caller passes the one it means.

    Args:
        vocabulary_size: V.
        units: l, maxout units.
        state_size, context_size, embedding_size: U, D, E.
        dropout: probability of dropping an entry of t_i, in training.
        tied_embedding: see :class:`OutputLayer`.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        units: int,
        state_size: int,
        context_size: int,
        embedding_size: int,
        dropout: float = 0.0,
        tied_embedding: keras.layers.Embedding | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            vocabulary_size=vocabulary_size,
            hidden_size=units,
            dropout=dropout,
            tied_embedding=tied_embedding,
            **options,
        )
        self.units = units
        self.state_size, self.context_size, self.embedding_size = state_size, context_size, embedding_size
        sizes = state_size + context_size + embedding_size
        self.pair_kernel = self.weight("pair_kernel", (sizes, 2 * units), "glorot_uniform")
        self.pair_bias = self.weight("pair_bias", (2 * units,), "zeros")

    def project_context(self, context: tf.Tensor) -> tf.Tensor:
        """C_o c_i."""
        return product(context, self.matrix(self.pair_kernel)[self.state_size : self.state_size + self.context_size])

    def hidden(self, state: tf.Tensor, context: tf.Tensor | CachedProjections, embedded: tf.Tensor) -> tf.Tensor:
        """t_i."""
        sizes = self.state_size, self.context_size, self.embedding_size
        joined = _mixed((state, context, embedded), sizes, self.matrix(self.pair_kernel), self.cast(self.pair_bias))
        return tf.maximum(*tf.split(joined, 2, axis=-1))


@keras.saving.register_keras_serializable("nmt_keras")
class LinearOutput(OutputLayer):
    """p(y_i | ...) = softmax(W_o [s ; c_i ; e(y_{i-1})] + b): one linear layer over all three.

    The PyTorch rendition of RNNsearch reads s as s_i; the caller passes the state that it means.

    Args:
        vocabulary_size: V.
        state_size, context_size, embedding_size: U, D, E.
        dropout: probability of dropping an entry of what the layer sees, in training.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        state_size: int,
        context_size: int,
        embedding_size: int,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(
            vocabulary_size=vocabulary_size,
            hidden_size=state_size + context_size + embedding_size,
            dropout=dropout,
            **options,
        )
        self.state_size, self.context_size, self.embedding_size = state_size, context_size, embedding_size

    def hidden(self, state: tf.Tensor, context: tf.Tensor | CachedProjections, embedded: tf.Tensor) -> tf.Tensor:
        """[s ; c_i ; e(y_{i-1})]."""
        c = context.output if isinstance(context, CachedProjections) else context
        return tf.concat([state, c, embedded], axis=-1)


@keras.saving.register_keras_serializable("nmt_keras")
class StateOutput(OutputLayer):
    """p(y_i | ...) = softmax(W s_i + b): the state alone (the TensorFlow tutorial; cs224d, lecture 9; Luong's base).

    Args:
        vocabulary_size: V.
        state_size: U.
        dropout: probability of dropping an entry of s_i, in training.
        tied_embedding: see :class:`OutputLayer`.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        state_size: int,
        dropout: float = 0.0,
        tied_embedding: keras.layers.Embedding | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            vocabulary_size=vocabulary_size,
            hidden_size=state_size,
            dropout=dropout,
            tied_embedding=tied_embedding,
            **options,
        )
        self.state_size = state_size

    def hidden(self, state: tf.Tensor, context: tf.Tensor | CachedProjections, embedded: tf.Tensor) -> tf.Tensor:
        """s_i."""
        return state


@keras.saving.register_keras_serializable("nmt_keras")
class AttentionalOutput(OutputLayer):
    """h~_t = tanh(W_c [c_t ; h_t]), p(y_t | ...) = softmax(W_s h~_t) (Luong et al. 2015, equations 5 and 6).

    Both products have a bias, which the paper leaves out of its formulas.

    Args:
        vocabulary_size: V.
        units: of h~.
        state_size, context_size: U, D.
        dropout: probability of dropping an entry of h~_t, in training.
        tied_embedding: see :class:`OutputLayer`.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        units: int,
        state_size: int,
        context_size: int,
        dropout: float = 0.0,
        tied_embedding: keras.layers.Embedding | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            vocabulary_size=vocabulary_size,
            hidden_size=units,
            dropout=dropout,
            tied_embedding=tied_embedding,
            **options,
        )
        self.units, self.state_size, self.context_size = units, state_size, context_size
        self.kernel = self.weight("kernel", (context_size + state_size, units), "glorot_uniform")
        self.bias = self.weight("bias", (units,), "zeros")

    def project_context(self, context: tf.Tensor) -> tf.Tensor:
        """The context's part of W_c [c_t ; h_t]."""
        return product(context, self.matrix(self.kernel)[: self.context_size])

    def hidden(self, state: tf.Tensor, context: tf.Tensor | CachedProjections, embedded: tf.Tensor) -> tf.Tensor:
        """h~_t."""
        sizes = self.context_size, self.state_size
        return tf.tanh(_mixed((context, state), sizes, self.matrix(self.kernel), self.cast(self.bias)))
