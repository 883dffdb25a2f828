"""Builds the encoder and decoder that a configuration declares.

Each registry maps the values of one configuration field to functions that build layers. To add a layer, write its
class, add its line here, and add its name to the field's ``Literal``; a test compares the two. ``register_score`` adds
a score function from outside the package.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from nmt_keras.config import ModelConfig, require, require_choice
from nmt_keras.config.model import REGISTERED_SCORES
from nmt_keras.layers.attention import Attention, BahdanauAttention, FixedContext, GlobalAttention, NoAttention
from nmt_keras.layers.bridges import Bridge, CopyBridge, DenseBridge, ZeroBridge
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, OutputLayer, StateOutput
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore, ScoreFunction
from nmt_keras.models.decoder import BaseDecoder
from nmt_keras.models.encoder import BaseEncoder, Encoder, SelfAttentionEncoder
from nmt_keras.models.recurrent_decoder import ConditionalDecoder, Decoder, InputFeedingDecoder, LuongDecoder
from nmt_keras.models.self_attention_decoder import SelfAttentionDecoder

T = TypeVar("T")

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a constructor, by name."""


def _find(registry: Mapping[str, T], where: str, kind: str) -> T:
    """Returns the entry called ``kind``. Raises ValueError with the known names if there is none."""
    require_choice(where, tuple(registry), kind)
    return registry[kind]


# Encoders: EncoderConfig.kind


ENCODERS: dict[str, Callable[[ModelConfig, Arguments], BaseEncoder]] = {
    "recurrent": lambda config, common: Encoder(
        cell=config.encoder.cell,
        direction=config.encoder.direction,
        word_projection=config.encoder.word_projection,
        recurrent_dropout_rate=config.recurrent_dropout,
        **common,
    ),
    "self-attention": lambda config, common: SelfAttentionEncoder(heads=config.encoder.heads, **common),
}
"""Encoders, built from the configuration and the arguments common to all."""


def build_encoder(config: ModelConfig, source_vocabulary_size: int) -> BaseEncoder:
    """Returns the encoder that ``config`` declares."""
    common = {
        "vocabulary_size": source_vocabulary_size,
        "embedding_size": config.embedding_size,
        "units": config.encoder.units,
        "layers": config.encoder.layers,
        "dropout_rate": config.dropout,
        "initializer": config.initializer,
        "name": "encoder",
    }
    return _find(ENCODERS, "EncoderConfig.kind", config.encoder.kind)(config, common)


# Attention: AttentionConfig.kind and AttentionConfig.span


def _additive_score(model: ModelConfig) -> ScoreFunction:
    return AdditiveScore(model.attention.units, initializer=model.initializer, name="score")


SCORES: dict[str, Callable[[ModelConfig], ScoreFunction]] = {
    "additive": _additive_score,
    "dot": lambda model: DotScore(name="score"),
    "general": lambda model: GeneralScore(initializer=model.initializer, name="score"),
    "concat": _additive_score,
    "location": lambda model: LocationScore(
        model.attention.max_source_positions, initializer=model.initializer, name="score"
    ),
}
"""Score functions."""


def register_score(name: str, build: Callable[[ModelConfig], ScoreFunction]) -> None:
    """Makes a score function available as ``AttentionConfig.kind``, in Python, recipes and ``nmt train``.

    Register it before the recipe is read, also to resume, evaluate or load a run. An export does not need it.

    Args:
        name: Value of ``AttentionConfig.kind``. An existing score of this name is replaced.
        build: Function that returns the layer. Its argument is the configuration of the model.

    Raises:
        ValueError: ``name`` is a kind without scores, such as "none".
    """
    require(name not in FIXED, "name", f"none of {', '.join(FIXED)}", name)
    SCORES[name] = build
    REGISTERED_SCORES.add(name)


def _global_attention(model: ModelConfig, score: ScoreFunction) -> Attention:
    if type(score) is AdditiveScore:
        return BahdanauAttention(score.units, initializer=score.initializer, name="attention")
    return GlobalAttention(score, name="attention")


def _predictive_attention(model: ModelConfig, score: ScoreFunction) -> Attention:
    return PredictiveLocalAttention(
        score,
        model.attention.window,
        units=model.attention.units,
        position_logit=model.attention.position_logit,
        initializer=model.initializer,
        name="attention",
    )


