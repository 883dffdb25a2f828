"""Run directories: contents, refused settings, and export."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from bigram import Killed
from tiny import TINY_RECIPE, contents, randomise, save_little, save_weights

import nmt_keras
from nmt_keras.config import PairFilters, Recipe, RunOptions
from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.export import read_manifest
from nmt_keras.export.card import CARD
from nmt_keras.layers.matmul import weights_read_once
from nmt_keras.models.seq2seq import build_model
from nmt_keras.runs import Run
from nmt_keras.runs.directory import is_run
from nmt_keras.runs.training_data import training_data
from nmt_keras.text import fit_tokenizer
from nmt_keras.training import Updater, checkpoints, checkpoints_in, identify_best, read_log
from nmt_keras.training.checkpoints import STATE


@pytest.fixture
def folder(run_folder, tmp_path):
    """A copy of the run directory. Tests may change it."""
    return Path(shutil.copytree(run_folder, tmp_path / "copy"))


def test_vocabularies_are_learnt_from_the_training_set_alone(run_folder, corpus, tmp_path):
    for number, side in enumerate(("source", "target")):
        for part, pairs in {"train": corpus.train, "more": [*corpus.train, *corpus.valid]}.items():
            fit_tokenizer(getattr(TINY_RECIPE, side), [pair[number] for pair in pairs]).save(tmp_path / part)
        held, train, more = (contents(folder) for folder in (run_folder / side, tmp_path / "train", tmp_path / "more"))
        assert held == train != more


def test_a_run_directory_of_another_format_is_refused(folder):
    path = folder / "recipe.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 4}))
    with pytest.raises(ValueError, match=r"recipe\.json: expected format 3, received 4, written by nmt_keras "):
        Run(folder)


def test_weights_of_another_format_are_refused_with_the_version_that_reads_them(run_folder, monkeypatch):
    monkeypatch.setattr(checkpoints, "FORMAT", checkpoints.FORMAT + 1)
    version = nmt_keras.__version__
    with pytest.raises(
        ValueError, match=rf"best/ckpt-\d+: expected format \d, received \d, written by nmt_keras {version}"
    ):
        Run(run_folder).translator()


@pytest.mark.parametrize(
    ("drop_identical", "drop_duplicates", "kept"),
    [(True, True, 2), (True, False, 3), (False, True, 3), (False, False, 4)],
)
def test_identical_sides_and_duplicates_are_skipped_in_the_training_set_with_their_alignments(
    run_folder, drop_identical, drop_duplicates, kept
):
    train = [Pair("a", "b"), Pair("No.", " No. "), Pair("a", "c"), Pair("a", "b")]
    given = SplitCorpus("pairs", train, train, [], alignments=["0-0", "", "0-0 0-0", "0-0"])
    filters, said = PairFilters(drop_identical=drop_identical, drop_duplicates=drop_duplicates), []
    data = training_data(given, replace(Run(run_folder).recipe, filters=filters), said.append)
    assert data.facts["pairs"] == {"train": kept, "valid": 4, "test": 0}
    assert [line.split()[0] for line in said] == ["1"] * (4 - kept)


@pytest.mark.parametrize(("text_limit", "limit", "name"), [(30, 2, "TrainConfig"), (2, 30, "TokenizerConfig")])
def test_a_corpus_of_long_sentences_alone_names_the_setting(run_folder, corpus, tmp_path, text_limit, limit, name):
    recipe = Run(run_folder).recipe
    text = replace(recipe.source, max_tokens=text_limit)
    recipe = replace(recipe, source=text, target=text, train=replace(recipe.train, max_tokens=limit))
    with pytest.raises(ValueError, match=rf"^{name}\.max_tokens: .*at most 2 tokens"):
        Run(tmp_path / "run", recipe).train(corpus, lambda _: None, lambda *_: None)


def test_scores_and_exports_name_their_own_checkpoint_even_if_training_writes_a_better_one(
    folder, corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(tf.saved_model, "save", save_little)  # no graph is traced
    run = Run(folder)
    assert run.scores() == {}
    translator, before = run.translator(), identify_best(run.folder / "checkpoints")
    better = run.translator().model
    randomise(better, 5)
    save_weights(better, run.folder / "checkpoints", before.step + 10)
    assert identify_best(run.folder / "checkpoints").step == before.step + 10
    found = run.evaluate(translator, "valid", corpus.valid)
    score = run.scores(before)["valid"]
    wanted = before.step, round(found.bleu, 2), "greedy, max tokens 12"
    assert (score["step"], score["bleu"], score["search"]) == wanted
    assert run.scores() == run.scores(before._replace(sha256="0a1b")) == {}
    version = run.export(translator, tmp_path / "model")
    manifest, card = read_manifest(version), (version / CARD).read_text("utf-8")
    assert Recipe.from_json(json.dumps(manifest["recipe"])) == run.recipe
    assert manifest["corpus"]["name"] == "sample"
    assert [each["step"] for each in manifest["checkpoints"]] == [before.step]
    assert manifest["scores"]["valid"] == score
    assert "Licence of the data: not recorded." in card
    assert "nmt train" not in card  # the recipe has no name in RECIPES
    again = read_manifest(run.export(run.translator(), tmp_path / "model"))
    assert [each["step"] for each in again["checkpoints"]] == [before.step + 10]
    assert again["scores"] == {}


def test_after_a_start_that_failed_the_same_command_may_have_another_recipe(corpus, tmp_path):
    """A new run does not begin with the initial weights that a killed one has left."""
    (tmp_path / "initial" / "best").mkdir(parents=True)
    recipe = replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, steps=1))
    short = Run(tmp_path, replace(recipe, train=replace(recipe.train, max_tokens=2)))
    with pytest.raises(ValueError, match=r"TrainConfig\.max_tokens: expected a pair of at most"):
        short.train(corpus, lambda _: None, lambda *_: None)
    assert not is_run(tmp_path)
    assert not (tmp_path / "initial").exists()

    def report(sentence):
        if "cut in 1 pair of the validation set; the first is pair 1" in sentence:
            raise Killed  # before anything is traced

    cut = corpus._replace(valid=[Pair("uno " * 90, "one"), *corpus.valid])
    with pytest.raises(Killed):
        Run(tmp_path, recipe).train(cut, report, lambda *_: None)
    assert Run(tmp_path).recipe == recipe


@pytest.mark.parametrize(
    "names", [["corpus.json"], ["log.jsonl"], ["initial/notes.txt"], ["source/text.json", "prepared.json"]]
)
def test_a_new_run_overwrites_no_file_of_another_kind_and_no_prepared_corpus(corpus, tmp_path, names):
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=rf"^run: expected a new folder or a run, received .*{names[-1]}"):
        Run(tmp_path, TINY_RECIPE).train(corpus, lambda _: None, lambda *_: None)
    assert contents(tmp_path) == dict.fromkeys(names, b"mine")


def test_a_run_is_not_fine_tuned_into_itself(folder, corpus):
    with pytest.raises(ValueError, match=r"expected another directory than RunOptions\.init_from"):
        Run(folder).train(corpus, lambda _: None, lambda *_: None, RunOptions(init_from=f"{folder}/../{folder.name}"))


def test_a_damaged_best_checkpoint_is_not_copied_into_a_new_run(folder, corpus, tmp_path):
    (best,) = (folder / "checkpoints" / "best").glob("ckpt-*/*.data-*")
    best.write_bytes(best.read_bytes()[:100])
    tuned = Run(tmp_path / "tuned", Run(folder).recipe)
    with pytest.raises(ValueError, match=r"best/ckpt-\d+: expected an intact checkpoint"):
        tuned.train(corpus, lambda _: None, lambda *_: None, RunOptions(init_from=str(folder)))
    assert not (tmp_path / "tuned" / "recipe.json").exists()


def test_a_translator_has_every_weight_that_was_trained(run_folder):
    """The optimizer's references to the weights give the expected values."""
    model = Run(run_folder).translator().model
    checkpoint = str(checkpoints_in(run_folder / "checkpoints" / "best")[-1] / STATE)
    updater = Updater(
        build_model(TINY_RECIPE.model, model.source_vocabulary_size, model.target_vocabulary_size), TINY_RECIPE.train
    )
    tf.train.Checkpoint(optimizer=updater.optimizer).restore(checkpoint).expect_partial()
    for found, wanted in zip(model.trainable_variables, updater.variables, strict=True):
        np.testing.assert_array_equal(found, wanted, err_msg=found.path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("precision", "policy", "products"),
    [
        ("mixed_bfloat16", "mixed_bfloat16", None),
        pytest.param("bfloat16-products", "float32", "bfloat16-products", marks=pytest.mark.slow),
    ],
)
def test_a_run_computes_in_the_precision_of_its_recipe_and_translates_in_single(
    corpus, tmp_path, monkeypatch, precision, policy, products
):
    seen, history = set(), keras.callbacks.History()

    def noted(model, precision):
        seen.add((model.dtype_policy.name, precision))
        return weights_read_once(model, precision=precision)

    monkeypatch.setattr("nmt_keras.training.updater.weights_read_once", noted)
    settings = replace(TINY_RECIPE.train, steps=1, precision=precision, xla=products is not None)
    run = Run(tmp_path, replace(TINY_RECIPE, train=settings))
    run.train(corpus, lambda _: None, lambda *_: None, callbacks=[history])
    assert seen == {(policy, products)}
    assert run.translator().model.encoder.compute_dtype == "float32"
    rows = read_log(tmp_path / "log.jsonl")
    assert history.history["val_bleu"] == [row["valid_bleu"] for row in rows if "valid_bleu" in row]
