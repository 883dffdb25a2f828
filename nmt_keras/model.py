"""Seq2Seq: an encoder and a decoder under teacher forcing, put together as a configuration declares."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.attention import (
    AdditiveScore,
    Attention,
    BahdanauAttention,
    DotScore,
    FixedContext,
    GeneralScore,
    GlobalAttention,
    LocationScore,
    Memory,
    MonotonicLocalAttention,
    NoAttention,
    PredictiveLocalAttention,
    Score,
)
from nmt_keras.cells import CELL_CLASSES, Noise, Stack, TanhCell
from nmt_keras.config import PAD, AttentionConfig, DecoderConfig, ModelConfig, record_from
from nmt_keras.decoder import (
    BahdanauDecoder,
    Decoder,
    LastStateStart,
    LuongDecoder,
    Output,
    ProjectedStart,
    SelfAttentionDecoder,
    Start,
    Step,
    ZeroStart,
)
from nmt_keras.encoder import Encoder, RecurrentEncoder, SelfAttentionEncoder
from nmt_keras.optimization import initialize
from nmt_keras.readout import AttentionalReadout, LinearReadout, MaxoutReadout, Readout, Softmax, StateReadout


@keras.saving.register_keras_serializable("nmt_keras")
class Seq2Seq(keras.Model):
    """p(y_i | y_<i, x) for all i at once: ``model((source_ids, target_inputs))`` gives an Output.

    Args:
        config: which encoder, attention and decoder.
        source_size, target_size: entries of the vocabularies.
        fused: whether recurrences that Keras and cuDNN know are one operation instead of a loop: see ``fused.py``.
    """

    def __init__(
        self, config: ModelConfig, source_size: int, target_size: int, fused: bool = False, **options: Any
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
        self, inputs: tuple[tf.Tensor, tf.Tensor], noise: Noise | None = None, sampling: tf.Tensor | None = None
    ) -> Output:
        """Source ids [B, S] and target inputs [B, T] (START and the reference but its last token); PAD fills both.

        Args:
            inputs: the two.
            noise: the randomness of a training step; None outside training.
            sampling: [] float32, the probability of reading an own token instead of the reference's, which needs
                noise; None for teacher forcing.
        """
        source, target = inputs
        encoding = self.encoder(source, tf.not_equal(source, PAD), noise)
        if sampling is None or noise is None:
            return self.decoder(target, encoding, noise)
        return self.decoder.call_sampling(target, encoding, sampling, noise)

    def remember(self, ids: tf.Tensor, price: Any = ()) -> Memory:
        """What a search needs of sources ids [B, S], S >= 1, computed once; ``price`` is a shortlist's."""
        memory = self.decoder.remember(self.encoder(ids, tf.not_equal(ids, PAD)))
        return self.decoder.prepare(memory)._replace(price=price)

    def start(self, memory: Memory) -> Any:
        """The carry before the first token: a nest of [B, 1, ...]."""
        return self.decoder.start(memory)

    def softmax_of(self, ids: tf.Tensor) -> Softmax:
        """The softmax's weights of the target tokens ids [C] alone."""
        return self.decoder.output_layer.softmax_of(ids)

    def whole_softmax(self, count: tf.Tensor) -> Softmax:
        """The softmax's weights of all target tokens, for searches of ``count`` hypotheses, [] int32, at a time."""
        return self.decoder.output_layer.whole_softmax(count)

    def step(self, ids: tf.Tensor, carry: Any, memory: Memory, softmax: Softmax | None = None) -> Step:
        """One step of a search: the last tokens ids [B, Q] of Q hypotheses give the next token's logits.

        With ``softmax``, logits are those of its tokens alone: see ``decoder.Decoder.step``.
        """
        return self.decoder.step(ids, carry, memory, softmax)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        sizes = {"source_size": self.source_size, "target_size": self.target_size}
        return {**super().get_config(), "config": dataclasses.asdict(self.config), **sizes, "fused": self.fused}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Seq2Seq:
        """The inverse of ``get_config``."""
        return cls(**{**config, "config": record_from(ModelConfig, config["config"])})


def build_model(config: ModelConfig, source_size: int, target_size: int, fused: bool = False) -> Seq2Seq:
    """The model that ``config`` declares, built, for vocabularies of the given sizes; ``fused`` as for ``Seq2Seq``."""
    model = Seq2Seq(config, source_size, target_size, fused)
    model.build()
    initialize(config.initializer, model.trainable_variables)
    return model


def build_encoder(config: ModelConfig, source_size: int, fused: bool = False) -> Encoder:
    """The encoder that ``config`` declares."""
    encoder = config.encoder
    if encoder.kind == "self-attention":
        return SelfAttentionEncoder(
            source_size,
            config.embedding_size,
            encoder.units,
            encoder.heads,
            encoder.layers,
            config.dropout,
            name="encoder",
        )
    return RecurrentEncoder(
        source_size,
        config.embedding_size,
        encoder.units,
        encoder.cell,
        encoder.direction,
        encoder.merge,
        encoder.layers,
        encoder.residual,
        encoder.word_view,
        config.dropout,
        config.recurrent_dropout,
        fused,
        name="encoder",
    )


