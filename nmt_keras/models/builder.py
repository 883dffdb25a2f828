"""Encoders and decoders as a configuration declares them."""

from __future__ import annotations

import keras

from nmt_keras.config import AttentionConfig, DecoderConfig, ModelConfig
from nmt_keras.layers.attention import Attention, BahdanauAttention, FixedContext, GlobalAttention, NoAttention
from nmt_keras.layers.bridges import Bridge, CopyBridge, DenseBridge, ZeroBridge
from nmt_keras.layers.cells import CELL_CLASSES, TanhCell
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, OutputLayer, StateOutput
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore, ScoreFunction
from nmt_keras.layers.stack import Stack
from nmt_keras.models.decoder import Decoder
from nmt_keras.models.encoder import Encoder, RecurrentEncoder, SelfAttentionEncoder
from nmt_keras.models.recurrent_decoder import BahdanauDecoder, LuongDecoder
from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder


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
        output_layer: OutputLayer = StateOutput(
            target_size,
            decoder.units,
            config.dropout,
            embedding if decoder.tie_embeddings else None,
            name="output_layer",
        )
        return SelfAttentionDecoder(
            target_size,
            embedding,
            decoder.units,
            decoder.heads,
            decoder.layers,
            encoder.annotation_size,
            decoder.max_positions,
            output_layer,
            config.dropout,
            name="decoder",
        )
    attention = _attention(config, encoder)
    parts = {
        "vocabulary_size": target_size,
        "embedding": embedding,
        "stack": _stack(config, encoder, attention.context_size),
        "bridge": _bridge(decoder, encoder),
        "attention": attention,
        "output_layer": _output_layer(config, target_size, attention.context_size, embedding),
        "dropout": config.dropout,
        "name": "decoder",
    }
    if decoder.order == "attend-then-update":
        seen = "current" if decoder.output == "state" else decoder.output_state
        return BahdanauDecoder(output_state=seen, **parts)
    return LuongDecoder(input_feeding=decoder.input_feeding, fused=fused, **parts)


def _stack(config: ModelConfig, encoder: Encoder, context_size: int) -> Stack:
    """The decoder's cells. What the first has as its context is what the order lets it see of the source."""
    decoder = config.decoder
    fed = decoder.output_units if decoder.input_feeding else 0
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


def _bridge(decoder: DecoderConfig, encoder: Encoder) -> Bridge:
    match decoder.initial_state:
        case "zero":
            return ZeroBridge(name="bridge")
        case "last":
            return CopyBridge(name="bridge")
        case "mean":
            width = encoder.annotation_size
        case "both":
            width = 2 * encoder.units
        case _:
            width = encoder.units
    return DenseBridge(decoder.initial_state, width, decoder.units, decoder.layers, name="bridge")


def _attention(config: ModelConfig, encoder: Encoder) -> Attention:
    attention, states, annotations = config.attention, config.decoder.units, encoder.annotation_size
    direction = config.encoder.direction
    if attention.kind == "fixed":
        assert isinstance(encoder, RecurrentEncoder)
        return FixedContext(encoder.summary_size, direction, name="attention")
    if attention.kind == "none":
        read = {"last": direction, "both": "bidirectional"}.get(
            config.decoder.initial_state, config.decoder.initial_state
        )
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


def _score(attention: AttentionConfig, states: int, annotations: int) -> ScoreFunction:
    match attention.kind:
        case "dot":
            return DotScore(name="score")
        case "general":
            return GeneralScore(states, annotations, name="score")
        case "location":
            return LocationScore(attention.max_source_positions, states, name="score")
        case _:
            return AdditiveScore(attention.units, states, annotations, name="score")


def _output_layer(
    config: ModelConfig, target_size: int, context_size: int, embedding: keras.layers.Embedding
) -> OutputLayer:
    decoder = config.decoder
    tied_embedding = embedding if decoder.tie_embeddings else None
    match decoder.output:
        case "maxout":
            return MaxoutOutput(
                target_size,
                decoder.output_units,
                decoder.units,
                context_size,
                config.embedding_size,
                config.dropout,
                tied_embedding,
                name="output_layer",
            )
        case "linear":
            return LinearOutput(
                target_size, decoder.units, context_size, config.embedding_size, config.dropout, name="output_layer"
            )
        case "attentional":
            return AttentionalOutput(
                target_size,
                decoder.output_units,
                decoder.units,
                context_size,
                config.dropout,
                tied_embedding,
                name="output_layer",
            )
        case _:
            return StateOutput(target_size, decoder.units, config.dropout, tied_embedding, name="output_layer")
