"""Configurations refuse invalid values with uniform messages, and survive a round trip through JSON."""

import dataclasses
import json
import re

import pytest

from nmt_keras.config import (
    AttentionConfig,
    CorpusConfig,
    DecoderConfig,
    EncoderConfig,
    ExportConfig,
    FilterConfig,
    MicroBatchingConfig,
    ModelConfig,
    PairFilters,
    Recipe,
    RunOptions,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
    record_from,
)
from nmt_keras.config.model import REGISTERED

WRONG = [
    (TokenizerConfig, {"kind": "letters"}, "kind"),
    (TokenizerConfig, {"kind": "subwords"}, "kind"),
    (TokenizerConfig, {"vocabulary_size": 4}, "vocabulary_size"),
    (TokenizerConfig, {"max_tokens": 1}, "max_tokens"),
    (TokenizerConfig, {"kind": "subword", "lowercase": True}, "lowercase"),
    (TokenizerConfig, {"kind": "subword", "strip_accents": True}, "strip_accents"),
    (EncoderConfig, {"kind": "self-atention"}, "kind"),
    (EncoderConfig, {"cell": "LSTM"}, "cell"),
    (EncoderConfig, {"direction": "forwards"}, "direction"),
    (EncoderConfig, {"units": -1}, "units"),
    (EncoderConfig, {"units": 2.5}, "units"),
    (EncoderConfig, {"units": True}, "units"),
    (EncoderConfig, {"layers": 0}, "layers"),
    (EncoderConfig, {"heads": 0}, "heads"),
    (EncoderConfig, {"kind": "self-attention", "heads": 3, "units": 27}, "units"),
    (EncoderConfig, {"kind": "self-attention", "heads": 3, "units": 1}, "units"),
    (
        dataclasses.make_dataclass("Config", (), bases=(EncoderConfig,), frozen=True),
        {"kind": "self-attention", "units": 1},
        "units",
    ),
    (EncoderConfig, {"kind": "self-attention", "word_projection": True}, "word_projection"),
    (AttentionConfig, {"kind": "bahdanau"}, "kind"),
    (AttentionConfig, {"kind": "generall"}, "kind"),
    (AttentionConfig, {"span": "local"}, "span"),
    (AttentionConfig, {"units": 0}, "units"),
    (AttentionConfig, {"window": 0}, "window"),
    (AttentionConfig, {"max_source_positions": 0}, "max_source_positions"),
    (AttentionConfig, {"kind": "location", "span": "local-p"}, "span"),
    (AttentionConfig, {"kind": "fixed", "span": "local-p"}, "span"),
    (AttentionConfig, {"kind": "mean", "span": "local-m"}, "span"),
    (AttentionConfig, {"kind": "none", "span": "local-p"}, "span"),
    (DecoderConfig, {"order": "luong"}, "order"),
    (DecoderConfig, {"cell": "gru-reset-before"}, "cell"),
    (DecoderConfig, {"initial_state": "lastt"}, "initial_state"),
    (DecoderConfig, {"output": "softmax"}, "output"),
    (DecoderConfig, {"output_state": "next"}, "output_state"),
    (DecoderConfig, {"units": 0}, "units"),
    (DecoderConfig, {"layers": 0}, "layers"),
    (DecoderConfig, {"output_units": 0}, "output_units"),
    (DecoderConfig, {"heads": 0}, "heads"),
    (DecoderConfig, {"max_positions": 0}, "max_positions"),
    (DecoderConfig, {"input_feeding": True}, "input_feeding"),
    (DecoderConfig, {"order": "update-then-attend", "output": "state", "input_feeding": True}, "input_feeding"),
    (DecoderConfig, {"output": "attentional"}, "output"),
    (DecoderConfig, {"order": "update-then-attend"}, "output"),
    (DecoderConfig, {"order": "self-attention", "output": "linear"}, "output"),
    (DecoderConfig, {"order": "update-then-attend", "output": "linear"}, "output_state"),
    (DecoderConfig, {"order": "conditional"}, "output_state"),
    (DecoderConfig, {"order": "conditional", "output": "linear"}, "output_state"),
    (DecoderConfig, {"order": "conditional", "output": "attentional", "output_state": "current"}, "output"),
    (DecoderConfig, {"order": "conditional", "output": "state", "shares_recurrence": True}, "shares_recurrence"),
    (DecoderConfig, {"order": "self-attention", "output": "state", "heads": 8, "units": 100}, "units"),
    (DecoderConfig, {"order": "self-attention", "output": "state", "reads_words": False}, "reads_words"),
    (DecoderConfig, {"order": "self-attention", "output": "state", "shares_recurrence": True}, "shares_recurrence"),
    (ModelConfig, {"embedding_size": 0}, "embedding_size"),
    (ModelConfig, {"dropout": 1.0}, "dropout"),
    (ModelConfig, {"recurrent_dropout": -0.1}, "recurrent_dropout"),
    (ModelConfig, {"initializer": "xavier"}, "initializer"),
    (TrainConfig, {"steps": 5}, "steps"),
    (TrainConfig, {"epochs": 5.0}, "epochs"),
    (TrainConfig, {"minutes": None}, "minutes"),
    (TrainConfig, {"epochs": 5.0, "minutes": None, "steps": 5}, "steps"),
    (TrainConfig, {"minutes": None, "epochs": 0.0}, "epochs"),
    (TrainConfig, {"minutes": 0.0}, "minutes"),
    (TrainConfig, {"minutes": float("inf")}, "minutes"),
    (TrainConfig, {"learning_rate": float("inf")}, "learning_rate"),
    (TrainConfig, {"batch_size": 0}, "batch_size"),
    (TrainConfig, {"length_buckets": 0}, "length_buckets"),
    (TrainConfig, {"pool_size": 0}, "pool_size"),
    (TrainConfig, {"learning_rate": 0.0}, "learning_rate"),
    (TrainConfig, {"clip_norm": -1.0}, "clip_norm"),
    (TrainConfig, {"validations": 0}, "validations"),
    (TrainConfig, {"patience": 0}, "patience"),
    (TrainConfig, {"log_every": 0}, "log_every"),
    (TrainConfig, {"validation_sentences": 0}, "validation_sentences"),
    (TrainConfig, {"max_tokens": 1}, "max_tokens"),
    (TrainConfig, {"warmup_steps": -1}, "warmup_steps"),
    (TrainConfig, {"beta_2": 1.0}, "beta_2"),
    (TrainConfig, {"rho": 1.0}, "rho"),
    (TrainConfig, {"epsilon": 0.0}, "epsilon"),
    (TrainConfig, {"halve_from": 1.5}, "halve_from"),
    (TrainConfig, {"halve_every": 0.0}, "halve_every"),
    (TrainConfig, {"checkpoint_every": 0}, "checkpoint_every"),
    (TrainConfig, {"sampling_from": 1.1}, "sampling_from"),
    (TrainConfig, {"sampling_to": -0.1}, "sampling_to"),
    (TrainConfig, {"optimizer": "adamm"}, "optimizer"),
    (TrainConfig, {"label_smoothing": -0.1}, "label_smoothing"),
    (TrainConfig, {"batch_tokens": 39}, "batch_tokens"),
    (TrainConfig, {"gradient_accumulation_steps": 0}, "gradient_accumulation_steps"),
    (TrainConfig, {"batch_size": 32.0}, "batch_size"),
    (TrainConfig, {"batch_tokens": 512.5}, "batch_tokens"),
    (TrainConfig, {"steps": 10.5, "minutes": None}, "steps"),
    (SearchConfig, {"no_repeat_ngram_size": 1.5}, "no_repeat_ngram_size"),
    (SearchConfig, {"length_alpha": float("inf")}, "length_alpha"),
    (TrainConfig, {"max_tokens": 40.0}, "max_tokens"),
    (TrainConfig, {"warmup_steps": 1.5}, "warmup_steps"),
    (TrainConfig, {"xla": 1}, "xla"),
    (Recipe, {"name": 5}, "name"),
    (TrainConfig, {"precision": "half"}, "precision"),
    (TrainConfig, {"max_to_keep": 0}, "max_to_keep"),
    (TrainConfig, {"max_skipped": 0}, "max_skipped"),
    (FilterConfig, {"max_tokens": 1}, "max_tokens"),
    (FilterConfig, {"max_ratio": 0.5}, "max_ratio"),
    (PairFilters, {"max_ratio": 0.5}, "max_ratio"),
    (RunOptions, {"profile": -1}, "profile"),
    (TrainConfig, {"decay": "cosines"}, "decay"),
    (TrainConfig, {"denominator": "batches"}, "denominator"),
    (CorpusConfig, {"first": 0}, "first"),
    (CorpusConfig, {"split": "hashed-group"}, "split"),
    (CorpusConfig, {"seed": -1}, "seed"),
    (TrainConfig, {"seed": -1}, "seed"),
    (TrainConfig, {"seed": 2**31}, "seed"),
    (SearchConfig, {"max_tokens": 0}, "max_tokens"),
    (SearchConfig, {"beam_size": 0}, "beam_size"),
    (SearchConfig, {"beam_size": 5, "n_best": 6}, "n_best"),
    (SearchConfig, {"n_best": 0}, "n_best"),
    (SearchConfig, {"length_normalisation": "gmnt"}, "length_normalisation"),
    (SearchConfig, {"precision": "float16"}, "precision"),
    (SearchConfig, {"length_alpha": -0.1}, "length_alpha"),
    (SearchConfig, {"coverage_beta": -0.1}, "coverage_beta"),
    (SearchConfig, {"no_repeat_ngram_size": -1}, "no_repeat_ngram_size"),
    (SearchConfig, {"repetition_penalty": 0.0}, "repetition_penalty"),
    (SearchConfig, {"min_tokens": 0}, "min_tokens"),
    (SearchConfig, {"max_tokens": 8, "min_tokens": 9}, "min_tokens"),
    (TrainConfig, {"guided_weight": -0.1}, "guided_weight"),
    (MicroBatchingConfig, {"max_batch_size": 0}, "max_batch_size"),
    (MicroBatchingConfig, {"threads": 0}, "threads"),
    (MicroBatchingConfig, {"queue": -1}, "queue"),
    (MicroBatchingConfig, {"queue": 1.5}, "queue"),
    (MicroBatchingConfig, {"wait_ms": -0.1}, "wait_ms"),
    (ExportConfig, {"micro_batching": 32}, "micro_batching"),
    (ExportConfig, {"limitations": "Names are lost."}, "limitations"),
]


