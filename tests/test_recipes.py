"""Recipes: every one builds, says how to train it, and holds the figures of its paper."""

from pathlib import Path

import keras
import pytest
import tensorflow as tf

import nmt_keras
from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, Recipe, SearchConfig
from nmt_keras.model import build_model
from nmt_keras.optimization import learning_rate
from nmt_keras.recipes import RECIPES, find_recipe

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
    assert "nmt train " in home.read_text(encoding="utf-8")


def test_a_mistyped_name_gets_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'rnnsearch-50'"):
        find_recipe("rnnserch-50")


def test_a_scaled_recipe_says_so_in_its_name():
    recipe = find_recipe("rnnsearch-50").scaled(0.25)
    assert recipe.name == "rnnsearch-50-x0.25"
    assert (recipe.model.embedding_size, recipe.model.decoder.readout_units) == (155, 125)


def test_each_rung_of_luong_s_ladder_adds_one_thing():
    """What differs between neighbours: reversal, dropout (with its longer schedule), attention, feeding, the window."""
    rungs = [find_recipe(f"luong-{rung}") for rung in ("base", "reverse", "dropout", "location", "feed")]
    base, reverse, dropout, location, feed = (rung.model for rung in rungs)
    assert (base.encoder.direction, reverse.encoder.direction) == ("forward", "backward")
    assert (reverse.dropout, dropout.dropout) == (0.0, 0.2)
    assert (dropout.attention.kind, location.attention.kind) == ("none", "location")
    assert (location.decoder.feeds_attention, feed.decoder.feeds_attention) == (False, True)
    assert {rung.train.learning_rate for rung in rungs} == {1.0}
    assert {rung.train.clip_norm for rung in rungs} == {5.0}


@pytest.mark.parametrize(("name", "epochs", "last_at_1"), [("luong-base", 10, 5), ("luong-dropout", 12, 8)])
def test_luong_s_rate_is_halved_in_every_epoch_after_its_fifth_or_eighth(name, epochs, last_at_1):
    config, steps = find_recipe(name).train, 100
    rates = [learning_rate(config, epoch * steps, epochs * steps) for epoch in range(epochs)]
    assert rates == [1.0] * last_at_1 + [0.5**n for n in range(1, epochs - last_at_1 + 1)]


def test_a_search_beyond_what_a_self_attention_decoder_can_write_is_refused():
    parts = ModelConfig(
        encoder=EncoderConfig("self-attention", units=8),
        attention=AttentionConfig("dot"),
        decoder=DecoderConfig("self-attention", units=8, readout="state", max_positions=20),
    )
    with pytest.raises(ValueError, match=r"SearchConfig\.max_tokens: expected DecoderConfig\.max_positions \(20\)"):
        Recipe("own", model=parts)
    assert Recipe("own", model=parts, search=SearchConfig(max_tokens=20)).search.max_tokens == 20
