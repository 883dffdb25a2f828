"""Seq2Seq: an encoder and a decoder under teacher forcing."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import PAD, ModelConfig, record_from
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.initializers import initialize
from nmt_keras.layers.memory import Memory
from nmt_keras.models.builder import build_decoder, build_encoder
from nmt_keras.models.decoder import DecoderOutput
from nmt_keras.models.step import Step


@keras.saving.register_keras_serializable("nmt_keras")
class Seq2Seq(keras.Model):
    """p(y_i | y_<i, x) for all i at once: ``model((source_ids, target_inputs))`` gives an DecoderOutput.

    Args:
        config: which encoder, attention and decoder.
        source_size, target_size: entries of the vocabularies.
        fused: whether recurrences that Keras and cuDNN know are one operation instead of a loop: see ``layers.cudnn``.
    """

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int, *, fused: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self.config, self.source_size, self.target_size, self.fused = config, source_size, target_size, fused
        self.encoder = build_encoder(config, source_size, fused)
        self.decoder = build_decoder(config, target_size, self.encoder, fused)

    def build(self, input_shape: Any = None) -> None:
        """Builds both halves; their constructors know all sizes."""
        self.encoder.build()
        self.decoder.build()
        self.built = True

    def call(
        self,
        inputs: tuple[tf.Tensor, tf.Tensor],
        randomness: Randomness | None = None,
        sampling: tf.Tensor | None = None,
    ) -> DecoderOutput:
        """Source ids [B, S] and target inputs [B, T] (START and the reference but its last token); PAD fills both.

        Args:
            inputs: the two.
            randomness: the randomness of a training step; None outside training.
            sampling: [] float32, the probability of reading an own token instead of the reference's, which needs
                randomness; None for teacher forcing.
        """
        source, target = inputs
        encoding = self.encoder(source, tf.not_equal(source, PAD), randomness)
        if sampling is None or randomness is None:
            return self.decoder(target, encoding, randomness)
        return self.decoder.call_sampling(target, encoding, sampling, randomness)

    def remember(self, ids: tf.Tensor) -> Memory:
        """Encodes sources ids [B, S], S >= 1, and builds the decoder memory of a search."""
        return self.decoder.prepare(self.decoder.remember(self.encoder(ids, tf.not_equal(ids, PAD))))

    def initial_state(self, memory: Memory) -> Any:
        """The state before the first token: a nest of [B, 1, ...]."""
        return self.decoder.initial_state(memory)

    def step(self, ids: tf.Tensor, state: Any, memory: Memory) -> Step:
        """Computes one step of a search: the last tokens ids [B, Q] of Q hypotheses give the next token's logits."""
        return self.decoder.step(ids, state, memory)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        sizes = {"source_size": self.source_size, "target_size": self.target_size}
        return {**super().get_config(), "config": dataclasses.asdict(self.config), **sizes, "fused": self.fused}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Seq2Seq:
        """The inverse of ``get_config``."""
        return cls(**{**config, "config": record_from(ModelConfig, config["config"])})


def build_model(config: ModelConfig, source_size: int, target_size: int, *, fused: bool = False) -> Seq2Seq:
    """The model that ``config`` declares, built, for vocabularies of the given sizes; ``fused`` as for ``Seq2Seq``."""
    model = Seq2Seq(config, source_size, target_size, fused=fused)
    model.build()
    initialize(config.initializer, model.trainable_variables)
    return model
