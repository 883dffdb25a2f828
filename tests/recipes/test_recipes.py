"""Recipes: every one builds, says how to train it, and holds the figures of its paper."""

import re
from dataclasses import replace
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import nmt_keras
from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
)
from nmt_keras.models.seq2seq import build_model
from nmt_keras.recipes import RECIPES, find_recipe
from nmt_keras.training.schedules import learning_rate

START, END = 2, 3


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_comes_back_from_json(name):
    assert Recipe.from_json(RECIPES[name].to_json()) == RECIPES[name]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_builds_a_model_that_answers(name):
    keras.utils.set_random_seed(1)
    model = build_model(RECIPES[name].model.scaled(0.02), 11, 13)
    output = model((tf.constant([[4, 5, END]]), tf.constant([[START, 6]])))
    assert output.logits.shape == (1, 2, 13)
    assert output.alignment.shape == (1, 2, 3)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_s_module_says_the_command(name):
    folder = Path(nmt_keras.__file__).parent / "recipes"
    (home,) = [path for path in folder.glob("*.py") if f'"{name}"' in path.read_text(encoding="utf-8")]
    named = re.findall(r"^ {4}nmt train ([\w-]+)", home.read_text(encoding="utf-8"), re.MULTILINE)
    assert named
    assert set(named) <= set(RECIPES)


def test_a_mistyped_name_gets_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'rnnsearch-50'"):
        find_recipe("rnnserch-50")


def test_a_scaled_recipe_says_so_in_its_name():
    recipe = find_recipe("rnnsearch-50").scaled(0.25)
    assert recipe.name == "rnnsearch-50-x0.25"
    assert (recipe.model.embedding_size, recipe.model.decoder.output_units) == (155, 125)


def test_each_rung_of_luong_s_ladder_adds_one_thing():
    """Reversal, dropout (with its longer schedule), attention (whose vector the softmax sees), feeding, the window."""
    ladder = ("base", "reverse", "dropout", "location", "feed", "general", "local-m", "local-p", "replace")
    rungs = {rung: find_recipe(f"luong-{rung}") for rung in ladder}
    models = {rung: recipe.model for rung, recipe in rungs.items()}
    without = {
        "reverse": ("base", lambda model: replace(model, encoder=replace(model.encoder, direction="forward"))),
        "dropout": ("reverse", lambda model: replace(model, dropout=0.0)),
        "location": ("dropout", lambda model: replace(model, attention=AttentionConfig("none"), decoder=seeing(model))),
        "feed": ("location", lambda model: replace(model, decoder=replace(model.decoder, input_feeding=False))),
        "general": ("feed", lambda model: replace(model, attention=models["feed"].attention)),
        "local-m": ("general", lambda model: replace(model, attention=replace(model.attention, span="global"))),
        "local-p": ("general", lambda model: replace(model, attention=AttentionConfig("general"))),
        "replace": ("local-p", lambda model: model),
    }

    def seeing(model):
        return replace(model.decoder, output="state", output_units=models["dropout"].decoder.output_units)

    for rung, (below, taken_back) in without.items():
        assert taken_back(models[rung]) == models[below], rung
        assert replace(rungs[rung].search, replaces_unknown=False) == rungs[below].search
        assert (rungs[rung].source, rungs[rung].target) == (rungs[below].source, rungs[below].target)
        if rung != "dropout":
            assert rungs[rung].train == rungs[below].train


def holds(record, **fields):
    """Whether a configuration has these values, told so that a failure shows the others."""
    assert {name: getattr(record, name) for name in fields} == fields


@pytest.mark.parametrize("words", [30, 50])
@pytest.mark.parametrize("kind", ["rnnencdec", "rnnsearch"])
def test_bahdanau_s_recipes_hold_the_figures_of_the_paper(kind, words):
    """Bahdanau, Cho, Bengio 2014, appendices A.2.3, B.1 and B.2."""
    recipe = find_recipe(f"{kind}-{words}")
    model, attends = recipe.model, kind == "rnnsearch"
    holds(model, embedding_size=620, dropout=0.0, initializer="bahdanau")
    holds(model.encoder, cell="gru", units=1000, layers=1, direction="bidirectional" if attends else "forward")
    holds(model.attention, kind="additive" if attends else "fixed", span="global", units=1000)
    holds(
        model.decoder, order="attend-then-update", cell="gru", units=1000, layers=1, output="maxout",
        output_units=500, output_state="previous", initial_state="backward" if attends else "forward",
    )  # fmt: skip
    holds(
        recipe.train, optimizer="adadelta", learning_rate=1.0, rho=0.95, epsilon=1e-6, clip_norm=1.0, batch_size=80,
        pool_size=1600, max_tokens=words + 1, denominator="sentences", label_smoothing=0.0, decay="constant",
        warmup_steps=0,
    )  # fmt: skip
    for text in (recipe.source, recipe.target):
        holds(text, kind="word", vocabulary_size=30_004, lowercase=False, strip_accents=False)
    assert recipe.search.beam_size > 1
    assert recipe.train.patience >= recipe.train.validations


