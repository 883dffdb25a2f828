"""Ensembles: several models with the same vocabularies, used as one model in a search."""

from collections.abc import Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

from nmt_keras.config import require
from nmt_keras.layers.base import Nest
from nmt_keras.models.prediction import Prediction
from nmt_keras.models.seq2seq import Seq2Seq


class Ensemble(tf.Module):
    """The mean of several models' probabilities at every step (Luong, Pham, Manning 2015, section 4.1).

        p(y_t | y_<t, x) = 1/M SUM_m p_m(y_t | y_<t, x)                   alignments are averaged likewise

    Args:
        models: Models of any kind, with the same vocabularies.

    Raises:
        ValueError: ``models`` is empty, or the vocabularies differ in size.
    """

    def __init__(self, models: Sequence[Seq2Seq]):
        super().__init__(name="ensemble")
        require(bool(models), "models", "at least one model", models)
        sizes = [(model.source_vocabulary_size, model.target_vocabulary_size) for model in models]
        require(
            len(set(sizes)) == 1,
            "models",
            "source and target vocabularies of the same sizes in all models",
            sizes,
            "Train all models with the same tokenizers.",
        )
        self.models = list(models)
        self.source_vocabulary_size, self.target_vocabulary_size = sizes[0]

    @property
    def variables(self) -> Sequence[keras.Variable]:
        """The weights of all models."""
        return [variable for model in self.models for variable in model.variables]

    def encode(self, ids: tf.Tensor) -> tuple[Nest, ...]:
        """Encodes sources and returns the memories of all models.

        Args:
            ids: [B, S] int32, S >= 1.
        """
        return tuple(model.encode(ids) for model in self.models)

    def initial_state(self, memory: tuple[Nest, ...]) -> tuple[Nest, ...]:
        """Returns the states of all models before the first token."""
        return tuple(model.initial_state(each) for model, each in zip(self.models, memory, strict=True))

    def step(self, ids: tf.Tensor, state: tuple[Nest, ...], memory: tuple[Nest, ...]) -> Prediction:
        """Computes a step of all models and averages their probabilities and alignments.

        State and memory are tuples with one entry for each model. The logits are the logarithms of the mean
        probabilities. Both results are float32.
        """
        each = [model.step(ids, *own) for model, *own in zip(self.models, state, memory, strict=True)]
        log_probs = tf.stack([tf.nn.log_softmax(tf.cast(one.logits, tf.float32)) for one in each])
        return Prediction(
            logits=tf.reduce_logsumexp(log_probs, axis=0) - tf.math.log(float(len(each))),
            alignment=tf.add_n([tf.cast(one.alignment, tf.float32) for one in each]) / float(len(each)),
            state=tuple(one.state for one in each),
        )


Predictor: TypeAlias = Seq2Seq | Ensemble
"""A model or an ensemble: encodes sources, and predicts the next tokens in a search."""


def models_of(predictor: Predictor) -> list[Seq2Seq]:
    """Returns the models of an ensemble; of a model, itself."""
    return predictor.models if isinstance(predictor, Ensemble) else [predictor]
