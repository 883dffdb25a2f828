"""Attention: what the decoder remembers of a sentence, and how a query is answered from it.

A score function says how well a query matches each annotation; a span says which annotations compete. Every attention
answers with a context and with weights, from which alignments are made once the loop is over.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.memory import CachedProjections, Memory
from nmt_keras.layers.scores import AdditiveScore, ScoreFunction


class Attended(NamedTuple):
    """What an attention answers to queries."""

    context: Any  # [B, Q, D] float: c_i; the CachedProjections of c_i where the memory holds one of the annotations
    weights: tf.Tensor  # [B, Q, W] float: alpha_ij of W neighbouring source positions
    first: tf.Tensor  # [B, Q] int32: the source position of the first of them; it may lie before the sentence


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """exp(e_j) / SUM_k exp(e_k) over the positions k where ``mask`` is True; exactly 0 elsewhere.

    Computed in float32 whatever the dtype of ``scores`` [B, Q, W] is, and returned in that dtype. ``mask`` is
    [B, 1 or Q, W]. Each row of it holds at least one True: every sentence ends in END.
    """
    logits = tf.where(mask, tf.cast(scores, tf.float32), tf.float32.min)
    return tf.cast(tf.nn.softmax(logits), scores.dtype)


class Attention(BaseLayer):
    """The contract: ``keys`` once for a sentence, ``attend`` at every step, ``alignment`` when all steps are done."""

    context_size: int
    """Width of the contexts; 0 where there is none."""

    @abstractmethod
    def keys(self, encoding: Any) -> Any:
        """What of an Encoding depends on no query: a nest of [B, ...]."""

    @abstractmethod
    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """Answers queries [B, Q, U] of the target positions ``step`` [B, Q], counted from 0."""

    def read(self, memory: Memory, of: Callable[[tf.Tensor], CachedProjections]) -> Any:
        """The CachedProjections of what contexts are made of, ``of`` each; () where that saves nothing."""
        return ()

    def alignment(self, attended: Attended, memory: Memory) -> tf.Tensor:
        """The alignment [B, Q, S]: weights at their source positions, 0 elsewhere."""
        return attended.weights


@keras.saving.register_keras_serializable("nmt_keras")
class GlobalAttention(Attention):
    """All annotations compete (Bahdanau et al. 2014, section 3.1; Luong et al. 2015, section 3.1).

        alpha_ij = exp(e_ij) / SUM_k exp(e_ik)                    over the source's tokens; padding gets 0
        c_i      = SUM_j alpha_ij h_j

    Args:
        score: gives e_ij.
        value_size: D, width of h_j.
    """

    def __init__(self, score: ScoreFunction, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.score, self.value_size = score, value_size
        self.context_size = value_size

    def keys(self, encoding: Any) -> tf.Tensor:
        """The score's."""
        return self.score.keys(encoding.values)

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """alpha_i and c_i."""
        weights = masked_softmax(self.score.scores(query, memory.keys), memory.mask[:, tf.newaxis])
        annotations = memory.projections or memory.values
        context = tf.nest.map_structure(lambda x: tf.matmul(weights, x), annotations)
        return Attended(context, weights, tf.zeros_like(step))

    def read(self, memory: Memory, of: Callable[[tf.Tensor], CachedProjections]) -> Any:
        """Of the annotations."""
        return of(memory.values)


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauAttention(GlobalAttention):
    """Additive attention over the whole source (Bahdanau, Cho, Bengio 2014): :class:`AdditiveScore`, all annotations.

    Args:
        units: A, the alignment model's hidden units.
        query_size: width of s_{i-1}.
        value_size: D, width of h_j.
    """

    def __init__(self, units: int, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(AdditiveScore(units, query_size, value_size, name="score"), value_size, **options)
        self.units, self.query_size = units, query_size


@keras.saving.register_keras_serializable("nmt_keras")
class FixedContext(Attention):
    """One context for every step: c = the encoder's last state (Cho et al. 2014; RNNencdec of Bahdanau et al. 2014).

    A bidirectional encoder gives the last forward and the first backward state side by side. The alignment says where
    they were read: at the last token, the first, or half and half.

    Args:
        state_size: width of that state, or of both.
        directions: "forward", "backward" or "bidirectional", as the encoder's.
    """

    def __init__(self, state_size: int, directions: str, **options: Any) -> None:
        super().__init__(**options)
        self.state_size, self.directions = state_size, directions
        self.context_size = state_size

    def keys(self, encoding: Any) -> tf.Tensor:
        """c [B, D]."""
        return encoding.summary

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """c, and where it comes from."""
        each = tf.ones_like(query[..., :1])  # [B, Q, 1]
        weights = _summarised(memory, self.directions, query.dtype)
        fixed = memory.projections or memory.keys[:, tf.newaxis]
        context = tf.nest.map_structure(lambda x: each * x, fixed)
        return Attended(context, each * weights, tf.zeros_like(step))

    def read(self, memory: Memory, of: Callable[[tf.Tensor], CachedProjections]) -> Any:
        """Of c."""
        return of(memory.keys[:, tf.newaxis])


@keras.saving.register_keras_serializable("nmt_keras")
class NoAttention(Attention):
    """No context: the source reaches the decoder through its first state alone (Sutskever et al. 2014).

    The alignment says where that state was read: at the last token, the first, half and half, or evenly at all.

    Args:
        directions: what that state is made of: the encoder's "forward" or "backward" state, both ("bidirectional"),
            or the "mean" of its annotations.
    """

    context_size = 0

    def __init__(self, directions: str, **options: Any) -> None:
        super().__init__(**options)
        self.directions = directions

    def keys(self, encoding: Any) -> tuple[()]:
        """Nothing."""
        return ()

    def attend(self, query: tf.Tensor, step: tf.Tensor, memory: Memory) -> Attended:
        """A context of width 0, and where the decoder's start comes from."""
        weights = tf.ones_like(query[..., :1]) * _summarised(memory, self.directions, query.dtype)
        return Attended(query[..., :0], weights, tf.zeros_like(step))


def _summarised(memory: Memory, directions: str, dtype: tf.DType) -> tf.Tensor:
    """The positions [B, 1, S] where an encoder of these directions has read the whole sentence; all for "mean"."""
    width = memory.mask.shape[1] or tf.shape(memory.mask)[1]
    last = tf.one_hot(memory.lengths - 1, width, dtype=dtype)
    first = tf.one_hot(tf.zeros_like(memory.lengths), width, dtype=dtype)
    even = tf.cast(memory.mask, dtype) / tf.cast(memory.lengths, dtype)[:, tf.newaxis]
    places = {"forward": last, "backward": first, "bidirectional": 0.5 * (first + last), "mean": even}
    return places[directions][:, tf.newaxis]
