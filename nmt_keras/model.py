"""Seq2Seq: an encoder and a decoder under teacher forcing."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from nmt_keras.cells import Noise
from nmt_keras.config import PAD, ModelConfig
from nmt_keras.decoder import BahdanauDecoder, Decoder, Output
from nmt_keras.encoder import Encoder


@keras.saving.register_keras_serializable("nmt_keras")
class Seq2Seq(keras.Model):
    """p(y_i | y_<i, x) for all i at once: ``model((source_ids, target_inputs))`` gives an Output.

    Args:
        encoder: ids and mask -> Encoding.
        decoder: ids and Encoding -> Output.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, **options: Any) -> None:
        super().__init__(**options)
        self.encoder, self.decoder = encoder, decoder

    def build(self, input_shape: Any = None) -> None:
        """Builds both halves; their constructors know all sizes."""
        self.encoder.build()
        self.decoder.build()
        self.built = True

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor], noise: Noise | None = None) -> Output:
        """Source ids [B, S] and target inputs [B, T] (START and the reference but its last token); PAD fills both."""
        source, target = inputs
        encoding = self.encoder(source, tf.not_equal(source, PAD), noise)
        return self.decoder(target, encoding, noise)

    def get_config(self) -> dict[str, Any]:
        """Both halves, serialised."""
        halves = {"encoder": self.encoder, "decoder": self.decoder}
        return {**super().get_config(), **{k: keras.saving.serialize_keras_object(v) for k, v in halves.items()}}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Seq2Seq:
        """The inverse of ``get_config``."""
        halves = {k: keras.saving.deserialize_keras_object(config[k]) for k in ("encoder", "decoder")}
        return cls(**{**config, **halves})


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """The model that ``config`` declares, built, for vocabularies of the given sizes."""
    encoder = Encoder(
        source_size, config.embedding_size, config.encoder_units, config.residual, config.dropout, name="encoder"
    )
    decoder = BahdanauDecoder(
        target_size,
        config.embedding_size,
        config.decoder_units,
        2 * config.encoder_units,
        config.attention_units,
        config.readout_units,
        config.readout_state,
        config.dropout,
        name="decoder",
    )
    model = Seq2Seq(encoder, decoder)
    model.build()
    return model
