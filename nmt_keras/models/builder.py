"""Builds the encoder and decoder that a configuration declares.

Each registry maps the values of one configuration field to functions that build layers. To add a layer to the package,
write its class, add its line here, and add its name to the field's ``Literal``; a test compares the two. ``register``
adds a score, a cell, an output layer or a decoder from outside the package.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras

from nmt_keras.config import ModelConfig, require, require_choice
from nmt_keras.config.model import REGISTERED
from nmt_keras.layers.attention import Attention, BahdanauAttention, FixedContext, GlobalAttention, NoAttention
from nmt_keras.layers.bridges import Bridge, CopyBridge, DenseBridge, ZeroBridge
from nmt_keras.layers.cells import CELLS
from nmt_keras.layers.initializers import SCHEMES
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, OutputLayer, StateOutput
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore, ScoreFunction
from nmt_keras.models.decoder import BaseDecoder
from nmt_keras.models.encoder import BaseEncoder, Encoder, SelfAttentionEncoder
from nmt_keras.models.recurrent_decoder import ConditionalDecoder, Decoder, InputFeedingDecoder, LuongDecoder
from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a constructor, by name. Those that a function of a registry gets include Keras's name and dtype."""


def _initial(config: ModelConfig, *roles: str, **renamed: str) -> Arguments:
    """Returns the arguments for the initial weights of roles; none for roles that keep the layer's default.

    Each has a seed of its own, which follows ``keras.utils.set_random_seed``. The argument of a role is called
    <role>_initializer. ``renamed`` has the roles of other arguments.
    """
    scheme = SCHEMES[config.initializer]
    arguments = {**{f"{role}_initializer": role for role in roles}, **renamed}
    return {name: scheme[role].clone() for name, role in arguments.items() if role in scheme}


# Encoders: EncoderConfig.kind


ENCODERS: dict[str, Callable[..., BaseEncoder]] = {
    "recurrent": lambda config, **common: Encoder(
        cell=config.encoder.cell,
        direction=config.encoder.direction,
        word_projection=config.encoder.word_projection,
        recurrent_dropout=config.recurrent_dropout,
        **_initial(config, "recurrent"),
        **common,
    ),
    "self-attention": lambda config, **common: SelfAttentionEncoder(heads=config.encoder.heads, **common),
}
"""Encoders, built from the configuration and the arguments common to all."""


def build_encoder(
    config: ModelConfig, source_vocabulary_size: int, dtype: str | keras.DTypePolicy | None = None
) -> BaseEncoder:
    """Returns the encoder that ``config`` declares, in the dtype policy ``dtype``."""
    return ENCODERS[config.encoder.kind](
        config,
        vocabulary_size=source_vocabulary_size,
        embedding_size=config.embedding_size,
        units=config.encoder.units,
        num_layers=config.encoder.layers,
        dropout=config.dropout,
        **_initial(config, "embeddings", "kernel", "bias"),
        dtype=dtype,
        name="encoder",
    )


# Attention: AttentionConfig.kind and AttentionConfig.span


def _additive(config: ModelConfig, **common: Any) -> ScoreFunction:
    initial = _initial(config, kernel_initializer="alignment", vector_initializer="score_vector")
    return AdditiveScore(config.attention.units, **initial, **common)


SCORES: dict[str, Callable[..., ScoreFunction]] = {
    "additive": _additive,
    "dot": lambda config, **common: DotScore(**common),
    "general": lambda config, **common: GeneralScore(**_initial(config, "kernel"), **common),
    "concat": _additive,
    "location": lambda config, **common: LocationScore(
        config.attention.max_source_positions, **_initial(config, "kernel"), **common
    ),
}
"""Score functions, built from the configuration."""


def _global(config: ModelConfig, score: ScoreFunction, **common: Any) -> Attention:
    if type(score) is AdditiveScore:
        initial = {name: getattr(score, name) for name in ("kernel_initializer", "vector_initializer")}
        return BahdanauAttention(score.units, **initial, **common)
    return GlobalAttention(score, **common)


SPANS: dict[str, Callable[..., Attention]] = {
    "global": _global,
    "local-m": lambda config, score, **common: MonotonicLocalAttention(score, config.attention.window, **common),
    "local-p": lambda config, score, **common: PredictiveLocalAttention(
        score,
        config.attention.window,
        units=config.attention.units,
        position_logit=config.attention.position_logit,
        **_initial(config, "kernel", vector_initializer="score_vector"),
        **common,
    ),
}
"""Attention layers with a score function."""

FIXED: dict[str, Callable[..., Attention]] = {
    "fixed": lambda config, **common: FixedContext(
        "both" if config.encoder.direction == "bidirectional" else config.encoder.direction, **common
    ),
    "mean": lambda config, **common: FixedContext("mean", **common),
    "none": lambda config, **common: NoAttention(**common),
}
"""Attention layers without a score function."""


