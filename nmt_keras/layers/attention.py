"""Attention layers: compute a context from a query and the annotations.

A score function computes how well a query matches each annotation. An attention layer normalises the scores to
attention weights, over all annotations or over a window. The context is the weighted sum of the annotations. After the
loop over target positions, ``alignment`` puts the attention weights of a window at their source positions.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import require_choice
from nmt_keras.layers.base import InitializerLike, Nest, Part, Shape, require_layer
from nmt_keras.layers.context import Context
from nmt_keras.layers.memory import (
    SUMMARIES,
    Encoding,
    Memory,
    as_encoding,
    equal_weights,
    shape_of_encoding,
    summary,
    summary_size,
)
from nmt_keras.layers.scores import AdditiveScore, ScoreFunction


class AttentionWeights(NamedTuple):
    """Attention weights of each query."""

    alpha: tf.Tensor  # [B, Q, W] float: attention weights alpha_ij of W neighbouring source positions
    first: tf.Tensor  # [B, Q] int32: source position of the first weight; negative if it lies before the sentence


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns exp(e_j) / SUM_k exp(e_k) over the positions k where ``mask`` is True; exactly 0 elsewhere.

    Args:
        scores: [B, Q, W] float. The softmax is computed in float32 and returned in the dtype of ``scores``.
        mask: [B, 1 or Q, W] bool. Each row holds at least one True, because every sentence ends in END.
    """
    logits = tf.where(mask, tf.cast(scores, tf.float32), tf.float32.min)
    return tf.cast(tf.nn.softmax(logits), scores.dtype)


