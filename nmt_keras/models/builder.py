"""Builds the encoder and decoder that a configuration declares.

Each registry maps the values of one configuration field to functions that build layers. To add a layer, write its
class, add its line here, and add its name to the field's ``Literal``; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras

from nmt_keras.config import AttentionConfig, DecoderConfig, ModelConfig, require_choice
from nmt_keras.layers.attention import Attention, FixedContext, GlobalAttention, NoAttention
from nmt_keras.layers.bridges import Bridge, CopyBridge, DenseBridge, ZeroBridge
from nmt_keras.layers.cells import CELLS, TanhCell
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, OutputLayer, StateOutput
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore, ScoreFunction
from nmt_keras.layers.stack import Stack
from nmt_keras.models.decoder import Decoder
from nmt_keras.models.encoder import Encoder, RecurrentEncoder, SelfAttentionEncoder
from nmt_keras.models.recurrent_decoder import BahdanauDecoder, ConditionalDecoder, InputFeedingDecoder, LuongDecoder
from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder

T = TypeVar("T")


def _find(registry: Mapping[str, T], where: str, kind: str) -> T:
    """Returns the entry called ``kind``. Raises ValueError with the known names if there is none."""
    require_choice(where, tuple(registry), kind)
    return registry[kind]


# Encoders: EncoderConfig.kind


def _recurrent_encoder(config: ModelConfig, source_vocabulary_size: int) -> Encoder:
    encoder = config.encoder
    return RecurrentEncoder(
        vocabulary_size=source_vocabulary_size,
        embedding_size=config.embedding_size,
        units=encoder.units,
        cell=encoder.cell,
        direction=encoder.direction,
        merge=encoder.merge,
        layers=encoder.layers,
        residual=encoder.residual,
        word_view=encoder.word_view,
        dropout_rate=config.dropout,
        recurrent_dropout_rate=config.recurrent_dropout,
        name="encoder",
    )


def _self_attention_encoder(config: ModelConfig, source_vocabulary_size: int) -> Encoder:
    return SelfAttentionEncoder(
        vocabulary_size=source_vocabulary_size,
        embedding_size=config.embedding_size,
        units=config.encoder.units,
        heads=config.encoder.heads,
        layers=config.encoder.layers,
        dropout_rate=config.dropout,
        name="encoder",
    )


ENCODERS: dict[str, Callable[[ModelConfig, int], Encoder]] = {
    "recurrent": _recurrent_encoder,
    "self-attention": _self_attention_encoder,
}


def build_encoder(config: ModelConfig, source_vocabulary_size: int) -> Encoder:
    """Builds the encoder that ``config`` declares."""
    return _find(ENCODERS, "EncoderConfig.kind", config.encoder.kind)(config, source_vocabulary_size)


# Attention: AttentionConfig.kind and AttentionConfig.span

SCORES: dict[str, Callable[[AttentionConfig, int, int], ScoreFunction]] = {
    "additive": lambda config, query, value: AdditiveScore(config.units, query, value, name="score"),
    "dot": lambda config, query, value: DotScore(name="score"),
    "general": lambda config, query, value: GeneralScore(query, value, name="score"),
    "concat": lambda config, query, value: AdditiveScore(config.units, query, value, name="score"),
    "location": lambda config, query, value: LocationScore(config.max_source_positions, query, name="score"),
}
"""Score functions, built from the configuration, the width of the queries, and the width of the annotations."""

SPANS: dict[str, Callable[[AttentionConfig, ScoreFunction, int, int], Attention]] = {
    "global": lambda config, score, query, value: GlobalAttention(score, value, name="attention"),
    "local-m": lambda config, score, query, value: MonotonicLocalAttention(
        score, value, config.window, name="attention"
    ),
    "local-p": lambda config, score, query, value: PredictiveLocalAttention(
        score,
        value,
        config.window,
        units=config.units,
        query_size=query,
        position_logit=config.position_logit,
        name="attention",
    ),
}
"""Attention layers with a score function, built from the configuration, the score function, and the two widths."""


def _fixed_context(config: ModelConfig, encoder: Encoder) -> Attention:
    assert isinstance(encoder, RecurrentEncoder)
    return FixedContext(encoder.summary_size, encoder.direction, name="attention")


def _mean_context(config: ModelConfig, encoder: Encoder) -> Attention:
    return FixedContext(encoder.annotation_size, "mean", name="attention")


def _no_attention(config: ModelConfig, encoder: Encoder) -> Attention:
    initial_state, direction = config.decoder.initial_state, config.encoder.direction
    return NoAttention({"last": direction, "both": "bidirectional"}.get(initial_state, initial_state), name="attention")


UNSCORED: dict[str, Callable[[ModelConfig, Encoder], Attention]] = {
    "fixed": _fixed_context,
    "mean": _mean_context,
    "none": _no_attention,
}
"""Attention layers without a score function."""


def _attention(config: ModelConfig, encoder: Encoder) -> Attention:
    attention, query, value = config.attention, config.decoder.units, encoder.annotation_size
    if attention.kind in UNSCORED:
        return UNSCORED[attention.kind](config, encoder)
    score = _find(SCORES, "AttentionConfig.kind", attention.kind)(attention, query, value)
    return _find(SPANS, "AttentionConfig.span", attention.span)(attention, score, query, value)


# Initial states: DecoderConfig.initial_state


def _dense_bridge(config: DecoderConfig, input_size: int) -> Bridge:
    return DenseBridge(
        source=config.initial_state,
        input_size=input_size,
        units=config.units,
        layers=config.layers,
        name="bridge",
    )


BRIDGES: dict[str, Callable[[DecoderConfig, Encoder], Bridge]] = {
    "backward": lambda config, encoder: _dense_bridge(config, encoder.units),
    "forward": lambda config, encoder: _dense_bridge(config, encoder.units),
    "both": lambda config, encoder: _dense_bridge(config, 2 * encoder.units),
    "last": lambda config, encoder: CopyBridge(name="bridge"),
    "mean": lambda config, encoder: _dense_bridge(config, encoder.annotation_size),
    "zero": lambda config, encoder: ZeroBridge(name="bridge"),
}


# Output layers: DecoderConfig.output


OUTPUT_LAYERS: dict[str, Callable[[ModelConfig, dict[str, Any], int], OutputLayer]] = {
    "maxout": lambda config, common, context_size: MaxoutOutput(
        units=config.decoder.output_units, context_size=context_size, embedding_size=config.embedding_size, **common
    ),
    "linear": lambda config, common, context_size: LinearOutput(
        context_size=context_size, embedding_size=config.embedding_size, **common
    ),
    "state": lambda config, common, context_size: StateOutput(**common),
    "attentional": lambda config, common, context_size: AttentionalOutput(
        units=config.decoder.output_units, context_size=context_size, **common
    ),
}
"""Output layers, built from the configuration, the arguments common to all, and the width of the contexts."""


def _output_layer(config: ModelConfig, target_vocabulary_size: int, context_size: int) -> OutputLayer:
    build = _find(OUTPUT_LAYERS, "DecoderConfig.output", config.decoder.output)
    common = {"vocabulary_size": target_vocabulary_size, "state_size": config.decoder.units, "name": "output_layer"}
    if config.decoder.tie_embeddings:
        common["tie_embeddings"] = True
    return build(config, common, context_size)


# Decoders: DecoderConfig.order


def _stack(config: ModelConfig, encoder: Encoder, context_size: int) -> Stack:
    """Builds the decoder's cells. The first cell's context is c_i or, with input feeding, h~_{t-1}."""
    decoder = config.decoder
    fed_size = decoder.output_units if decoder.input_feeding else 0
    context_size = fed_size if decoder.order == "update-then-attend" else context_size
    input_size = config.embedding_size if decoder.reads_words and decoder.order != "conditional" else 0
    if decoder.shares_recurrence:
        assert isinstance(encoder, RecurrentEncoder)
        (shared,) = encoder.forward_cells + encoder.backward_cells
        cells = [TanhCell(decoder.units, input_size, context_size, recurrence_of=shared, name="cell_0")]
    else:
        cell = _find(CELLS, "DecoderConfig.cell", decoder.cell)
        cells = [cell(decoder.units, input_size, context_size, name="cell_0")]
        cells += [cell(decoder.units, decoder.units, name=f"cell_{i}") for i in range(1, decoder.layers)]
    return Stack(cells, residual=decoder.residual, name="stack")


def _recurrent_arguments(config: ModelConfig, target_vocabulary_size: int, encoder: Encoder) -> dict[str, Any]:
    """Returns the arguments common to all recurrent decoders."""
    embedding = keras.layers.Embedding(target_vocabulary_size, config.embedding_size, name="embedding")
    attention = _attention(config, encoder)
    bridge = _find(BRIDGES, "DecoderConfig.initial_state", config.decoder.initial_state)
    return {
        "embedding": embedding,
        "stack": _stack(config, encoder, attention.context_size),
        "bridge": bridge(config.decoder, encoder),
        "attention": attention,
        "output_layer": _output_layer(config, target_vocabulary_size, attention.context_size),
        "dropout_rate": config.dropout,
        "output_dropout_rate": config.output_dropout,
        "recurrent_dropout_rate": config.recurrent_dropout,
        "name": "decoder",
    }


def _bahdanau_decoder(config: ModelConfig, target_vocabulary_size: int, encoder: Encoder) -> Decoder:
    output_state = "current" if config.decoder.output == "state" else config.decoder.output_state
    return BahdanauDecoder(output_state=output_state, **_recurrent_arguments(config, target_vocabulary_size, encoder))


def _conditional_decoder(config: ModelConfig, target_vocabulary_size: int, encoder: Encoder) -> Decoder:
    decoder = config.decoder
    cell = _find(CELLS, "DecoderConfig.cell", decoder.cell)
    word_cell = cell(decoder.units, config.embedding_size if decoder.reads_words else 0, name="word_cell")
    return ConditionalDecoder(word_cell=word_cell, **_recurrent_arguments(config, target_vocabulary_size, encoder))


def _luong_decoder(config: ModelConfig, target_vocabulary_size: int, encoder: Encoder) -> Decoder:
    decoder_class = InputFeedingDecoder if config.decoder.input_feeding else LuongDecoder
    return decoder_class(**_recurrent_arguments(config, target_vocabulary_size, encoder))


def _self_attention_decoder(config: ModelConfig, target_vocabulary_size: int, encoder: Encoder) -> Decoder:
    embedding = keras.layers.Embedding(target_vocabulary_size, config.embedding_size, name="embedding")
    return SelfAttentionDecoder(
        embedding=embedding,
        units=config.decoder.units,
        heads=config.decoder.heads,
        layers=config.decoder.layers,
        annotation_size=encoder.annotation_size,
        max_positions=config.decoder.max_positions,
        output_layer=_output_layer(config, target_vocabulary_size, 0),
        dropout_rate=config.dropout,
        output_dropout_rate=config.output_dropout,
        name="decoder",
    )


DECODERS: dict[str, Callable[[ModelConfig, int, Encoder], Decoder]] = {
    "attend-then-update": _bahdanau_decoder,
    "conditional": _conditional_decoder,
    "update-then-attend": _luong_decoder,
    "self-attention": _self_attention_decoder,
}


def build_decoder(config: ModelConfig, target_vocabulary_size: int, encoder: Encoder) -> Decoder:
    """Builds the decoder that ``config`` declares, for the annotations of ``encoder``."""
    return _find(DECODERS, "DecoderConfig.order", config.decoder.order)(config, target_vocabulary_size, encoder)
