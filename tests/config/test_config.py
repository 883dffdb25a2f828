"""Configurations refuse what cannot be meant, say so in one form, and survive JSON."""

import dataclasses
import json
import re

import pytest

from nmt_keras.config import (
    AttentionConfig,
    CorpusConfig,
    DecoderConfig,
    EncoderConfig,
    FilterConfig,
    ModelConfig,
    Recipe,
    RunOptions,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
)
from nmt_keras.recipes import RECIPES, find_recipe

WRONG = [
    (
        TokenizerConfig,
        {"kind": "letters"},
        "TokenizerConfig.kind: expected one of word, subword, character; received 'letters'",
    ),
    (TokenizerConfig, {"kind": "subwords"}, "Did you mean 'subword'?"),
    (
        TokenizerConfig,
        {"vocabulary_size": 4},
        "TokenizerConfig.vocabulary_size: expected more than the 4 special entries, rec",
    ),
    (TokenizerConfig, {"max_tokens": 1}, "TokenizerConfig.max_tokens: expected at least 2"),
    (TokenizerConfig, {"kind": "subword", "lowercase": True}, "TokenizerConfig.lowercase: expected False"),
    (TokenizerConfig, {"kind": "subword", "strip_accents": True}, "TokenizerConfig.strip_accents: expected False"),
    (
        EncoderConfig,
        {"kind": "self-atention"},
        "EncoderConfig.kind: expected one of recurrent, self-attention; received",
    ),
    (EncoderConfig, {"kind": "self-atention"}, "Did you mean 'self-attention'?"),
    (EncoderConfig, {"cell": "LSTM"}, "EncoderConfig.cell: expected one of tanh, gru, gru-reset-after, lstm; received"),
    (EncoderConfig, {"direction": "forwards"}, "Did you mean 'forward'?"),
    (EncoderConfig, {"merge": "add"}, "EncoderConfig.merge: expected one of concatenate, sum; received 'add'"),
    (EncoderConfig, {"units": -1}, "EncoderConfig.units: expected a whole number of at least 1, received -1."),
    (EncoderConfig, {"units": 2.5}, "EncoderConfig.units: expected a whole number of at least 1, received 2.5."),
    (EncoderConfig, {"units": True}, "EncoderConfig.units: expected a whole number of at least 1, received True."),
    (EncoderConfig, {"layers": 0}, "EncoderConfig.layers"),
    (EncoderConfig, {"heads": 0}, "EncoderConfig.heads"),
    (
        EncoderConfig,
        {"kind": "self-attention", "units": 27, "heads": 3},
        "EncoderConfig.units: expected a multiple of twice EncoderConfig.heads (6), such as 24, received 27.",
    ),
    (
        EncoderConfig,
        {"kind": "self-attention", "units": 1, "heads": 3},
        "EncoderConfig.units: expected a multiple of twice EncoderConfig.heads (6), such as 6, received 1.",
    ),
    (
        EncoderConfig,
        {"kind": "self-attention", "word_view": True},
        "EncoderConfig.word_view: expected False in a self-attention encoder, received True.",
    ),
    (
        AttentionConfig,
        {"kind": "bahdanau"},
        "AttentionConfig.kind: expected one of additive, dot, general, concat, loc",
    ),
    (AttentionConfig, {"kind": "generall"}, "Did you mean 'general'?"),
    (
        AttentionConfig,
        {"span": "local"},
        "AttentionConfig.span: expected one of global, local-m, local-p; received 'lo",
    ),
    (AttentionConfig, {"units": 0}, "AttentionConfig.units: expected a whole number of at least 1, received 0."),
    (AttentionConfig, {"window": 0}, "AttentionConfig.window"),
    (AttentionConfig, {"max_source_positions": 0}, "AttentionConfig.max_source_positions"),
    *(
        (
            AttentionConfig,
            {"kind": kind, "span": "local-p"},
            f"AttentionConfig.span: expected 'global' with AttentionConfig.kind {kind!r}; local spans go with "
            "additive, dot, general, concat, received 'local-p'.",
        )
        for kind in ("location", "fixed", "none")
    ),
    (DecoderConfig, {"order": "luong"}, "DecoderConfig.order: expected one of attend-then-update, update-then-attend,"),
    (DecoderConfig, {"cell": "gru-reset-before"}, "Did you mean 'gru-reset-after'?"),
    (DecoderConfig, {"initial_state": "lastt"}, "Did you mean 'last'?"),
    (
        DecoderConfig,
        {"output": "softmax"},
        "DecoderConfig.output: expected one of maxout, linear, state, attentional;",
    ),
    (DecoderConfig, {"output_state": "next"}, "DecoderConfig.output_state: expected one of previous, current"),
    (DecoderConfig, {"units": 0}, "DecoderConfig.units"),
    (DecoderConfig, {"layers": 0}, "DecoderConfig.layers"),
    (DecoderConfig, {"output_units": 0}, "DecoderConfig.output_units"),
    (DecoderConfig, {"heads": 0}, "DecoderConfig.heads"),
    (DecoderConfig, {"max_positions": 0}, "DecoderConfig.max_positions"),
    (
        DecoderConfig,
        {"input_feeding": True},
        "DecoderConfig.input_feeding: expected False unless DecoderConfig.order is 'update-then-attend', rec",
    ),
    (
        DecoderConfig,
        {"order": "update-then-attend", "output": "state", "input_feeding": True},
        "DecoderConfig.input_feeding: expected False unless DecoderConfig.output is 'attentional'",
    ),
    (
        DecoderConfig,
        {"output": "attentional"},
        "DecoderConfig.output: expected one of maxout, linear, state with DecoderConfig.order 'attend-then-update'",
    ),
    (
        DecoderConfig,
        {"order": "update-then-attend"},
        "DecoderConfig.output: expected one of attentional, state, linear with DecoderConfig.order 'update-then",
    ),
    (
        DecoderConfig,
        {"order": "self-attention", "output": "linear"},
        "DecoderConfig.output: expected one of state with DecoderConfig.order 'self-attention', received 'linear'.",
    ),
    (
        DecoderConfig,
        {"order": "update-then-attend", "output": "linear"},
        "DecoderConfig.output_state: expected 'current' with DecoderConfig.order 'update-then-attend', rec",
    ),
    (
        DecoderConfig,
        {"order": "self-attention", "output": "state", "units": 100, "heads": 8},
        "DecoderConfig.units: expected a multiple of twice DecoderConfig.heads (16), such as 96, received 100.",
    ),
    (
        DecoderConfig,
        {"order": "self-attention", "output": "state", "reads_words": False},
        "DecoderConfig.reads_words: expected True with DecoderConfig.order 'self-attention'",
    ),
    (
        DecoderConfig,
        {"order": "self-attention", "output": "state", "shares_recurrence": True},
        "DecoderConfig.shares_recurrence: expected False with DecoderConfig.order 'self-attention'",
    ),
    (
        ModelConfig,
        {"embedding_size": 0},
        "ModelConfig.embedding_size: expected a whole number of at least 1, received 0.",
    ),
    (ModelConfig, {"dropout": 1.0}, "ModelConfig.dropout: expected a probability in [0, 1), received 1.0."),
    (ModelConfig, {"recurrent_dropout": -0.1}, "ModelConfig.recurrent_dropout: expected a probability in [0, 1), rec"),
    (ModelConfig, {"initializer": "xavier"}, "ModelConfig.initializer: expected one of glorot, bahdanau, uniform; rec"),
    *(
        (
            TrainConfig,
            fields,
            "TrainConfig.steps, TrainConfig.epochs, TrainConfig.minutes: expected exactly one of them, received",
        )
        for fields in ({"steps": 5}, {"epochs": 5.0}, {"minutes": None}, {"steps": 5, "epochs": 5.0, "minutes": None})
    ),
    (TrainConfig, {"epochs": 0.0, "minutes": None}, "TrainConfig.epochs: expected a positive number"),
    (TrainConfig, {"minutes": 0.0}, "TrainConfig.minutes: expected a positive number"),
    (TrainConfig, {"batch_size": 0}, "TrainConfig.batch_size"),
    (TrainConfig, {"length_buckets": 0}, "TrainConfig.length_buckets"),
    (TrainConfig, {"pool_size": 0}, "TrainConfig.pool_size"),
    (TrainConfig, {"learning_rate": 0.0}, "TrainConfig.learning_rate"),
    (TrainConfig, {"clip_norm": -1.0}, "TrainConfig.clip_norm"),
    (TrainConfig, {"validations": 0}, "TrainConfig.validations"),
    (TrainConfig, {"patience": 0}, "TrainConfig.patience: expected at least 1"),
    (TrainConfig, {"log_every": 0}, "TrainConfig.log_every"),
    (TrainConfig, {"validation_sentences": 0}, "TrainConfig.validation_sentences"),
    (TrainConfig, {"max_tokens": 1}, "TrainConfig.max_tokens"),
    (TrainConfig, {"warmup_steps": -1}, "TrainConfig.warmup_steps"),
    (TrainConfig, {"beta_2": 1.0}, "TrainConfig.beta_2"),
    (TrainConfig, {"rho": 1.0}, "TrainConfig.rho: expected a decay in [0, 1), received 1.0."),
    (TrainConfig, {"epsilon": 0.0}, "TrainConfig.epsilon: expected a positive number, received 0.0."),
    (TrainConfig, {"halve_from": 1.5}, "TrainConfig.halve_from: expected a share in [0, 1], received 1.5."),
    (TrainConfig, {"halve_every": 0.0}, "TrainConfig.halve_every: expected a positive number, received 0.0."),
    (TrainConfig, {"checkpoint_every": 0}, "TrainConfig.checkpoint_every: expected at least 1, received 0."),
    (TrainConfig, {"sampling_from": 1.1}, "TrainConfig.sampling_from: expected a probability in [0, 1], received 1.1."),
    (TrainConfig, {"sampling_to": -0.1}, "TrainConfig.sampling_to"),
    (
        TrainConfig,
        {"optimizer": "adamm"},
        "TrainConfig.optimizer: expected one of adam, adamw, adadelta, sgd; received 'adamm'",
    ),
    (TrainConfig, {"label_smoothing": -0.1}, "TrainConfig.label_smoothing"),
    (TrainConfig, {"batch_tokens": 39}, "TrainConfig.batch_tokens: expected None, or room for one sentence"),
    (TrainConfig, {"gradient_accumulation_steps": 0}, "TrainConfig.gradient_accumulation_steps"),
    (TrainConfig, {"ema_decay": 1.0}, "TrainConfig.ema_decay: expected None, or a decay in (0, 1), received 1.0."),
    (TrainConfig, {"weight_decay": -0.1}, "TrainConfig.weight_decay"),
    (TrainConfig, {"plateau_factor": 1.0}, "TrainConfig.plateau_factor"),
    (TrainConfig, {"precision": "half"}, "TrainConfig.precision: expected one of float32, bfloat16, float16"),
    (TrainConfig, {"max_to_keep": 0}, "TrainConfig.max_to_keep: expected at least 1"),
    (TrainConfig, {"max_skipped": 0}, "TrainConfig.max_skipped: expected at least 1"),
    (FilterConfig, {"max_tokens": 1}, "FilterConfig.max_tokens"),
    (FilterConfig, {"max_ratio": 0.5}, "FilterConfig.max_ratio: expected None, or at least 1, received 0.5."),
    (RunOptions, {"profile": -1}, "RunOptions.profile"),
    (TrainConfig, {"decay": "cosines"}, "Did you mean 'cosine'?"),
    (TrainConfig, {"denominator": "batches"}, "TrainConfig.denominator: expected one of tokens, sentences"),
    (CorpusConfig, {"first": 0}, "CorpusConfig.first: expected a whole number of at least 1, received 0."),
    (CorpusConfig, {"split": "hashed-group"}, "Did you mean 'hashed-groups'?"),
    (CorpusConfig, {"seed": -1}, "CorpusConfig.seed: expected 0 or more, received -1."),
    (TrainConfig, {"seed": -1}, "TrainConfig.seed: expected 0 or more, received -1"),
    (SearchConfig, {"max_tokens": 0}, "SearchConfig.max_tokens"),
    (SearchConfig, {"temperature": -1.0}, "SearchConfig.temperature: expected 0 or more, received -1.0."),
    (SearchConfig, {"beam_size": 0}, "SearchConfig.beam_size: expected at least 1, received 0."),
    (
        SearchConfig,
        {"beam_size": 5, "n_best": 6},
        "SearchConfig.n_best: expected None, or 1 to beam_size (5), received 6",
    ),
    (SearchConfig, {"n_best": 0}, "SearchConfig.n_best"),
    (SearchConfig, {"length_normalisation": "gmnt"}, "Did you mean 'gnmt'?"),
    (SearchConfig, {"precision": "float16"}, "SearchConfig.precision: expected one of float32, bfloat16"),
    (SearchConfig, {"length_alpha": -0.1}, "SearchConfig.length_alpha: expected 0 or more"),
    (SearchConfig, {"coverage_beta": -0.1}, "SearchConfig.coverage_beta: expected 0 or more"),
    (SearchConfig, {"min_tokens": 0}, "SearchConfig.min_tokens: expected at least 1"),
    (SearchConfig, {"min_tokens": 9, "max_tokens": 8}, "SearchConfig.min_tokens: expected max_tokens (8) at the most"),
    (
        SearchConfig,
        {"temperature": 1e-9},
        "SearchConfig.temperature: expected 0, which draws nothing, or at least 0.00",
    ),
    (SearchConfig, {"temperature": 1.0, "beam_size": 5}, "SearchConfig.beam_size: expected 1 where temperature draws"),
    (SearchConfig, {"temperature": 1.0, "top_k": 0}, "SearchConfig.top_k: expected None, or a positive number"),
    (SearchConfig, {"temperature": 1.0, "top_p": 0.0}, "SearchConfig.top_p: expected a probability in (0, 1]"),
    (SearchConfig, {"top_k": 5}, "SearchConfig.top_k, SearchConfig.top_p: expected None and 1.0 where temperature 0"),
    (SearchConfig, {"top_p": 0.9}, "SearchConfig.top_k, SearchConfig.top_p: expected None and 1.0 where temperature 0"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), WRONG)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(kind, fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kind(**fields)


# Parts that do not fit each other

LUONG = {"order": "update-then-attend", "output": "attentional"}
ATTENTIVE = {"order": "self-attention", "output": "state"}
ONE_WAY_TANH = {"encoder": {"cell": "tanh", "direction": "forward", "units": 8}, "attention": {"kind": "none"}}
LECTURE = {"cell": "tanh", "units": 8, "initial_state": "last", "output": "state", "shares_recurrence": True}


def composed(embedding_size=256, encoder=None, attention=None, decoder=None):
    return ModelConfig(
        embedding_size,
        EncoderConfig(**encoder or {}),
        AttentionConfig(**attention or {}),
        DecoderConfig(**decoder or {}),
    )


UNFIT = {
    "a start that the encoder lacks": (
        {"encoder": {"direction": "forward"}},
        "DecoderConfig.initial_state: expected one of forward, last, mean, zero, which this encoder",
    ),
    "a forward start of a backward encoder": (
        {"encoder": {"direction": "backward"}, "decoder": {"initial_state": "forward"}},
        "DecoderConfig.initial_state: expected one of backward, last, mean, zero, which this encoder",
    ),
    "the last state of two directions": (
        {"decoder": {"initial_state": "last"}},
        "DecoderConfig.initial_state: expected one of backward, forward, both, mean, zero",
    ),
    "the last state of a self-attention encoder": (
        {"encoder": {"kind": "self-attention"}, "decoder": {"initial_state": "last"}},
        "DecoderConfig.initial_state: expected one of mean, zero, which this encoder",
    ),
    "last states of another width": (
        {"encoder": {"direction": "forward", "units": 8}, "decoder": {"initial_state": "last", "units": 9}},
        "DecoderConfig.cell, DecoderConfig.units, DecoderConfig.layers: expected the encoder's, ('gru', 8, 1), with "
        "DecoderConfig.initial_state 'last', received ('gru', 9, 1).",
    ),
    "last states of fewer layers": (
        {
            "encoder": {"direction": "forward", "units": 8},
            "decoder": {"initial_state": "last", "units": 8, "layers": 2},
        },
        "expected the encoder's, ('gru', 8, 1), with DecoderConfig.initial_state 'last', received ('gru', 8, 2).",
    ),
    "last states of another cell": (
        {
            "encoder": {"direction": "forward", "units": 8},
            "decoder": {"initial_state": "last", "units": 8, "cell": "lstm"},
        },
        "expected the encoder's, ('gru', 8, 1), with DecoderConfig.initial_state 'last', received ('lstm', 8, 1).",
    ),
    "dot products of different widths": (
        {"encoder": {"units": 8}, "attention": {"kind": "dot"}, "decoder": {"units": 8}},
        "DecoderConfig.units: expected the annotations' width, 16, with AttentionConfig.kind 'dot' ('general' takes "
        "any), received 8.",
    ),
    "self-attention that scores otherwise": (
        {"decoder": ATTENTIVE},
        "AttentionConfig.kind, AttentionConfig.span: expected 'dot' and 'global' with DecoderConfig.order "
        "'self-attention', whose heads attend by scaled dot products, received ('additive', 'global').",
    ),
    "self-attention over a window": (
        {"attention": {"kind": "dot", "span": "local-m"}, "decoder": ATTENTIVE},
        "AttentionConfig.kind, AttentionConfig.span: expected 'dot' and 'global' with DecoderConfig.order 'self-att",
    ),
    "a fixed context of a self-attention encoder": (
        {"encoder": {"kind": "self-attention"}, "attention": {"kind": "fixed"}, "decoder": {"initial_state": "mean"}},
        "AttentionConfig.kind: expected a score with a self-attention encoder, which has no last state, "
        "received 'fixed'.",
    ),
    "no attention to a self-attention encoder": (
        {
            "encoder": {"kind": "self-attention"},
            "attention": {"kind": "none"},
            "decoder": {"initial_state": "mean", "output": "state"},
        },
        "AttentionConfig.kind: expected a score with a self-attention encoder, which has no last state, "
        "received 'none'.",
    ),
    "a readout of a context that is not there": (
        {"attention": {"kind": "none"}},
        "DecoderConfig.output: expected 'state' with AttentionConfig.kind 'none': there is no context to read, "
        "received 'maxout'.",
    ),
    "no attention and no start": (
        {"attention": {"kind": "none"}, "decoder": {"initial_state": "zero", "output": "state"}},
        "DecoderConfig.initial_state: expected another with AttentionConfig.kind 'none'",
    ),
    "a context that nothing reads": (
        {"decoder": {**LUONG, "output": "state"}},
        "DecoderConfig.output: expected 'attentional' or 'linear' with DecoderConfig.order 'update-then-attend', "
        "unless AttentionConfig.kind is 'none': else nothing would read the context, received 'state'.",
    ),
    "a tied linear readout": (
        {"decoder": {"output": "linear", "tie_embeddings": True}},
        "DecoderConfig.output: expected 'maxout', 'state' or 'attentional' with DecoderConfig.tie_embeddings",
    ),
    "a tied maxout readout of another width": (
        {"decoder": {"output_units": 255, "tie_embeddings": True}},
        "DecoderConfig.output_units: expected ModelConfig.embedding_size, 256, with DecoderConfig.tie_embeddings",
    ),
    "a tied state of another width": (
        {"decoder": {"units": 512, "output": "state", "tie_embeddings": True}},
        "DecoderConfig.units: expected ModelConfig.embedding_size, 256, with DecoderConfig.tie_embeddings",
    ),
    "a shared matrix of gates": (
        {
            "encoder": {"direction": "forward", "units": 8},
            "decoder": {"initial_state": "last", "units": 8, "shares_recurrence": True},
        },
        "DecoderConfig.shares_recurrence: expected False unless encoder and decoder are one tanh layer of one "
        "direction and equal units, received (('recurrent', 'gru', 'forward', 1, 8), ('gru', 1, 8)).",
    ),
    "a shared matrix of two directions": (
        {
            "encoder": {"cell": "tanh", "units": 8},
            "attention": {"kind": "none"},
            "decoder": {**LECTURE, "initial_state": "both"},
        },
        "received (('recurrent', 'tanh', 'bidirectional', 1, 8), ('tanh', 1, 8)).",
    ),
    "a shared matrix of two layers": (
        {
            "encoder": {"cell": "tanh", "direction": "forward", "units": 8, "layers": 2},
            "attention": {"kind": "none"},
            "decoder": {**LECTURE, "layers": 2},
        },
        "received (('recurrent', 'tanh', 'forward', 2, 8), ('tanh', 2, 8)).",
    ),
    "a shared matrix of two widths": (
        {**ONE_WAY_TANH, "decoder": {**LECTURE, "units": 9, "initial_state": "forward"}},
        "received (('recurrent', 'tanh', 'forward', 1, 8), ('tanh', 1, 9)).",
    ),
}


@pytest.mark.parametrize(("parts", "message"), UNFIT.values(), ids=UNFIT.keys())
def test_parts_that_do_not_fit_are_refused_with_what_would(parts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        composed(**parts)


FIT = {
    "rnnsearch": {},
    "rnnencdec": {
        "encoder": {"direction": "forward"},
        "attention": {"kind": "fixed"},
        "decoder": {"initial_state": "forward"},
    },
    "a start from both directions": {
        "decoder": {"initial_state": "both", "output": "linear", "output_state": "current"}
    },
    "luong": {
        "encoder": {"cell": "lstm", "direction": "backward", "units": 50, "layers": 4},
        "attention": {"kind": "dot", "span": "local-p"},
        "decoder": {**LUONG, "cell": "lstm", "units": 50, "layers": 4, "initial_state": "last", "input_feeding": True},
    },
    "dot scores over two directions": {
        "encoder": {"units": 25},
        "attention": {"kind": "dot"},
        "decoder": {**LUONG, "units": 50},
    },
    "dot scores over a sum of them": {
        "encoder": {"units": 25, "merge": "sum"},
        "attention": {"kind": "dot"},
        "decoder": {**LUONG, "units": 25},
    },
    "the tutorial": {
        "encoder": {"direction": "forward", "units": 50},
        "decoder": {"units": 50, "initial_state": "last", "output": "state"},
    },
    "the lecture": {**ONE_WAY_TANH, "decoder": {**LECTURE, "reads_words": False}},
    "no attention in luong's order": {
        "encoder": {"direction": "forward", "units": 50},
        "attention": {"kind": "none"},
        "decoder": {**LUONG, "units": 50, "initial_state": "last", "output": "state"},
    },
    "tied to maxout units": {"embedding_size": 30, "decoder": {"output_units": 30, "tie_embeddings": True}},
    "tied to dot-scored states": {
        "embedding_size": 50,
        "encoder": {"units": 25},
        "attention": {"kind": "dot"},
        "decoder": {"units": 50, "output": "state", "tie_embeddings": True},
    },
    "self-attention on both sides": {
        "embedding_size": 40,
        "encoder": {"kind": "self-attention", "units": 24, "heads": 3},
        "attention": {"kind": "dot"},
        "decoder": {**ATTENTIVE, "units": 40, "heads": 4, "tie_embeddings": True},
    },
    "self-attention into a recurrent decoder": {
        "encoder": {"kind": "self-attention", "units": 24, "heads": 3},
        "attention": {"kind": "dot"},
        "decoder": {**LUONG, "units": 24, "initial_state": "mean"},
    },
    "a recurrent encoder into self-attention": {
        "encoder": {"units": 7},
        "attention": {"kind": "dot"},
        "decoder": {**ATTENTIVE, "units": 40, "heads": 4},
    },
}
each_fit = pytest.mark.parametrize("parts", FIT.values(), ids=FIT.keys())


@each_fit
def test_a_model_scaled_by_1_is_the_same_and_every_other_scale_fits_too(parts):
    config = composed(**parts)
    assert config.scaled(1.0) == config
    for percent in range(1, 300, 7):  # each construction checks that the parts fit
        scaled = config.scaled(percent / 100.0)
        kept = dataclasses.replace(
            scaled,
            embedding_size=config.embedding_size,
            encoder=dataclasses.replace(scaled.encoder, units=config.encoder.units),
            attention=dataclasses.replace(scaled.attention, units=config.attention.units),
            decoder=dataclasses.replace(
                scaled.decoder, units=config.decoder.units, output_units=config.decoder.output_units
            ),
        )
        assert kept == config, "nothing but widths changes"


def test_scaling_multiplies_every_width():
    config = ModelConfig(
        100, EncoderConfig(units=50), AttentionConfig(units=70), DecoderConfig(units=120, output_units=40)
    )
    wanted = ModelConfig(
        25, EncoderConfig(units=12), AttentionConfig(units=18), DecoderConfig(units=30, output_units=10)
    )
    assert config.scaled(0.25) == wanted  # of 12.5 and 17.5 the even neighbours
    smallest = config.scaled(1e-6)
    assert smallest.embedding_size == smallest.encoder.units == smallest.decoder.units == 1


def test_scaling_rounds_to_what_heads_divide():
    config = composed(**FIT["self-attention on both sides"]).scaled(0.8)
    assert (config.encoder.units, config.decoder.units, config.embedding_size) == (18, 32, 32)


def test_dot_scores_and_tied_embeddings_keep_their_widths_together():
    both = composed(**FIT["dot scores over two directions"]).scaled(0.3)
    assert both.decoder.units == both.encoder.annotation_size == 16  # 2 · round(7.5)
    tied = composed(**FIT["tied to dot-scored states"]).scaled(0.3)
    assert tied.embedding_size == tied.decoder.units == tied.encoder.annotation_size == 16


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_every_recipe_can_be_scaled_and_its_name_says_so(recipe):
    for width in (0.1, 0.25, 0.5):
        scaled = recipe.scaled(width)
        assert scaled.name == f"{recipe.name}-x{width}"
        assert dataclasses.replace(scaled, name=recipe.name, model=recipe.model) == recipe
        assert scaled.model == recipe.model.scaled(width)


@pytest.mark.parametrize("width", [0.0, -1.0])
def test_a_scale_is_positive(width):
    with pytest.raises(ValueError, match=re.escape(f"width: expected a positive number, received {width}.")):
        ModelConfig().scaled(width)


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"units": 7}, 14),
        ({"units": 7, "merge": "sum"}, 7),
        ({"units": 7, "direction": "forward"}, 7),
        ({"units": 7, "direction": "backward"}, 7),
        ({"units": 8, "kind": "self-attention"}, 8),
    ],
)
def test_annotations_are_as_wide_as_the_states_side_by_side(fields, size):
    assert EncoderConfig(**fields).annotation_size == size