@pytest.mark.parametrize(("kind", "fields", "name"), WRONG)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(kind, fields, name):
    received = re.escape(repr(fields[name])) if name in fields else ""
    with pytest.raises(ValueError, match=rf"{kind.__name__}\.{name}\b.*received.*{received}"):
        kind(**fields)


# Configurations that do not fit together

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
        ["DecoderConfig.initial_state", "forward, last, mean, zero", "'backward'"],
    ),
    "a forward start of a backward encoder": (
        {"encoder": {"direction": "backward"}, "decoder": {"initial_state": "forward"}},
        ["DecoderConfig.initial_state", "backward, last, mean, zero", "'forward'"],
    ),
    "the last state of two directions": (
        {"decoder": {"initial_state": "last"}},
        ["DecoderConfig.initial_state", "backward, forward, both, mean, zero", "'last'"],
    ),
    "the last state of a self-attention encoder": (
        {"encoder": {"kind": "self-attention"}, "decoder": {"initial_state": "last"}},
        ["DecoderConfig.initial_state", "mean, zero", "'last'"],
    ),
    "last states of another width": (
        {"encoder": {"direction": "forward", "units": 8}, "decoder": {"initial_state": "last", "units": 9}},
        ["DecoderConfig.units", "the encoder's value, 8", "received 9"],
    ),
    "last states of fewer layers": (
        {
            "encoder": {"direction": "forward", "units": 8},
            "decoder": {"initial_state": "last", "units": 8, "layers": 2},
        },
        ["DecoderConfig.layers", "the encoder's value, 1", "received 2"],
    ),
    "last states of another cell": (
        {
            "encoder": {"direction": "forward", "units": 8},
            "decoder": {"initial_state": "last", "units": 8, "cell": "lstm"},
        },
        ["DecoderConfig.cell", "the encoder's value, gru", "received 'lstm'"],
    ),
    "dot products of different widths": (
        {"encoder": {"units": 8}, "attention": {"kind": "dot"}, "decoder": {"units": 8}},
        ["DecoderConfig.units", "16", "8"],
    ),
    "self-attention that scores otherwise": (
        {"decoder": ATTENTIVE},
        ["AttentionConfig.kind", "('additive', 'global')"],
    ),
    "self-attention over a window": (
        {"attention": {"kind": "dot", "span": "local-m"}, "decoder": ATTENTIVE},
        ["AttentionConfig.kind", "('dot', 'local-m')"],
    ),
    "a fixed context of a self-attention encoder": (
        {"encoder": {"kind": "self-attention"}, "attention": {"kind": "fixed"}, "decoder": {"initial_state": "mean"}},
        ["AttentionConfig.kind", "'fixed'"],
    ),
    "no attention to a self-attention encoder": (
        {
            "encoder": {"kind": "self-attention"},
            "attention": {"kind": "none"},
            "decoder": {"initial_state": "mean", "output": "state"},
        },
        ["AttentionConfig.kind", "'none'"],
    ),
    "an output layer of a context that is not there": (
        {"attention": {"kind": "none"}},
        ["DecoderConfig.output", "'maxout'"],
    ),
    "no attention and no start": (
        {"attention": {"kind": "none"}, "decoder": {"initial_state": "zero", "output": "state"}},
        ["DecoderConfig.initial_state", "'zero'"],
    ),
    "a context that nothing reads": ({"decoder": {**LUONG, "output": "state"}}, ["DecoderConfig.output", "'state'"]),
    "a conditional decoder without a context": (
        {"attention": {"kind": "none"}, "decoder": {"order": "conditional", "output": "state"}},
        ["AttentionConfig.kind", "'conditional'", "'none'"],
    ),
    "tied embeddings with a linear output layer": (
        {"decoder": {"output": "linear", "tie_embeddings": True}},
        ["DecoderConfig.output", "'linear'"],
    ),
    "tied embeddings with a deep output of another width": (
        {"decoder": {"output_units": 255, "tie_embeddings": True}},
        ["DecoderConfig.output_units", "256", "255"],
    ),
    "a tied state of another width": (
        {"decoder": {"units": 512, "output": "state", "tie_embeddings": True}},
        ["DecoderConfig.units", "256", "512"],
    ),
    "a shared matrix of gates": (
        {
            "encoder": {"direction": "forward", "units": 8},
            "decoder": {"initial_state": "last", "units": 8, "shares_recurrence": True},
        },
        ["DecoderConfig.shares_recurrence", "1 forward gru of size 8, the decoder 1 gru of size 8"],
    ),
    "a shared matrix of two directions": (
        {
            "encoder": {"cell": "tanh", "units": 8},
            "attention": {"kind": "none"},
            "decoder": {**LECTURE, "initial_state": "both"},
        },
        ["DecoderConfig.shares_recurrence", "1 bidirectional tanh of size 8, the decoder 1 tanh of size 8"],
    ),
    "a shared matrix of two layers": (
        {
            "encoder": {"cell": "tanh", "direction": "forward", "units": 8, "layers": 2},
            "attention": {"kind": "none"},
            "decoder": {**LECTURE, "layers": 2},
        },
        ["DecoderConfig.shares_recurrence", "2 forward tanh of size 8, the decoder 2 tanh of size 8"],
    ),
    "a shared matrix of two widths": (
        {**ONE_WAY_TANH, "decoder": {**LECTURE, "units": 9, "initial_state": "forward"}},
        ["DecoderConfig.shares_recurrence", "1 forward tanh of size 8, the decoder 1 tanh of size 9"],
    ),
}


