"""The interface between models and searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import keras
import tensorflow as tf

from nmt_keras.layers.base import Nest


class Prediction(NamedTuple):
    """A model's prediction of the next token of every hypothesis."""

    logits: tf.Tensor  # [B, Q, V] float
    alignment: tf.Tensor  # [B, Q, S] float
    state: Nest  # nest of [B, Q, ...]: after the last tokens


StepFunction = Callable[[tf.Tensor, Nest, Nest], Prediction]
"""One step of a search. Arguments: last tokens [B, Q] int32; state, nest of [B, Q, ...]; memory, nest of [B, ...]."""


class Predictor(Protocol):
    """Interface of models and ensembles for a search."""

    source_vocabulary_size: int
    target_vocabulary_size: int

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """All weights of the model or the ensemble."""

    def encode(self, ids: tf.Tensor) -> Nest:
        """Encodes sources and returns the memory, a nest of [B, ...].

        Args:
            ids: [B, S] int32, S >= 1.
        """

    def initial_state(self, memory: Nest) -> Nest:
        """Returns the state before the first token: a nest of [B, 1, ...]."""

    @property
    def compute_dtype(self) -> str:
        """Type of the computations."""

    def step(self, ids: tf.Tensor, state: Nest, memory: Nest) -> Prediction:
        """Computes one step of a search; see ``StepFunction``. Open ``weights_read_once`` around the search."""
