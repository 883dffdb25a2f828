"""``origin.json`` and ``recipe.json``: the corpus options and the recipe of a run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import TINY_RECIPE

from nmt_keras.cli.console import with_options
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.runs.directory import (
    read_origin,
    refuse_other_corpus,
    require_corpus,
    resolve_recipe,
    with_languages_of,
    write_origin,
    write_recipe,
)


def test_languages_stay_with_a_run_that_has_a_recipe(tmp_path):
    run, named = tmp_path / "run", CorpusOptions(("a.tsv",), source_language="es", target_language="en")
    write_origin(run, named)
    unnamed = CorpusOptions(("a.tsv",), source_column=0, target_column=1)
    assert with_languages_of(run, unnamed).language_tags == (None, None)  # the run has no recipe yet
    write_recipe(run, TINY_RECIPE)
    assert with_languages_of(run, unnamed).language_tags == ("es", "en")
    assert with_languages_of(run, replace(unnamed, target_language="eu")).language_tags == ("es", "eu")
    assert with_languages_of(run, replace(unnamed, source_language="eu")).language_tags == ("eu", "en")


@pytest.mark.parametrize("time", [{"steps": 40}, {"epochs": 4.0}, {"minutes": 20.0}])
def test_another_training_time_is_used_until_there_is_a_checkpoint_and_then_answered_with_more_training(time, tmp_path):
    def recipe(**changes):
        fields = {"steps": None, "epochs": None, "minutes": None, **changes}
        return replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, **fields))

    write_recipe(tmp_path, recipe(steps=20))
    assert resolve_recipe(tmp_path, recipe(**time)) == recipe(**time)
    with pytest.raises(ValueError, match=r"recipe: train\.seed \d -> 7\."):
        resolve_recipe(tmp_path, recipe(**time, seed=7))
    (tmp_path / "checkpoints" / "last" / "ckpt-20").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"train\.steps 20 -> ") as error:
        resolve_recipe(tmp_path, recipe(**time))
    assert with_options(str(error.value)).endswith(
        f"run nmt train --run {tmp_path} with --more-epochs or --more-minutes."
    )
    with pytest.raises(ValueError, match=f"or remove {tmp_path}"):
        resolve_recipe(tmp_path, recipe(**time, seed=7))


def test_an_exported_version_is_told_from_a_missing_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="Train a run there first"):
        resolve_recipe(tmp_path, None)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(FileNotFoundError, match=r"exported version\. Pass the run"):
        resolve_recipe(tmp_path, None)


def test_a_run_keeps_how_its_corpus_was_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = CorpusOptions(("a.ja", "a.en"), source_language="ja", target_language="en", max_malformed=0.5)
    write_origin(tmp_path / "run", options)
    assert read_origin(tmp_path / "run") == replace(options, corpus=(str(tmp_path / "a.ja"), str(tmp_path / "a.en")))
    write_origin(tmp_path / "run", CorpusOptions(("sample",)))
    assert read_origin(tmp_path / "run").corpus == ("sample",)


@pytest.mark.parametrize(("name", "corpus"), [("sample", ("sample",)), ("spa-eng", ()), ("mine", ("mine",))])
def test_without_how_it_was_read_a_corpus_is_known_by_its_name(tmp_path, name, corpus):
    (tmp_path / "corpus.json").write_text(f'{{"name": "{name}"}}')
    assert read_origin(tmp_path).corpus == corpus


@pytest.mark.parametrize(
    ("option", "kept", "fields"),
    [
        ("corpus", "v.tsv", {"corpus": ("a.tsv",), "valid": ("v.tsv",)}),
        ("alignments", "a.tsv", {"corpus": ("a.tsv",), "alignments": "a.txt"}),
        ("prepared", "v.tsv", {"prepared": "shards", "valid": ("v.tsv",)}),
    ],
)
def test_a_moved_file_of_the_corpus_is_named_with_the_option_that_passes_its_new_path(
    option, kept, fields, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    write_origin(run, CorpusOptions(**fields))
    require_corpus(run, read_origin(run))  # not yet a run
    write_recipe(run, TINY_RECIPE)
    Path(kept).touch()
    with pytest.raises(
        FileNotFoundError, match=rf"^--{option}: .*{tmp_path}/\w.* does not exist.* pass --{option} with"
    ):
        require_corpus(run, read_origin(run))
    require_corpus(run, CorpusOptions(("typed.tsv",)))  # reading the file reports that it is missing


@pytest.mark.parametrize("other", [{"train": "6f"}, {"train": "5e", "alignments": "6f"}, {}])
def test_a_renamed_corpus_is_the_same_corpus(other, tmp_path):
    facts = {"name": "pairs", "pairs": {"train": 7}, "sha256": {"train": "5e"}}
    (tmp_path / "corpus.json").write_text(json.dumps(facts))
    refuse_other_corpus(tmp_path, {**facts, "name": "other"})
    with pytest.raises(ValueError, match="another corpus"):
        refuse_other_corpus(tmp_path, {**facts, "name": "other", "sha256": other})
