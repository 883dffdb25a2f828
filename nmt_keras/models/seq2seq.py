"""Seq2Seq: an encoder and a decoder as one Keras model."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import PAD, ModelConfig, record_from
from nmt_keras.layers.base import Weights
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.initializers import initialize
from nmt_keras.layers.matmul import Precision, compute_dtype_weights
from nmt_keras.layers.memory import Memory
from nmt_keras.models.builder import build_decoder, build_encoder
from nmt_keras.models.decoder import DecoderOutput
from nmt_keras.models.predictor import StepFunction


@keras.saving.register_keras_serializable("nmt_keras")
class Seq2Seq(keras.Model):
    """Encoder-decoder model: ``model((source_ids, target_inputs))`` returns a DecoderOutput.

    Its logits predict p(y_i | y_<i, x) for all i at once. ``compile`` and ``fit`` train the model on batches
    ((source_ids, target_inputs), target_ids). Training with ``fit`` cannot be resumed exactly; see the guide
    "Train with fit". The loss is the mean cross-entropy of the target's tokens, in nats.

    Args:
        config: Configuration of encoder, attention and decoder.
        source_vocabulary_size, target_vocabulary_size: V of each side.
        seed: Seed of dropout under ``fit``.
    """

    def __init__(
        self,
        config: ModelConfig,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        *,
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.config, self.seed = config, seed
        self.source_vocabulary_size, self.target_vocabulary_size = source_vocabulary_size, target_vocabulary_size
        self.encoder = build_encoder(config, source_vocabulary_size)
        self.decoder = build_decoder(config, target_vocabulary_size, self.encoder)

    def build(self, input_shape: Any = None) -> None:
        """Builds encoder and decoder. Needs no input shape, because the constructors' arguments give all sizes."""
        self.encoder.build()
        self.decoder.build()
        self.built = True

    def read_weights(self, precision: Precision = compute_dtype_weights) -> Weights:
        """Returns the weights as tensors; see ``BaseLayer.read_weights``."""
        return Weights(encoder=self.encoder.read_weights(precision), decoder=self.decoder.read_weights(precision))

    def call(
        self,
        inputs: tuple[tf.Tensor, tf.Tensor],
        training: bool | None = None,
        randomness: Randomness | None = None,
        own_token_probability: tf.Tensor | None = None,
        weights: Weights | None = None,
    ) -> DecoderOutput:
        """Predicts every target token from the source and the tokens before it.

        Args:
            inputs: Source ids [B, S], and target inputs [B, T]: START, then the reference without its last token. Both
                are padded with PAD.
            training: If True, applies dropout. If ``randomness`` is None, as under ``fit``, the random numbers are a
                function of ``seed``, the optimizer's iterations and the replica.
            randomness: Source of a training step's random numbers. If given, dropout is applied even if ``training`` is
                not True.
            own_token_probability: See ``Decoder.call``; None for teacher forcing.
            weights: Result of ``read_weights``; None reads them in the compute dtype.
        """
        source, target = inputs
        if training and randomness is None:
            randomness = self._randomness()
        weights = weights or self.read_weights()
        encoding = self.encoder(source, tf.not_equal(source, PAD), randomness=randomness, weights=weights.encoder)
        return self.decoder(
            target,
            encoding,
            randomness=randomness,
            own_token_probability=own_token_probability,
            weights=weights.decoder,
        )

    def _randomness(self) -> Randomness | None:
        """Returns the randomness of a step of ``fit``; None without dropout."""
        if not any((self.config.dropout, self.config.output_dropout, self.config.recurrent_dropout)):
            return None
        if getattr(self, "optimizer", None) is None:
            raise ValueError(
                "randomness: expected a `Randomness` for dropout, received None. Pass one, or compile the model."
            )
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group if context else 0
        return Randomness(self.seed, tf.cast(self.optimizer.iterations, tf.int32), replica)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> tf.Tensor:
        """Returns the mean cross-entropy in nats of the target ids that are not PAD.

        Args:
            x: Not used.
            y: [B, T] int32. Target ids.
            y_pred: Result of ``call``.
            sample_weight: Must be None.
            training: Not used.

        Raises:
            ValueError: ``sample_weight`` is given. The loss has no weights other than 0 at padding.
        """
        if sample_weight is not None:
            raise ValueError(
                f"sample_weight: expected None, received {type(sample_weight).__name__}. The loss has no weights other "
                "than 0 at padding. Call `fit` without sample weights."
            )
        mask = tf.cast(tf.not_equal(y, PAD), tf.float32)
        logits = tf.cast(y_pred.logits, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)

    def remember(self, ids: tf.Tensor) -> Memory:
        """Encodes sources and returns the decoder memory.

        Args:
            ids: [B, S] int32, S >= 1.
        """
        weights = self.read_weights()
        return self.decoder.remember(weights.decoder, self.encoder(ids, weights=weights.encoder))

    def initial_state(self, memory: Memory) -> Any:
        """Returns the state before the first token: a nest of [B, 1, ...]."""
        return self.decoder.initial_state(memory)

    def step_function(self, precision: Precision = compute_dtype_weights) -> StepFunction:
        """Returns the step function of a search. Call this before the search loop, because it reads the weights."""
        return self.step_with(self.decoder.read_weights(precision))

    def step_with(self, weights: Weights) -> StepFunction:
        """Returns the step function of a search that uses the decoder weights ``weights``."""
        return lambda ids, state, memory: self.decoder.step(weights, ids, state, memory)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        sizes = {name: getattr(self, name) for name in ("source_vocabulary_size", "target_vocabulary_size")}
        return {**super().get_config(), "config": dataclasses.asdict(self.config), **sizes, "seed": self.seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Seq2Seq:
        """Creates a model from the result of ``get_config``."""
        return cls(**{**config, "config": record_from(ModelConfig, config["config"])})


def build_model(config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int) -> Seq2Seq:
    """Builds the model that ``config`` declares, with initial weights, for vocabularies of the given sizes."""
    model = Seq2Seq(config, source_vocabulary_size, target_vocabulary_size)
    model.build()
    initialize(config.initializer, model.trainable_variables)
    return model
