"""Seq2Seq: an encoder and a decoder as one Keras model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import PAD, ModelConfig, record_from
from nmt_keras.layers.base import Weights
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.initializers import initialize
from nmt_keras.layers.matmul import Precision, full_precision
from nmt_keras.layers.memory import Memory
from nmt_keras.models.builder import build_decoder, build_encoder
from nmt_keras.models.decoder import DecoderOutput
from nmt_keras.models.step import Step


@keras.saving.register_keras_serializable("nmt_keras")
class Seq2Seq(keras.Model):
    """p(y_i | y_<i, x) for all i at once: ``model((source_ids, target_inputs))`` returns a DecoderOutput.

    ``compile`` and ``fit`` train it on batches ((source_ids, target_inputs), target_ids), without exact resume: see the
    guide "Train with fit". The loss is the mean cross-entropy of the target's tokens, in nats.

    Args:
        config: Encoder, attention and decoder.
        source_size, target_size: Entries of the vocabularies.
        seed: Of dropout under ``fit``.
    """

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int, *, seed: int = 0, **options: Any
    ) -> None:
        super().__init__(**options)
        self.config, self.source_size, self.target_size, self.seed = config, source_size, target_size, seed
        self.encoder = build_encoder(config, source_size)
        self.decoder = build_decoder(config, target_size, self.encoder)

    def build(self, input_shape: Any = None) -> None:
        """Builds encoder and decoder; their constructors know all sizes."""
        self.encoder.build()
        self.decoder.build()
        self.built = True

    def read_weights(self, precision: Precision = full_precision) -> Weights:
        """Returns the weights as tensors; see ``BaseLayer.read_weights``."""
        return Weights(encoder=self.encoder.read_weights(precision), decoder=self.decoder.read_weights(precision))

    def call(
        self,
        inputs: tuple[tf.Tensor, tf.Tensor],
        training: bool | None = None,
        randomness: Randomness | None = None,
        sampling: tf.Tensor | None = None,
        weights: Weights | None = None,
    ) -> DecoderOutput:
        """Predicts every target token from the source and the tokens before it.

        Args:
            inputs: Source ids [B, S], and target inputs [B, T]: START, then the reference without its last token. PAD
                fills both.
            training: If True, drops out. The random numbers are those of ``randomness``, or, under ``fit``, a function
                of ``seed``, the optimizer's iterations and the replica.
            randomness: Of a training step; it implies ``training``.
            sampling: [] float32, the probability of reading the decoder's own token instead of the reference's
                (scheduled sampling); None for teacher forcing.
            weights: From ``read_weights``; None reads them in full precision.
        """
        source, target = inputs
        if training and randomness is None:
            randomness = self._randomness()
        weights = weights or self.read_weights()
        encoding = self.encoder(source, tf.not_equal(source, PAD), randomness=randomness, weights=weights.encoder)
        return self.decoder(target, encoding, randomness=randomness, sampling=sampling, weights=weights.decoder)

    def _randomness(self) -> Randomness | None:
        """Returns the randomness of a step of ``fit``."""
        if not self.config.dropout and not self.config.recurrent_dropout:
            return None
        if getattr(self, "optimizer", None) is None:
            raise ValueError("training: dropout draws from `randomness`, received None. Pass it, or compile the model.")
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group if context else 0
        return Randomness(self.seed, tf.cast(self.optimizer.iterations, tf.int32), replica)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> tf.Tensor:
        """Returns the mean cross-entropy in nats of the target ids ``y`` [B, T] that are not PAD.

        Raises:
            ValueError: ``sample_weight`` is given: padding is the only weight.
        """
        if sample_weight is not None:
            raise ValueError("sample_weight: expected None, as padding alone has weight 0. Fit without it.")
        mask = tf.cast(tf.not_equal(y, PAD), tf.float32)
        logits = tf.cast(y_pred.logits, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)

    def remember(self, ids: tf.Tensor) -> Memory:
        """Encodes sources ids [B, S], S >= 1, and builds the decoder memory."""
        weights = self.read_weights()
        return self.decoder.remember(weights.decoder, self.encoder(ids, weights=weights.encoder))

    def initial_state(self, memory: Memory) -> Any:
        """Returns the state before the first token: a nest of [B, 1, ...]."""
        return self.decoder.initial_state(memory)

    def step_function(self, precision: Precision = full_precision) -> Callable[[tf.Tensor, Any, Memory], Step]:
        """Returns the step of a search. Call it outside the loop of the search: it reads the weights."""
        return self.step_with(self.decoder.read_weights(precision))

    def step_with(self, weights: Weights) -> Callable[[tf.Tensor, Any, Memory], Step]:
        """Returns the step of a search with given weights of the decoder.

        The step takes the last tokens [B, Q] of Q hypotheses, their state and the memory.
        """
        return lambda ids, state, memory: self.decoder.step(weights, ids, state, memory)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        own = {"source_size": self.source_size, "target_size": self.target_size, "seed": self.seed}
        return {**super().get_config(), "config": dataclasses.asdict(self.config), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Seq2Seq:
        """Creates a model from what ``get_config`` returned."""
        return cls(**{**config, "config": record_from(ModelConfig, config["config"])})


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """Builds the model that ``config`` declares, with initial weights, for vocabularies of the given sizes."""
    model = Seq2Seq(config, source_size, target_size)
    model.build()
    initialize(config.initializer, model.trainable_variables)
    return model