@pytest.mark.parametrize(("parts", "words"), UNFIT.values(), ids=UNFIT.keys())
def test_parts_that_do_not_fit_are_refused_with_what_would(parts, words):
    with pytest.raises(ValueError, match=".*".join(map(re.escape, words))):
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


@pytest.mark.parametrize("parts", FIT.values(), ids=FIT.keys())
def test_a_model_scaled_by_1_is_the_same_and_every_other_scale_fits_too(parts):
    config = composed(**parts)
    assert config.scaled(1.0) == config
    for percent in range(1, 300, 7):  # each constructor checks that the configurations fit together
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


@pytest.mark.parametrize(
    "parts",
    [
        {"decoder": {"order": "own"}},
        {"decoder": {"order": "own", "input_feeding": True}},
        {"attention": {"kind": "none"}, "decoder": {"order": "own"}},
        {"attention": {"kind": "none"}, "decoder": {"output": "own"}},
        {"decoder": {**LUONG, "output": "own", "input_feeding": True, "output_state": "current"}},
        {"embedding_size": 7, "decoder": {"output": "own", "tie_embeddings": True}},
    ],
)
def test_registered_decoders_and_output_layers_combine_with_all_others(parts, monkeypatch):
    for part in ("decoder", "output"):
        monkeypatch.setitem(REGISTERED, part, {"own"})
    config = composed(**parts)
    assert config.scaled(1.0) == config


