"""Configurations refuse what cannot be meant, say so in one form, and survive JSON."""

import dataclasses
import json
import re

import pytest

from nmt_keras.config import ModelConfig, Recipe, SearchConfig, TextConfig, TrainConfig
from nmt_keras.recipes import RECIPES, find_recipe

WRONG = [
    (TextConfig, {"kind": "letters"}, "TextConfig.kind: expected one of word, subword; received 'letters'"),
    (TextConfig, {"kind": "subwords"}, "Did you mean 'subword'?"),
    (TextConfig, {"vocabulary_size": 4}, "TextConfig.vocabulary_size: expected more than the 4 special entries, rec"),
    (TextConfig, {"max_tokens": 1}, "TextConfig.max_tokens: expected at least 2"),
    (TextConfig, {"kind": "subword", "lowercase": True}, "TextConfig.lowercase: expected False"),
    (TextConfig, {"kind": "subword", "strip_accents": True}, "TextConfig.strip_accents: expected False"),
    (ModelConfig, {"embedding_size": 0}, "ModelConfig.embedding_size: expected a positive number, received 0."),
    (ModelConfig, {"encoder_units": -1}, "ModelConfig.encoder_units"),
    (ModelConfig, {"decoder_units": 0}, "ModelConfig.decoder_units"),
    (ModelConfig, {"attention_units": 0}, "ModelConfig.attention_units"),
    (ModelConfig, {"readout_units": 0}, "ModelConfig.readout_units"),
    (ModelConfig, {"readout_state": "next"}, "ModelConfig.readout_state: expected one of previous, current"),
    (ModelConfig, {"dropout": 1.0}, "ModelConfig.dropout: expected a probability in [0, 1), received 1.0."),
    (TrainConfig, {"steps": 5, "minutes": 5.0}, "TrainConfig.steps, TrainConfig.minutes: expected exactly one of them"),
    (TrainConfig, {"minutes": None}, "TrainConfig.steps, TrainConfig.minutes: expected exactly one of them"),
    (TrainConfig, {"minutes": 0.0}, "TrainConfig.minutes: expected a positive number"),
    (TrainConfig, {"batch_size": 0}, "TrainConfig.batch_size"),
    (TrainConfig, {"shapes": 0}, "TrainConfig.shapes"),
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
    (TrainConfig, {"label_smoothing": -0.1}, "TrainConfig.label_smoothing"),
    (TrainConfig, {"decay": "cosines"}, "Did you mean 'cosine'?"),
    (TrainConfig, {"denominator": "batches"}, "TrainConfig.denominator: expected one of tokens, sentences"),
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
    (SearchConfig, {"length_alpha": -0.1}, "SearchConfig.length_alpha: expected 0 or more"),
    (SearchConfig, {"coverage_beta": -0.1}, "SearchConfig.coverage_beta: expected 0 or more"),
    (SearchConfig, {"min_tokens": 0}, "SearchConfig.min_tokens: expected at least 1"),
    (SearchConfig, {"min_tokens": 9, "max_tokens": 8}, "SearchConfig.min_tokens: expected max_tokens (8) at the most"),
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


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ModelConfig().dropout = 0.5


def test_a_recipe_survives_json():
    recipe = Recipe(
        "ñandú",
        source=TextConfig(kind="word", strip_accents=True),
        model=ModelConfig(readout_state="previous"),
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
        (SearchConfig(temperature=1.0, top_k=40, top_p=0.9), "sampling, temperature 1.0, top 40, nucleus 0.9"),
    ],
)
def test_a_search_says_what_it_is(search, words):
    assert str(search) == words


def test_a_field_that_is_left_out_has_its_default():
    assert Recipe.from_json('{"name": "x", "model": {"dropout": 0.5}}') == Recipe("x", model=ModelConfig(dropout=0.5))


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