def build_decoder(config: ModelConfig, target_size: int, encoder: Encoder, fused: bool = False) -> Decoder:
    """The decoder that ``config`` declares, for the annotations of ``encoder``."""
    decoder = config.decoder
    embedding = keras.layers.Embedding(target_size, config.embedding_size, name="embedding")
    if decoder.order == "self-attention":
        readout: Readout = StateReadout(
            target_size, decoder.units, config.dropout, embedding if decoder.tied else None, name="readout"
        )
        return SelfAttentionDecoder(
            target_size,
            embedding,
            decoder.units,
            decoder.heads,
            decoder.layers,
            encoder.annotation_size,
            decoder.max_positions,
            readout,
            config.dropout,
            name="decoder",
        )
    attention = _attention(config, encoder)
    parts = {
        "vocabulary_size": target_size,
        "embedding": embedding,
        "stack": _stack(config, encoder, attention.context_size),
        "start_states": _start(decoder, encoder),
        "attention": attention,
        "output_layer": _readout(config, target_size, attention.context_size, embedding),
        "dropout": config.dropout,
        "name": "decoder",
    }
    if decoder.order == "attend-then-update":
        seen = "current" if decoder.readout == "state" else decoder.readout_state
        return BahdanauDecoder(readout_state=seen, **parts)
    return LuongDecoder(feeds_attention=decoder.feeds_attention, fused=fused, **parts)


def _stack(config: ModelConfig, encoder: Encoder, context_size: int) -> Stack:
    """The decoder's cells. What the first has as its context is what the order lets it see of the source."""
    decoder = config.decoder
    fed = decoder.readout_units if decoder.feeds_attention else 0
    seen = context_size if decoder.order == "attend-then-update" else fed
    words = config.embedding_size if decoder.reads_words else 0
    if decoder.shares_recurrence:
        assert isinstance(encoder, RecurrentEncoder)
        (shared,) = encoder.forward_cells + encoder.backward_cells
        cells = [TanhCell(decoder.units, words, seen, recurrence_of=shared, name="cell_0")]
    else:
        make = CELL_CLASSES[decoder.cell]
        cells = [make(decoder.units, words, seen, name="cell_0")]
        cells += [make(decoder.units, decoder.units, name=f"cell_{i}") for i in range(1, decoder.layers)]
    return Stack(cells, decoder.residual, config.dropout, config.recurrent_dropout, name="stack")


def _start(decoder: DecoderConfig, encoder: Encoder) -> Start:
    match decoder.start:
        case "zero":
            return ZeroStart(name="start")
        case "last":
            return LastStateStart(name="start")
        case "mean":
            width = encoder.annotation_size
        case "both":
            width = 2 * encoder.units
        case _:
            width = encoder.units
    return ProjectedStart(decoder.start, width, decoder.units, decoder.layers, name="start")


def _attention(config: ModelConfig, encoder: Encoder) -> Attention:
    attention, states, annotations = config.attention, config.decoder.units, encoder.annotation_size
    direction = config.encoder.direction
    if attention.kind == "fixed":
        assert isinstance(encoder, RecurrentEncoder)
        return FixedContext(encoder.summary_size, direction, name="attention")
    if attention.kind == "none":
        read = {"last": direction, "both": "bidirectional"}.get(config.decoder.start, config.decoder.start)
        return NoAttention(read, name="attention")
    if (attention.kind, attention.span) == ("additive", "global"):
        return BahdanauAttention(attention.units, states, annotations, name="attention")
    score = _score(attention, states, annotations)
    match attention.span:
        case "local-m":
            return MonotonicLocalAttention(score, annotations, attention.window, name="attention")
        case "local-p":
            return PredictiveLocalAttention(
                score, annotations, attention.window, attention.units, states, name="attention"
            )
        case _:
            return GlobalAttention(score, annotations, name="attention")


def _score(attention: AttentionConfig, states: int, annotations: int) -> Score:
    match attention.kind:
        case "dot":
            return DotScore(name="score")
        case "general":
            return GeneralScore(states, annotations, name="score")
        case "location":
            return LocationScore(attention.max_source_positions, states, name="score")
        case _:
            return AdditiveScore(attention.units, states, annotations, name="score")


def _readout(config: ModelConfig, target_size: int, context_size: int, embedding: keras.layers.Embedding) -> Readout:
    decoder = config.decoder
    tied_to = embedding if decoder.tied else None
    match decoder.readout:
        case "maxout":
            return MaxoutReadout(
                target_size,
                decoder.readout_units,
                decoder.units,
                context_size,
                config.embedding_size,
                config.dropout,
                tied_to,
                name="readout",
            )
        case "linear":
            return LinearReadout(
                target_size, decoder.units, context_size, config.embedding_size, config.dropout, name="readout"
            )
        case "attentional":
            return AttentionalReadout(
                target_size, decoder.readout_units, decoder.units, context_size, config.dropout, tied_to, name="readout"
            )
        case _:
            return StateReadout(target_size, decoder.units, config.dropout, tied_to, name="readout")