def test_scaling_multiplies_every_width():
    config = ModelConfig(
        100, EncoderConfig(units=50), AttentionConfig(units=70), DecoderConfig(units=120, output_units=40)
    )
    wanted = ModelConfig(
        25, EncoderConfig(units=12), AttentionConfig(units=18), DecoderConfig(units=30, output_units=10)
    )
    assert config.scaled(0.25) == wanted  # 12.5 and 17.5 are rounded to even numbers
    smallest = config.scaled(1e-6)
    assert smallest.embedding_size == smallest.encoder.units == smallest.decoder.units == 1


@pytest.mark.parametrize("width", [0.0, -1.0, float("inf"), 1e308])
def test_a_scale_is_positive_and_not_huge(width):
    with pytest.raises(ValueError, match=f"width.*{re.escape(str(width))}"):
        ModelConfig().scaled(width)


# Records


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (SearchConfig(), "greedy"),
        (SearchConfig(beam_size=5), "beam 5, plain length 1.0"),
        (
            SearchConfig(beam_size=4, length_normalisation="gnmt", length_alpha=0.6, coverage_beta=0.2),
            "beam 4, gnmt length 0.6, coverage 0.2",
        ),
        (SearchConfig(precision="bfloat16"), "greedy, bfloat16"),
        (
            SearchConfig(beam_size=3, n_best=2, min_tokens=4, max_tokens=9, unk_allowed=False),
            "beam 3, plain length 1.0, n best 2, min tokens 4, max tokens 9, unk allowed False",
        ),
    ],
)
def test_a_search_says_what_it_is(search, words):
    assert str(search) == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "runs/x/recipe.json"),
        ("[]", "runs/x/recipe.json"),
        ("{}", "runs/x/recipe.json: name: expected a value"),
        ('{"name": "x", "model": {"dropuot": 0.5}}', "dropuot"),
        ('{"name": "x", "model": 5}', "runs/x/recipe.json"),
        ('{"name": "x", "train": {"steps": "ten", "minutes": null}}', "runs/x/recipe.json"),
        ("[" * 100_000, "runs/x/recipe.json"),
        ('{"name": "x", "model": {"dropout": 1.5}}', "x/recipe.json: model.dropout"),
        ('{"name": "x", "model": {"attention": {"kind": null}}}', "model.attention.kind: expected additive, dot"),
        ('{"name": "x", "model": {"encoder": {"unit": 5}}}', "x/recipe.json: model.encoder.unit:"),
        ('{"name": "x", "model": {"encoder": 5}}', "x/recipe.json: model.encoder:"),
        ('{"name": "x", "model": {"encoder": {"units": "ten"}}}', "x/recipe.json: model.encoder.units"),
        ('{"name": "x", "model": {"encoder": {"direction": "forward"}}}', "x/recipe.json: model.decoder.initial_state"),
    ],
)
def test_a_damaged_recipe_is_refused_by_the_name_of_its_file(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Recipe.from_json(text, "runs/x/recipe.json")


def test_a_value_of_a_subclass_is_refused_by_its_name_in_the_file():
    kind = dataclasses.make_dataclass("Config", (), bases=(EncoderConfig,), frozen=True)
    with pytest.raises(ValueError, match=r"^model\.encoder\.units: "):
        record_from(kind, {"kind": "self-attention", "units": 1}, "model.encoder.")


@pytest.mark.parametrize(
    ("field", "default", "other"),
    [
        ("model.encoder.merge", "concatenate", "sum"),
        ("model.encoder.residual", False, True),
        ("model.decoder.residual", False, True),
        ("train.plateau_factor", 0.5, 0.1),
        ("train.weight_decay", 0.01, 0.1),
        ("search.temperature", 0.0, 1.0),
        ("search.top_k", None, 5),
        ("search.top_p", 1.0, 0.9),
        ("search.seed", 1, 7),
    ],
)
def test_a_removed_field_is_ignored_at_its_former_default_and_else_refused_by_name(field, default, other):
    def read(value):
        for name in reversed(field.split(".")):
            value = {name: value}
        return Recipe.from_json(json.dumps({"name": "x", **value}), "runs/x/recipe.json")

    assert read(default) == Recipe("x")
    told = f"runs/x/recipe.json: {field}: expected the former default of this removed field, {default!r}.*{other!r}"
    with pytest.raises(ValueError, match=told):
        read(other)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("batch_size", "64.0", "a whole number, received 64.0. Write 64."),
        ("batch_size", '"64"', "a whole number, received '64'. Write it without quotation marks."),
        ("max_tokens", "40.5", "a whole number, received 40.5."),
        ("log_every", "true", "a whole number, received True."),
        ("seed", "null", "a whole number, received None."),
        ("learning_rate", '"6e-3"', "a number, received '6e-3'. Write it without quotation marks."),
        ("rho", "false", "a number, received False."),
        ("clip_norm", "Infinity", "a number or null, received inf."),
        ("rho", "NaN", "a number, received nan."),
        ("epochs", "1e308", "from -2^31 to 2^31, received 1e+308."),
        ("learning_rate", "1" + 400 * "0", "from -2^31 to 2^31, received 1000"),
        ("batch_size", "1" + 20 * "0", "from -2^31 to 2^31, received 1000"),
        ("xla", '"false"', "true or false or null, received 'false'. Write it without quotation marks."),
        ("batch_tokens", "[5]", "a whole number or null, received [5]."),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_field_and_what_to_write(field, value, told):
    with pytest.raises(ValueError, match=re.escape(f"mine.yaml: train.{field}: expected {told}")):
        Recipe.from_json(f'{{"name": "x", "train": {{"{field}": {value}}}}}', "mine.yaml")
    whole = Recipe.from_json('{"name": "x", "train": {"minutes": 5, "xla": null, "clip_norm": 1}}')
    assert whole.train == TrainConfig(minutes=5.0, clip_norm=1.0)
