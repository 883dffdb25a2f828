"""Ensembles: several models of the same vocabularies that search as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from nmt_keras.layers.matmul import Precision, full_precision
from nmt_keras.models.step import Step

StepFunction = Callable[[tf.Tensor, Any, Any], Step]
"""(last tokens [B, Q], state, memory) -> logits, alignment and the next state."""


class Predictor(Protocol):
    """The part of a model that a search uses; an ensemble has it, too."""

    source_size: int
    target_size: int

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """All weights."""

    def remember(self, ids: tf.Tensor) -> Any:
        """Encodes sources ids [B, S] into a memory, a nest of [B, ...]."""

    def initial_state(self, memory: Any) -> Any:
        """Returns the state before the first token: a nest of [B, 1, ...]."""

    def step_function(self, precision: Precision = full_precision) -> StepFunction:
        """Returns the step of a search: (ids [B, Q], state, memory) -> logits, alignment and the next state."""


def average(steps: Sequence[StepFunction]) -> StepFunction:
    """Returns a step that averages the probabilities and alignments of several.

    Its state and memory are tuples of theirs; its logits are the logarithms of the mean probabilities, float32.
    """

    def step(ids: tf.Tensor, state: tuple[Any, ...], memory: tuple[Any, ...]) -> Step:
        each = [one(ids, own, remembered) for one, own, remembered in zip(steps, state, memory, strict=True)]
        log_probs = tf.stack([tf.nn.log_softmax(tf.cast(one.logits, tf.float32)) for one in each])
        return Step(
            logits=tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(float(len(each))),
            alignment=tf.add_n([one.alignment for one in each]) / float(len(each)),
            state=tuple(one.state for one in each),
        )

    return step


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
        """The weights of all models."""
        return [variable for model in self.models for variable in model.variables]

    def remember(self, ids: tf.Tensor) -> tuple[Any, ...]:
        """Returns the memories of all models, for sources ids [B, S]."""
        return tuple(model.remember(ids) for model in self.models)

    def initial_state(self, memory: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the states of all models before the first token."""
        return tuple(model.initial_state(own) for model, own in zip(self.models, memory, strict=True))

    def step_function(self, precision: Precision = full_precision) -> StepFunction:
        """Returns every model's step, averaged."""
        return average([model.step_function(precision) for model in self.models])
