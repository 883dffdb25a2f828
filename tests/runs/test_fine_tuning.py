"""Fine-tuning: a run starts with the weights of another run."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tensorflow as tf
from bigram import Killed
from tensors import assert_same
from tiny import TINY_RECIPE, save_little, save_variables

from nmt_keras.config import RunOptions
from nmt_keras.corpus import CorpusOptions, SplitCorpus
from nmt_keras.export import read_manifest
from nmt_keras.export.card import CARD
from nmt_keras.io.files import read_json
from nmt_keras.runs import Run
from nmt_keras.runs.directory import read_ancestors, read_origin, write_origin

TRAIN = replace(TINY_RECIPE.train, steps=4, validations=2, log_every=1)
RECIPE = replace(TINY_RECIPE, train=TRAIN)


@pytest.fixture
def fine_tune(pairs):
    """Trains a run on fewer pairs. A vocabulary fitted on them would differ."""

    def train(folder, source, steps, rate=0.01, show=lambda *_: None):
        run = Run(folder, replace(RECIPE, train=replace(TRAIN, steps=steps, learning_rate=rate, checkpoint_every=1)))
        corpus = SplitCorpus("other", pairs[40:70], pairs[80:100], pairs[100:])
        run.train(corpus, lambda _: None, show, RunOptions(init_from=source))
        return run

    return train


def weights(run):
    return [variable.numpy() for variable in run.translator().model.variables]


def stopping(at):
    """Returns a progress callback that kills the training after update number ``at``."""

    def show(step, *_):
        if step == at:
            raise Killed

    return show


def test_a_fine_tuned_run_begins_with_the_weights_and_vocabularies_of_another(run_folder, fine_tune, tmp_path):
    """The same holds if the run is killed before its first checkpoint. The rate is too low to change weights."""
    with pytest.raises(Killed):
        fine_tune(tmp_path, str(run_folder), 1, rate=1e-30, show=stopping(1))
    assert_same(weights(fine_tune(tmp_path, None, 1, rate=1e-30)), weights(Run(run_folder)), rtol=1e-6, atol=0.0)
    for side in ("source", "target"):
        for file in (run_folder / side).iterdir():
            assert (tmp_path / side / file.name).read_bytes() == file.read_bytes()


def test_a_fine_tuned_run_begins_with_an_exported_version_and_records_it(run_folder, fine_tune, tmp_path, monkeypatch):
    """The rate is too low to change weights."""
    monkeypatch.setattr(tf.saved_model, "save", save_variables)
    source = Run(run_folder)
    version = source.export(source.translator(), tmp_path / "model")
    tuned = fine_tune(tmp_path / "tuned", str(tmp_path / "model"), 1, rate=1e-30)
    fine_tune(tuned.folder, str(version), 1, rate=1e-30)  # the same call again
    assert_same(weights(tuned), weights(source), rtol=1e-6, atol=0.0)
    for side in ("source", "target"):
        assert read_json(tuned.folder / side / "text.json") == read_json(run_folder / side / "text.json")
    (ancestor,) = tuned.facts(tuned.translator(), (None, None))["ancestors"]
    assert ancestor == {
        "run": "model/1",
        "checkpoint": source.translator().checkpoints[0]._asdict(),
        "corpus": read_json(run_folder / "corpus.json"),
    }


def test_only_tokenizers_and_weights_are_copied_from_another_run_and_no_links_are_followed(
    run_folder, fine_tune, tmp_path
):
    source = shutil.copytree(run_folder, tmp_path / "from")
    (best,) = (source / "checkpoints" / "best").glob("ckpt-*")
    for folder in (source / "source", source / "target", best):
        (folder / "key").symlink_to(__file__)
    with pytest.raises(Killed):
        fine_tune(tmp_path / "tuned", str(source), 1, show=stopping(1))
    assert list((tmp_path / "tuned").rglob("key")) == []
    (weights,) = best.glob("state.data-*")
    weights.symlink_to(weights.rename(tmp_path / "secret"))
    with pytest.raises(ValueError, match=r"state\.data.*: expected a file of the run, received 'a link to .*secret'"):
        fine_tune(tmp_path / "other", str(source), 1)


def test_a_fine_tuned_run_has_the_tokenizers_of_the_other_and_records_it_with_its_corpus(
    run_folder, fine_tune, tmp_path, corpus, monkeypatch
):
    monkeypatch.setattr(tf.saved_model, "save", save_little)
    other = replace(RECIPE, target=replace(RECIPE.target, vocabulary_size=150))
    with pytest.raises(ValueError, match=r"^--target\.vocabulary-size: expected none .*, received \[150\]\. Remove"):
        Run(tmp_path / "other", other).train(
            corpus, lambda _: None, lambda *_: None, RunOptions(init_from=str(run_folder))
        )
    first = fine_tune(tmp_path / "first", str(run_folder), 1)
    second = fine_tune(tmp_path / "second", str(first.folder), 1)
    write_origin(second.folder, CorpusOptions(corpus=("mine.tsv",)), read_ancestors(second.folder))
    fine_tune(second.folder, str(first.folder), 1)  # the same call again
    assert read_origin(second.folder).corpus == (str(Path("mine.tsv").resolve()),)
    with pytest.raises(ValueError, match=rf"init_from: expected the run that .* began with, {first.folder}, received"):
        fine_tune(second.folder, str(run_folder), 1)
    with pytest.raises(ValueError, match=r"init_from: expected the run that .* began with, none, received"):
        Run(run_folder).train(corpus, lambda _: None, lambda *_: None, RunOptions(init_from=str(first.folder)))
    version = second.export(second.translator(), tmp_path / "model")
    found = read_manifest(version)["ancestors"]
    assert [(each["run"], each["corpus"]["name"]) for each in found] == [("first", "other"), ("tiny", "sample")]
    assert found[1]["corpus"] == read_json(run_folder / "corpus.json")
    assert all(
        name in (version / CARD).read_text()
        for name in (" of first", " of tiny", found[1]["corpus"]["sha256"]["train"])
    )


@pytest.mark.slow
def test_a_fine_tuned_run_resumes_exactly(run_folder, fine_tune, tmp_path):
    whole = fine_tune(tmp_path / "whole", str(run_folder), 4)
    with pytest.raises(Killed):
        fine_tune(tmp_path / "killed", str(run_folder), 4, show=stopping(3))
    assert_same(weights(fine_tune(tmp_path / "killed", None, 4)), weights(whole), rtol=0.0, atol=0.0)
