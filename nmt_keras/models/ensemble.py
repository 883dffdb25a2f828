"""Ensembles: several models of the same vocabularies that search as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from nmt_keras.layers.memory import Memory


class Predictor(Protocol):
    """What a search needs of a model; an ensemble is one as well."""

    source_size: int
    target_size: int

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """Every weight."""

    def remember(self, ids: tf.Tensor, logit_bias: Any = ()) -> Any:
        """What ``step`` needs of sources ids [B, S], a nest of [B, ...] with ``mask`` and ``lengths``.

        ``logit_bias`` [B, C] float32 is what a shortlist adds to the logits of its C tokens.
        """

    def initial_state(self, memory: Any) -> Any:
        """The state before the first token: a nest of [B, 1, ...]."""

    def softmax_of(self, ids: tf.Tensor) -> Any:
        """The softmax's weights of the target tokens ids [C] alone, for ``step``."""

    def whole_softmax(self, count: tf.Tensor) -> Any:
        """The softmax's weights of all target tokens, for searches of ``count`` hypotheses, [] int32, at a time."""

    def step(self, ids: tf.Tensor, state: Any, memory: Any, softmax: Any = None) -> Any:
        """Logits [B, Q, V], or [B, Q, C] of ``softmax``, alignment [B, Q, S] and state after the tokens ids [B, Q]."""


class Memories(NamedTuple):
    """What every model remembers of the same sentences."""

    each: tuple[Memory, ...]
    mask: tf.Tensor  # [B, S] bool
    lengths: tf.Tensor  # [B] int32


class Averaged(NamedTuple):
    """What the models say together of the next token."""

    logits: tf.Tensor  # [B, Q, V] float32: the logarithm of the mean probability, whose softmax is that mean
    alignment: tf.Tensor  # [B, Q, S] float: the mean alignment
    state: tuple[Any, ...]  # each model's


class Ensemble(tf.Module):
    """The mean of several models' probabilities at every step (Luong, Pham, Manning 2015, section 4.1).

        p(y_t | y_<t, x) = 1/M SUM_m p_m(y_t | y_<t, x)                   alignments are averaged likewise

    Args:
        models: of any kind, with the same vocabularies.

    Raises:
        ValueError: there is no model, or their vocabularies differ in size.
    """

    def __init__(self, models: Sequence[Predictor]):
        super().__init__(name="ensemble")
        if not models:
            raise ValueError("models: expected at least one, received none.")
        sizes = [(model.source_size, model.target_size) for model in models]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"models: expected the same source and target vocabularies in all, received sizes {sizes}. "
                "Train them on the same texts."
            )
        self.models = list(models)
        self.source_size, self.target_size = sizes[0]

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """Every model's weights."""
        return [variable for model in self.models for variable in model.variables]

    def remember(self, ids: tf.Tensor, logit_bias: Any = ()) -> Memories:
        """Every model's memory of sources ids [B, S]; ``logit_bias`` is a shortlist's."""
        each = tuple(model.remember(ids, logit_bias) for model in self.models)
        return Memories(each, each[0].mask, each[0].lengths)

    def initial_state(self, memory: Memories) -> tuple[Any, ...]:
        """Every model's state before the first token."""
        return tuple(model.initial_state(own) for model, own in zip(self.models, memory.each, strict=True))

    def softmax_of(self, ids: tf.Tensor) -> tuple[Any, ...]:
        """Every model's weights of the target tokens ids [C] alone."""
        return tuple(model.softmax_of(ids) for model in self.models)

    def whole_softmax(self, count: tf.Tensor) -> tuple[Any, ...]:
        """Every model's weights of all target tokens."""
        return tuple(model.whole_softmax(count) for model in self.models)

    def step(
        self, ids: tf.Tensor, state: tuple[Any, ...], memory: Memories, softmax: tuple[Any, ...] | None = None
    ) -> Averaged:
        """Every model's step, averaged."""
        steps = [
            model.step(ids, own, remembered, weights)
            for model, own, remembered, weights in zip(
                self.models, state, memory.each, softmax or [None] * len(self.models), strict=True
            )
        ]
        log_probs = tf.stack([tf.nn.log_softmax(tf.cast(step.logits, tf.float32)) for step in steps])
        return Averaged(
            logits=tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(float(len(steps))),
            alignment=tf.add_n([step.alignment for step in steps]) / float(len(steps)),
            state=tuple(step.state for step in steps),
        )
