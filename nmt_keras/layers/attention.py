"""Attention layers: compute a context from a query and the annotations.

A score function computes how well a query matches each annotation. An attention layer normalises the scores to
attention weights, over all annotations or over a window. The context is the weighted sum of the annotations. After the
loop over target positions, ``alignment`` puts the attention weights of a window at their source positions.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer, Weights
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import AdditiveScore, ScoreFunction


class Attended(NamedTuple):
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


class Attention(BaseLayer):
    """Interface of attention layers.

    ``values`` and ``prepare`` are called once per sentence, ``attend`` and ``context`` at every step, and ``alignment``
    after the last step.
    """

    context_size: int
    """Width of the contexts; 0 if there are none."""

    def values(self, encoding: Any) -> tf.Tensor:
        """Returns the vectors v_j. A context is their weighted sum.

        By default, the vectors are the annotations h_j, [B, S, D].
        """
        return encoding.values

    @abstractmethod
    def prepare(self, weights: Weights, encoding: Any) -> Any:
        """Returns tensors for ``attend`` that do not depend on the query: a nest of [B, ...], or None."""

    @abstractmethod
    def attend(self, weights: Weights, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> Attended:
        """Returns the attention weights alpha_ij.

        Args:
            weights: This layer's weights.
            query: [B, Q, U] float, decoder states.
            position: [B, Q] int32, target position of each decoder state, counted from 0.
            memory: Memory of the source sentences.
        """

    def context(self, attended: Attended, values: tf.Tensor) -> tf.Tensor:
        """Returns SUM_j alpha_ij v_j, [B, Q, P].

        Args:
            attended: Result of ``attend``.
            values: [B, S, P] float, of any width P. The vectors v_j from ``values``, or a matrix times each v_j.
        """
        return tf.matmul(attended.alpha, values)

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """Returns the alignment [B, Q, S]: attention weights at their source positions, 0 elsewhere."""
        return attended.alpha


@keras.saving.register_keras_serializable("nmt_keras")
class GlobalAttention(Attention):
    """Attention over all annotations (Bahdanau et al. 2014, section 3.1; Luong et al. 2015, section 3.1).

        alpha_ij = exp(e_ij) / SUM_k exp(e_ik)                    over the source's tokens; padding gets 0
        c_i      = SUM_j alpha_ij h_j

    Args:
        score: Function that computes e_ij.
        annotation_size: D, width of h_j.
    """

    def __init__(self, score: ScoreFunction, annotation_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.score, self.annotation_size = score, annotation_size
        self.context_size = annotation_size

    def prepare(self, weights: Weights, encoding: Any) -> tf.Tensor:
        """Returns the score function's keys."""
        return self.score.keys(weights.score, encoding.values)

    def attend(self, weights: Weights, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> Attended:
        """Returns alpha_i."""
        alpha = masked_softmax(self.score.scores(weights.score, query, memory.prepared), memory.mask[:, tf.newaxis])
        return Attended(alpha, tf.zeros_like(position))

    def call(self, query: tf.Tensor, values: tf.Tensor, mask: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes contexts and attention weights, for use in any Keras model.

        Args:
            query: [B, Q, U] float.
            values: [B, S, D] float.
            mask: [B, S] bool, True at tokens; None attends to all positions.

        Returns:
            Contexts [B, Q, D] and attention weights [B, Q, S].
        """
        weights = self.read_weights()
        mask = tf.ones(tf.shape(values)[:2], tf.bool) if mask is None else mask
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        memory = Memory(values, self.score.keys(weights.score, values), mask, lengths, None)
        attended = self.attend(weights, query, tf.zeros(tf.shape(query)[:2], tf.int32), memory)
        return self.context(attended, values), attended.alpha


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauAttention(GlobalAttention):
    """Additive attention for any Keras model; the decoders here build ``GlobalAttention(AdditiveScore(...))``.

    See :class:`AdditiveScore` (Bahdanau, Cho, Bengio 2014).

    Args:
        units: A, number of hidden units of the alignment model.
        query_size: Width of s_{i-1}.
        annotation_size: D, width of h_j.
    """

    computed_arguments = ("score",)

    def __init__(self, units: int, query_size: int, annotation_size: int, **options: Any) -> None:
        super().__init__(AdditiveScore(units, query_size, annotation_size, name="score"), annotation_size, **options)
        self.units, self.query_size = units, query_size


@keras.saving.register_keras_serializable("nmt_keras")
class FixedContext(Attention):
    """One context for every step: c = q({h_1, ..., h_S}) (Bahdanau et al. 2014, section 2.1).

    Unless ``directions`` is "mean", q selects the encoder's last state (Cho et al. 2014; RNNencdec of Bahdanau et al.).
    With a bidirectional encoder, c concatenates the forward state after the last token and the backward state after the
    first token. The alignment shows the positions of these states: weight 1 at the last or the first token, or 1/2 at
    both. With "mean", c = 1/S SUM_j h_j, and the alignment has equal weights at all tokens.

    Args:
        state_size: Width of c.
        directions: Directions of the encoder ("forward", "backward" or "bidirectional"), or "mean" for the mean of the
            annotations.
    """

    def __init__(self, state_size: int, directions: str, **options: Any) -> None:
        super().__init__(**options)
        self.state_size, self.directions = state_size, directions
        self.context_size = state_size

    def values(self, encoding: Any) -> tf.Tensor:
        """Returns c as the only vector, [B, 1, D]."""
        if self.directions == "mean":
            return tf.matmul(_state_positions(encoding, "mean", encoding.values.dtype), encoding.values)
        return encoding.summary[:, tf.newaxis]

    def prepare(self, weights: Weights, encoding: Any) -> None:
        """Returns None."""

    def attend(self, weights: Weights, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> Attended:
        """Returns weights at the positions of the states in c."""
        alpha = tf.ones_like(query[..., :1]) * _state_positions(memory, self.directions, query.dtype)
        return Attended(alpha, tf.zeros_like(position))

    def context(self, attended: Attended, values: tf.Tensor) -> tf.Tensor:
        """Returns ``values`` [B, 1, P] for each query."""
        return tf.ones_like(attended.alpha[..., :1]) * values


@keras.saving.register_keras_serializable("nmt_keras")
class NoAttention(Attention):
    """No context: the source reaches the decoder through its initial state alone (Sutskever et al. 2014).

    The alignment shows the positions of that state: weight 1 at the last or the first token, 1/2 at both, or equal
    weights at all tokens.

    Args:
        directions: Source of the initial state: the encoder's "forward" or "backward" state, both ("bidirectional"), or
            the "mean" of the annotations.
    """

    context_size = 0

    def __init__(self, directions: str, **options: Any) -> None:
        super().__init__(**options)
        self.directions = directions

    def values(self, encoding: Any) -> tf.Tensor:
        """Returns vectors of width 0: [B, S, 0]."""
        return encoding.values[..., :0]

    def prepare(self, weights: Weights, encoding: Any) -> None:
        """Returns None."""

    def attend(self, weights: Weights, query: tf.Tensor, position: tf.Tensor, memory: Memory) -> Attended:
        """Returns weights at the positions of the initial state."""
        alpha = tf.ones_like(query[..., :1]) * _state_positions(memory, self.directions, query.dtype)
        return Attended(alpha, tf.zeros_like(position))


def _state_positions(memory: Any, directions: str, dtype: tf.DType) -> tf.Tensor:
    """Returns the positions of an encoder's last states, as weights [B, 1, S]; equal weights for "mean".

    Args:
        memory: The sentences' memory or encoding.
        directions: As in ``NoAttention``.
        dtype: Type of the weights.
    """
    width = memory.mask.shape[1] or tf.shape(memory.mask)[1]
    last = tf.one_hot(memory.lengths - 1, width, dtype=dtype)
    first = tf.one_hot(tf.zeros_like(memory.lengths), width, dtype=dtype)
    even = tf.cast(memory.mask, dtype) / tf.cast(memory.lengths, dtype)[:, tf.newaxis]
    weights = {"forward": last, "backward": first, "bidirectional": 0.5 * (first + last), "mean": even}
    return weights[directions][:, tf.newaxis]