# Records


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().dropout = 0.5


def test_a_recipe_survives_json():
    recipe = Recipe(
        "ñandú",
        source=TokenizerConfig(kind="word", strip_accents=True),
        model=ModelConfig(
            300,
            EncoderConfig(cell="lstm", merge="sum", units=7),
            AttentionConfig("general", "local-p", window=3),
            DecoderConfig("update-then-attend", output="attentional", input_feeding=True),
            recurrent_dropout=0.25,
            initializer="uniform",
        ),
        train=TrainConfig(steps=7, minutes=None),
        search=SearchConfig(temperature=0.5),
    )
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert "ñandú" in recipe.to_json()


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (SearchConfig(), "greedy"),
        (SearchConfig(beam_size=5), "beam 5, plain length 1.0"),
        (
            SearchConfig(beam_size=4, length_normalisation="gnmt", length_alpha=0.6, coverage_beta=0.2),
            "beam 4, gnmt length 0.6, coverage 0.2",
        ),
        (SearchConfig(temperature=0.7), "sampling, temperature 0.7"),
        (SearchConfig(precision="bfloat16", shortlist=20), "greedy, shortlist 20, bfloat16"),
        (SearchConfig(temperature=1.0, top_k=40, top_p=0.9), "sampling, temperature 1.0, top 40, nucleus 0.9"),
    ],
)
def test_a_search_says_what_it_is(search, words):
    assert str(search) == words


