"""Ensembles: several models of the same vocabularies that search as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from nmt_keras.models.step import Step


class Predictor(Protocol):
    """What a search needs of a model; an ensemble is one as well."""

    source_size: int
    target_size: int

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """Every weight."""

    def remember(self, ids: tf.Tensor) -> Any:
        """Encodes sources ids [B, S] into the memory that ``step`` reads, a nest of [B, ...]."""

    def initial_state(self, memory: Any) -> Any:
        """The state before the first token: a nest of [B, 1, ...]."""

    def step(self, ids: tf.Tensor, state: Any, memory: Any) -> Any:
        """Computes logits [B, Q, V], alignment [B, Q, S] and state after the tokens ids [B, Q]."""


def average(steps: Sequence[Step]) -> Step:
    """Averages the models' probabilities and alignments.

    Returns:
        Logits [B, Q, V] float32: the logarithms of the mean probabilities. The state holds every model's.
    """
    log_probs = tf.stack([tf.nn.log_softmax(tf.cast(step.logits, tf.float32)) for step in steps])
    return Step(
        logits=tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(float(len(steps))),
        alignment=tf.add_n([step.alignment for step in steps]) / float(len(steps)),
        state=tuple(step.state for step in steps),
    )


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

    def remember(self, ids: tf.Tensor) -> tuple[Any, ...]:
        """Every model's memory of sources ids [B, S]."""
        return tuple(model.remember(ids) for model in self.models)

    def initial_state(self, memory: tuple[Any, ...]) -> tuple[Any, ...]:
        """Every model's state before the first token."""
        return tuple(model.initial_state(own) for model, own in zip(self.models, memory, strict=True))

    def step(self, ids: tf.Tensor, state: tuple[Any, ...], memory: tuple[Any, ...]) -> Step:
        """Every model's step, averaged."""
        each = zip(self.models, state, memory, strict=True)
        return average([model.step(ids, own, remembered) for model, own, remembered in each])