class Attention(Part):
    """Interface of attention layers, which are also layers of any Keras model.

    ``keys`` is called once per sentence. ``attend`` and ``context`` are called at every step or, by decoders that do
    not feed attention back, once for all steps. ``alignment`` is called after the last step.
    """

    def build(self, query_shape: Shape, values_shape: Shape) -> None:
        """Creates the weights.

        Args:
            query_shape: Shape of the queries, [B, Q, U].
            values_shape: Shape of the annotations, [B, S, D].
        """

    def call(
        self, query: tf.Tensor, values: tf.Tensor | Encoding, values_mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes contexts and attention weights.

        Args:
            query: [B, Q, U] float, decoder states at the target positions 0 to Q - 1; or [B, U], one per sentence,
                at position 0.
            values: [B, S, D] float, annotations; or the result of an encoder, with its mask and states.
            values_mask: [B, S] bool, True at tokens. None for the mask of the encoding, for the mask that Keras has
                attached to ``values``, or for all positions.

        Returns:
            Contexts [B, Q, D] and attention weights [B, Q, S]; without the axis Q if ``query`` has none.
        """
        query, encoding = self.cast(query), as_encoding(values, values_mask)
        queries = query if query.shape.rank == 3 else query[:, tf.newaxis]
        memory = Memory(*encoding, self.keys(encoding))
        positions = tf.zeros_like(queries[..., 0], tf.int32) + tf.range(tf.shape(queries)[1])
        weights = self.attend(queries, positions, memory)
        context, alignment = self.context(weights, memory), self.alignment(weights, memory)
        context = queries[..., :0] if context is None else self.cast(context)
        return (context, alignment) if query.shape.rank == 3 else (context[:, 0], alignment[:, 0])

    def context_size(self, encoding_shape: Encoding) -> int:
        """Returns the width of the contexts; 0 if there are none.

        Args:
            encoding_shape: ``Encoding`` of shapes.
        """
        return encoding_shape.values[-1]

    def keys(self, encoding: Encoding) -> Nest:
        """Returns tensors for ``attend`` that do not depend on the query: a nest of [B, ...]; None by default."""

    @abstractmethod
    def attend(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> AttentionWeights:
        """Returns the attention weights alpha_ij.

        Args:
            query: [B, Q, U] float, decoder states.
            position: [B, Q] int32, target position of each decoder state, counted from 0.
            memory: Memory of the source sentences.
        """

    def context(self, weights: AttentionWeights, memory: Memory) -> Context | None:
        """Returns c_i = SUM_j alpha_ij h_j, [B, Q, D], for the result of ``attend``; None without contexts."""
        return Context(self, weights, memory)

    def vectors(self, memory: Memory) -> tf.Tensor:
        """Returns the vectors whose weighted sum is a context: by default the annotations h_j, [B, S, D]."""
        return memory.values

    def weighted_sum(self, weights: AttentionWeights, vectors: tf.Tensor) -> tf.Tensor:
        """Returns SUM_j alpha_ij v_j, [B, Q, P], for vectors [B, S, P]."""
        return tf.matmul(tf.cast(weights.alpha, vectors.dtype), vectors)

    def alignment(self, weights: AttentionWeights, memory: Memory) -> tf.Tensor:
        """Returns the alignment [B, Q, S]: attention weights at their source positions, 0 elsewhere."""
        return weights.alpha


@keras.saving.register_keras_serializable("nmt_keras")
class GlobalAttention(Attention):
    """Attention over all annotations (Bahdanau et al. 2014, section 3.1; Luong et al. 2015, section 3.1).

        alpha_ij = exp(e_ij) / SUM_k exp(e_ik)                    over the source's tokens; padding gets 0
        c_i      = SUM_j alpha_ij h_j

    Args:
        score: Layer that computes e_ij.

    Example:
        >>> context, alpha = GlobalAttention(DotScore())(tf.ones([1, 2, 8]), tf.ones([1, 5, 8]))
        >>> context.shape, alpha.shape
        (TensorShape([1, 2, 8]), TensorShape([1, 2, 5]))
    """

    def __init__(self, score: ScoreFunction, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_layer("score", score, ScoreFunction, "DotScore()")
        self.score = score

    def build(self, query_shape: Shape, values_shape: Shape | Encoding) -> None:
        """Builds the score function."""
        if not self.score.built:
            self.score.build(query_shape, shape_of_encoding(values_shape).values)

    def keys(self, encoding: Encoding) -> tf.Tensor:
        """Returns the score function's keys."""
        return self.score.keys(encoding.values)

    def attend(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> AttentionWeights:
        """Returns alpha_i."""
        alpha = masked_softmax(self.score.scores(query, memory.keys), memory.mask[:, tf.newaxis])
        return AttentionWeights(self.cast(alpha), tf.zeros_like(position))


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauAttention(GlobalAttention):
    """Additive attention (Bahdanau, Cho, Bengio 2014, section 3.1 and appendix A.1.2), for any Keras model.

        e_ij     = v_a · tanh(W_a s_{i-1} + U_a h_j)
        alpha_ij = exp(e_ij) / SUM_k exp(e_ik)                    over the source's tokens; padding gets 0
        c_i      = SUM_j alpha_ij h_j

    Args:
        units: A, number of hidden units of the alignment model (n' in the paper).
        kernel_initializer, vector_initializer: See :class:`AdditiveScore`.

    Example:
        >>> annotations = keras.layers.Embedding(100, 12, mask_zero=True)(tf.constant([[5, 6, 0]]))
        >>> context, alpha = BahdanauAttention(16)(tf.ones([1, 2, 8]), annotations)
        >>> context.shape, float(alpha[0, 0, 2])
        (TensorShape([1, 2, 12]), 0.0)
    """

    def __init__(
        self,
        units: int,
        *,
        kernel_initializer: InitializerLike = "glorot_uniform",
        vector_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        initializers = {"kernel_initializer": kernel_initializer, "vector_initializer": vector_initializer}
        score = AdditiveScore(units, **initializers, dtype=kwargs.get("dtype"), name="score")
        super().__init__(score, **kwargs)
        self.units = units
        self.kernel_initializer, self.vector_initializer = score.kernel_initializer, score.vector_initializer


@keras.saving.register_keras_serializable("nmt_keras")
class NoAttention(Attention):
    """No context: the source reaches the decoder through its initial state alone (Sutskever et al. 2014).

    The alignment has equal weights at all tokens, because no token is chosen. As a layer of a Keras model, it returns
    contexts of width 0.

    Example:
        >>> context, alpha = NoAttention()(tf.ones([1, 2, 8]), tf.ones([1, 5, 12]))
        >>> context.shape, alpha.shape
        (TensorShape([1, 2, 0]), TensorShape([1, 2, 5]))
    """

    def context_size(self, encoding_shape: Encoding) -> int:
        """Returns 0."""
        return 0

    def attend(self, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> AttentionWeights:
        """Returns equal weights at all tokens."""
        weights = equal_weights(memory, self.compute_dtype)
        return AttentionWeights(tf.ones_like(self.cast(query)[..., :1]) * weights, tf.zeros_like(position))

    def context(self, weights: AttentionWeights, memory: Memory) -> Context | None:
        """Returns None."""
        return None


@keras.saving.register_keras_serializable("nmt_keras")
class FixedContext(Attention):
    """One context for every step: c = q({h_1, ..., h_S}) (Bahdanau et al. 2014, section 2.1).

    Unless ``source`` is "mean", q selects the encoder's last state (Cho et al. 2014; RNNencdec of Bahdanau et al.).
    With a bidirectional encoder, c concatenates the forward state after the last token and the backward state after the
    first token. With "mean", c = 1/S SUM_j h_j.

    Args:
        source: Directions of the encoder's last state ("forward", "backward" or "both"), or "mean" for the mean of
            the annotations.

    Example:
        >>> FixedContext("mean")(tf.ones([1, 2, 8]), tf.ones([1, 5, 12]))[0].shape
        TensorShape([1, 2, 12])
    """

    attend = NoAttention.attend

    def __init__(self, source: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require_choice("source", SUMMARIES, source)
        self.source = source

    def context_size(self, encoding_shape: Encoding) -> int:
        """Returns the width of c."""
        return summary_size(encoding_shape, self.source)

    def keys(self, encoding: Encoding) -> tf.Tensor:
        """Returns c, [B, 1, D]."""
        return self.cast(summary(encoding, self.source))[:, tf.newaxis]

    def vectors(self, memory: Memory) -> tf.Tensor:
        """Returns c, [B, 1, D]."""
        return memory.keys

    def weighted_sum(self, weights: AttentionWeights, vectors: tf.Tensor) -> tf.Tensor:
        """Returns ``vectors`` [B, 1, P] for each query."""
        return tf.ones_like(weights.alpha[..., :1], vectors.dtype) * vectors