def test_luong_s_recipes_hold_the_figures_of_the_paper():
    """Luong, Pham, Manning 2015, sections 3.2 and 4.1."""
    for rung in ("base", "reverse", "dropout", "location", "feed", "general", "local-m", "local-p", "replace"):
        recipe = find_recipe(f"luong-{rung}")
        epochs = 10.0 if rung in ("base", "reverse") else 12.0
        holds(recipe.model, embedding_size=1000, initializer="uniform")
        holds(recipe.model.encoder, cell="lstm", units=1000, layers=4)
        holds(recipe.model.decoder, order="update-then-attend", cell="lstm", units=1000, layers=4, initial_state="last")
        holds(
            recipe.train, optimizer="sgd", learning_rate=1.0, clip_norm=5.0, batch_size=128, max_tokens=51,
            epochs=epochs, decay="halving", halve_every=1 / epochs, warmup_steps=0, label_smoothing=0.0,
        )  # fmt: skip
        assert recipe.train.patience >= recipe.train.validations
        for text in (recipe.source, recipe.target):
            holds(text, kind="word", vocabulary_size=50_004, lowercase=False)
        if rung.startswith("local"):
            holds(recipe.model.attention, kind="general", span=rung, window=10)


def test_the_tutorial_s_recipe_holds_its_figures():
    recipe = find_recipe("tutorial")
    holds(recipe.corpus, first=30_000, split="shuffled-groups")
    holds(recipe.source, kind="word", lowercase=True, strip_accents=True)
    holds(recipe.model, embedding_size=256, dropout=0.0)
    holds(recipe.model.encoder, units=1024, direction="forward", layers=1)
    holds(recipe.model.attention, kind="additive", units=1024)
    holds(recipe.model.decoder, order="attend-then-update", units=1024, initial_state="last", output="state")
    holds(recipe.train, optimizer="adam", learning_rate=1e-3, batch_size=64, epochs=10.0, log_every=100, validations=5)
    assert recipe.train.patience >= recipe.train.validations


def test_each_of_the_lecture_s_extensions_adds_what_it_names():
    """cs224d, lecture 9: weights of its own; h_{t-1}, c and y_{t-1}; deep; both directions, or the source reversed."""
    base, separate, fed, deep, bidirectional, backward = (
        find_recipe(f"lecture-{name}").model for name in ("rnn", "separate", "fed", "deep", "bidirectional", "reversed")
    )
    holds(base.decoder, cell="tanh", shares_recurrence=True, reads_words=False, initial_state="last", output="state")
    holds(base.encoder, cell="tanh", direction="forward", layers=1)
    assert base.attention.kind == "none"
    assert separate == replace(base, decoder=replace(base.decoder, shares_recurrence=False))
    assert fed == replace(
        separate, attention=AttentionConfig("fixed"), decoder=replace(separate.decoder, reads_words=True)
    )
    assert deep == replace(fed, encoder=replace(fed.encoder, layers=2), decoder=replace(fed.decoder, layers=2))
    assert (bidirectional.encoder.direction, backward.encoder.direction) == ("bidirectional", "backward")
    assert backward == replace(deep, encoder=replace(deep.encoder, direction="backward"))
    assert bidirectional.encoder.layers == bidirectional.decoder.layers == 2


@pytest.mark.parametrize(("name", "epochs", "last_at_1"), [("luong-base", 10, 5), ("luong-dropout", 12, 8)])
def test_luong_s_rate_is_halved_in_every_epoch_after_its_fifth_or_eighth(name, epochs, last_at_1):
    config, steps = find_recipe(name).train, 100
    rates = [learning_rate(config, epoch * steps, epochs * steps) for epoch in range(epochs)]
    assert rates == [1.0] * last_at_1 + [0.5**n for n in range(1, epochs - last_at_1 + 1)]


def test_a_search_beyond_what_a_self_attention_decoder_can_write_is_refused():
    parts = ModelConfig(
        encoder=EncoderConfig("self-attention", units=8),
        attention=AttentionConfig("dot"),
        decoder=DecoderConfig("self-attention", units=8, output="state", max_positions=20),
    )
    short = {
        "search": SearchConfig(max_tokens=20),
        "target": TokenizerConfig(max_tokens=20),
        "train": TrainConfig(max_tokens=20),
    }
    for name, field in (("search", "SearchConfig"), ("target", "TokenizerConfig"), ("train", "TrainConfig")):
        fields = {**short, name: type(short[name])(max_tokens=21)}
        with pytest.raises(ValueError, match=rf"{field}\.max_tokens.*: expected DecoderConfig\.max_positions \(20\)"):
            Recipe("own", model=parts, **fields)
    assert Recipe("own", model=parts, **short).search.max_tokens == 20


def test_training_on_sources_beyond_the_rows_of_location_attention_is_refused():
    parts = ModelConfig(attention=AttentionConfig("location", max_source_positions=30))
    with pytest.raises(ValueError, match=r"TrainConfig\.max_tokens: .* 40"):
        Recipe("own", model=parts, train=TrainConfig(max_tokens=40))
    assert Recipe("own", model=parts, train=TrainConfig(max_tokens=30)).train.max_tokens == 30