def test_a_field_that_is_left_out_has_its_default():
    assert Recipe.from_json('{"name": "x", "model": {"dropout": 0.5}}') == Recipe("x", model=ModelConfig(dropout=0.5))
    nested = Recipe.from_json('{"name": "x", "model": {"decoder": {"units": 7}}}')
    assert nested == Recipe("x", model=ModelConfig(decoder=DecoderConfig(units=7)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "runs/x/recipe.json: expected a recipe as JSON"),
        ("[]", "runs/x/recipe.json: expected a recipe as JSON"),
        ("{}", "name"),
        ('{"name": "x", "model": {"dropuot": 0.5}}', "dropuot"),
        ('{"name": "x", "model": 5}', "runs/x/recipe.json: expected a recipe as JSON"),
        ('{"name": "x", "train": {"steps": "ten", "minutes": null}}', "runs/x/recipe.json"),
        ('{"name": "x", "model": {"dropout": 1.5}}', "ModelConfig.dropout: expected a probability"),
        ('{"name": "x", "model": {"encoder": {"unit": 5}}}', "unit"),
        ('{"name": "x", "model": {"encoder": 5}}', "EncoderConfig is an object, received 5"),
        ('{"name": "x", "model": {"encoder": {"units": "ten"}}}', "EncoderConfig.units: expected a whole number"),
        (
            '{"name": "x", "model": {"encoder": {"direction": "forward"}}}',
            "DecoderConfig.initial_state: expected one of forward",
        ),
    ],
)
def test_a_damaged_recipe_is_refused_by_the_name_of_its_file(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Recipe.from_json(text, "runs/x/recipe.json")


def test_recipes_are_found_by_name_and_the_nearest_is_offered():
    for name, recipe in RECIPES.items():
        assert find_recipe(name) is recipe
        assert recipe.name == name
        assert Recipe.from_json(recipe.to_json()) == recipe
    with pytest.raises(ValueError, match=r"recipe: .*received 'smaple'. Did you mean 'sample'"):
        find_recipe("smaple")


def test_a_stored_recipe_has_a_key_for_each_field():
    stored = json.loads(Recipe("x").to_json())
    assert set(stored) == {field.name for field in dataclasses.fields(Recipe)}
    assert set(stored["train"]) == {field.name for field in dataclasses.fields(TrainConfig)}
    assert set(stored["model"]["decoder"]) == {field.name for field in dataclasses.fields(DecoderConfig)}