def _attention(config: ModelConfig, dtype: str | keras.DTypePolicy | None) -> Attention:
    kind, common = config.attention.kind, {"dtype": dtype, "name": "attention"}
    if kind in FIXED:
        return FIXED[kind](config, **common)
    score = SCORES[kind](config, dtype=dtype, name="score")
    return SPANS[config.attention.span](config, score, **common)


# Initial states: DecoderConfig.initial_state


def _dense(config: ModelConfig, **common: Any) -> Bridge:
    decoder = config.decoder
    initial = _initial(config, "kernel", "bias")
    return DenseBridge(decoder.units, decoder.layers, decoder.initial_state, **initial, **common)


BRIDGES: dict[str, Callable[..., Bridge]] = {
    "backward": _dense,
    "forward": _dense,
    "both": _dense,
    "last": lambda config, **common: CopyBridge(**common),
    "mean": _dense,
    "zero": lambda config, **common: ZeroBridge(config.decoder.units, config.decoder.layers, **common),
}


# Output layers: DecoderConfig.output


OUTPUT_LAYERS: dict[str, Callable[..., OutputLayer]] = {
    "maxout": lambda config, **common: MaxoutOutput(units=config.decoder.output_units, **common),
    "linear": lambda config, **common: LinearOutput(**common),
    "state": lambda config, **common: StateOutput(**common),
    "attentional": lambda config, **common: AttentionalOutput(units=config.decoder.output_units, **common),
}
"""Output layers, built from the configuration and the arguments common to all."""


# Decoders: DecoderConfig.order


def _recurrent(kind: Callable[..., BaseDecoder], config: ModelConfig, **common: Any) -> BaseDecoder:
    decoder, dtype = config.decoder, common["dtype"]
    return kind(
        attention=_attention(config, dtype),
        cell=decoder.cell,
        reads_words=decoder.reads_words,
        bridge=BRIDGES[decoder.initial_state](config, dtype=dtype, name="bridge"),
        output_state=decoder.output_state if kind is Decoder and decoder.output != "state" else None,
        recurrent_dropout=config.recurrent_dropout,
        **_initial(config, "recurrent"),
        **common,
    )


DECODERS: dict[str, Callable[..., BaseDecoder]] = {
    "attend-then-update": lambda config, **common: _recurrent(Decoder, config, **common),
    "conditional": lambda config, **common: _recurrent(ConditionalDecoder, config, **common),
    "update-then-attend": lambda config, **common: _recurrent(
        InputFeedingDecoder if config.decoder.input_feeding else LuongDecoder, config, **common
    ),
    "self-attention": lambda config, **common: SelfAttentionDecoder(
        heads=config.decoder.heads, max_positions=config.decoder.max_positions, **common
    ),
}
"""Decoders, built from the configuration and the arguments common to all."""


def build_decoder(
    config: ModelConfig, target_vocabulary_size: int, dtype: str | keras.DTypePolicy | None = None
) -> BaseDecoder:
    """Returns the decoder that ``config`` declares, in the dtype policy ``dtype``."""
    decoder = config.decoder
    output_layer = OUTPUT_LAYERS[decoder.output](
        config,
        vocabulary_size=target_vocabulary_size,
        tie_embeddings=decoder.tie_embeddings,
        **_initial(config, "kernel", "bias"),
        dtype=dtype,
        name="output_layer",
    )
    return DECODERS[decoder.order](
        config,
        vocabulary_size=target_vocabulary_size,
        embedding_size=config.embedding_size,
        units=decoder.units,
        num_layers=decoder.layers,
        output_layer=output_layer,
        dropout=config.dropout,
        output_dropout=config.output_dropout,
        **_initial(config, "embeddings", "kernel", "bias"),
        dtype=dtype,
        name="decoder",
    )


# Layers from outside the package

REGISTRIES: dict[str, dict[str, Any]] = {
    "score": SCORES,
    "cell": CELLS,
    "output": OUTPUT_LAYERS,
    "decoder": DECODERS,
}
"""Registries by the part of the model."""


def register(part: str, name: str, build: Callable[..., keras.layers.Layer]) -> None:
    """Makes a layer available by name in Python, recipes and commands.

    Register it before the recipe is read, also to resume, evaluate or load a run; commands have the option --import.
    An export does not need it.

    Args:
        part: "score" for ``AttentionConfig.kind``, "cell" for the fields ``cell``, "output" for
            ``DecoderConfig.output``, or "decoder" for ``DecoderConfig.order``.
        name: Value of the field. An existing layer of this name is replaced.
        build: Function that returns the layer. Its argument is the configuration of the model; of a cell, its units.
            Keyword arguments are those that the layers of this part have in common, with Keras's name and dtype.

    Raises:
        ValueError: ``part`` is unknown, or ``name`` is an attention without scores, such as "none".

    Example:
        >>> nmt_keras.register("score", "scaled", lambda config, **common: ScaledScore(**common))
    """
    require_choice("part", tuple(REGISTRIES), part)
    require(part != "score" or name not in FIXED, "name", f"none of {', '.join(FIXED)}", name)
    REGISTRIES[part][name] = build
    REGISTERED[part].add(name)