SPANS: dict[str, Callable[[ModelConfig, ScoreFunction], Attention]] = {
    "global": _global_attention,
    "local-m": lambda model, score: MonotonicLocalAttention(score, model.attention.window, name="attention"),
    "local-p": _predictive_attention,
}
"""Attention layers with a score function."""

FIXED: dict[str, Callable[[ModelConfig], Attention]] = {
    "fixed": lambda config: FixedContext(_directions(config), name="attention"),
    "mean": lambda config: FixedContext("mean", name="attention"),
    "none": lambda config: NoAttention(name="attention"),
}
"""Attention layers without a score function."""


def _directions(config: ModelConfig) -> str:
    """Returns the directions of the encoder: "forward", "backward" or "both"."""
    return "both" if config.encoder.direction == "bidirectional" else config.encoder.direction


def _attention(config: ModelConfig) -> Attention:
    if config.attention.kind in FIXED:
        return FIXED[config.attention.kind](config)
    score = _find(SCORES, "AttentionConfig.kind", config.attention.kind)(config)
    return _find(SPANS, "AttentionConfig.span", config.attention.span)(config, score)


# Initial states: DecoderConfig.initial_state


def _dense_bridge(config: ModelConfig) -> Bridge:
    return DenseBridge(
        config.decoder.units,
        source=config.decoder.initial_state,
        layers=config.decoder.layers,
        initializer=config.initializer,
        name="bridge",
    )


BRIDGES: dict[str, Callable[[ModelConfig], Bridge]] = {
    "backward": _dense_bridge,
    "forward": _dense_bridge,
    "both": _dense_bridge,
    "last": lambda config: CopyBridge(name="bridge"),
    "mean": _dense_bridge,
    "zero": lambda config: ZeroBridge(name="bridge"),
}


# Output layers: DecoderConfig.output


OUTPUT_LAYERS: dict[str, Callable[..., OutputLayer]] = {
    "maxout": lambda config, **common: MaxoutOutput(units=config.output_units, **common),
    "linear": lambda config, **common: LinearOutput(**common),
    "state": lambda config, **common: StateOutput(**common),
    "attentional": lambda config, **common: AttentionalOutput(units=config.output_units, **common),
}
"""Output layers, built from the decoder's configuration and the arguments common to all."""


# Decoders: DecoderConfig.order


def _recurrent_arguments(config: ModelConfig, common: Arguments) -> Arguments:
    decoder = config.decoder
    return {
        "attention": _attention(config),
        "cell": decoder.cell,
        "reads_words": decoder.reads_words,
        "bridge": _find(BRIDGES, "DecoderConfig.initial_state", decoder.initial_state)(config),
        "recurrent_dropout_rate": config.recurrent_dropout,
        **common,
    }


DECODERS: dict[str, Callable[[ModelConfig, Arguments], BaseDecoder]] = {
    "attend-then-update": lambda config, common: Decoder(
        output_state=None if config.decoder.output == "state" else config.decoder.output_state,
        **_recurrent_arguments(config, common),
    ),
    "conditional": lambda config, common: ConditionalDecoder(**_recurrent_arguments(config, common)),
    "update-then-attend": lambda config, common: (
        InputFeedingDecoder if config.decoder.input_feeding else LuongDecoder
    )(**_recurrent_arguments(config, common)),
    "self-attention": lambda config, common: SelfAttentionDecoder(
        heads=config.decoder.heads, max_positions=config.decoder.max_positions, **common
    ),
}
"""Decoders, built from the configuration and the arguments common to all."""


def build_decoder(config: ModelConfig, target_vocabulary_size: int) -> BaseDecoder:
    """Returns the decoder that ``config`` declares."""
    decoder = config.decoder
    output_layer = _find(OUTPUT_LAYERS, "DecoderConfig.output", decoder.output)(
        decoder,
        vocabulary_size=target_vocabulary_size,
        tie_embeddings=decoder.tie_embeddings,
        initializer=config.initializer,
        name="output_layer",
    )
    common = {
        "vocabulary_size": target_vocabulary_size,
        "embedding_size": config.embedding_size,
        "units": decoder.units,
        "layers": decoder.layers,
        "output_layer": output_layer,
        "dropout_rate": config.dropout,
        "output_dropout_rate": config.output_dropout,
        "initializer": config.initializer,
        "name": "decoder",
    }
    return _find(DECODERS, "DecoderConfig.order", decoder.order)(config, common)
