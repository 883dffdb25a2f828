"""Power cuts: whenever the power fails, a reader finds the old content or the whole new content."""

import json
from dataclasses import replace

import pytest
import tensorflow as tf
from bigram import Bigram, config
from power_cut import power_cuts
from tiny import TINY_RECIPE, TINY_TEXT, contents, make_versions, write_pairs

from nmt_keras.config import FilterConfig
from nmt_keras.corpus.preparing import prepare
from nmt_keras.corpus.shards import PreparedCorpus, read_shard, remove_leftovers
from nmt_keras.export.versions import prune, publish, versions
from nmt_keras.runs.directory import read_recipe, write_recipe
from nmt_keras.text import load_tokenizer
from nmt_keras.training import Checkpoints, Progress, Updater, checkpoints_in, read_log
from nmt_keras.training.checkpoints import STATE, VALUE, is_whole
from nmt_keras.training.log import Log


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "disk"
    made.mkdir()
    return made


def assert_old_or_new(folder, work, read, old, new, into=None):
    """Asserts that every cut leaves ``old`` or ``new``, and ``new`` if ``work`` had returned."""
    seen = []
    for cut in power_cuts(folder, work, into or folder.parent / "cuts"):
        seen.append(read(cut.folder))
        assert seen[-1] in ([new] if cut.done else [old, new])
    assert old in seen


@pytest.mark.parametrize("old", [None, replace(TINY_RECIPE, name="old")], ids=["first", "again"])
def test_a_recipe_is_the_old_or_the_new_one(folder, old):
    if old is not None:
        write_recipe(folder, old)

    def read(folder):
        path = folder / "recipe.json"
        return read_recipe(path.parent) if path.exists() else None

    assert_old_or_new(folder, lambda: write_recipe(folder, TINY_RECIPE), read, old, TINY_RECIPE)


def test_a_row_of_the_log_is_whole_or_missing(folder):
    path = folder / "log.jsonl"
    log, rows = Log(path, 0), [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.5}]
    log.append(rows[0])
    assert_old_or_new(folder, lambda: log.append(rows[1]), lambda at: read_log(at / "log.jsonl"), rows[:1], rows)


@pytest.fixture
def checkpoints(folder):
    """The checkpoints of a new run."""
    return Checkpoints(folder / "checkpoints", Updater(Bigram(), config(max_to_keep=2)))


def _read_newest(folder, name):
    """Returns a field of the progress in the newest checkpoint, or 0 without a checkpoint."""
    found = checkpoints_in(folder)
    assert all(map(is_whole, found))
    if not found:
        return 0
    record = json.loads(tf.train.load_checkpoint(str(found[-1] / STATE)).get_tensor(f"record{VALUE}"))
    return record["progress"][name]


@pytest.mark.parametrize(("name", "earlier"), [("last", 0), ("last", 2), ("best", 0), ("best", 1)])
def test_the_newest_checkpoint_is_the_old_or_the_new_one_and_whole(folder, checkpoints, name, earlier):
    for step in range(1, earlier + 1):
        checkpoints.save(name, Progress(step=step))

    def save():
        checkpoints.save(name, Progress(step=earlier + 1))

    assert_old_or_new(folder, save, lambda at: _read_newest(at / "checkpoints" / name, "step"), earlier, earlier + 1)


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_checkpoint_of_a_repeated_step_is_the_old_or_the_new_one(folder, checkpoints, name):
    def read(at):
        return _read_newest(at / "checkpoints" / name, "validations")

    checkpoints.save(name, Progress(step=5, validations=1))
    for number in (2, 3):
        progress = Progress(step=5, validations=number)
        into = folder.parent / f"cuts {number}"
        assert_old_or_new(folder, lambda p=progress: checkpoints.save(name, p), read, number - 1, number, into)
    names = [path.name for path in checkpoints_in(folder / "checkpoints" / name)]
    assert names == ["ckpt-5.1", "ckpt-5.2"][-{"last": 2, "best": 1}[name] :]


def test_a_prepared_corpus_is_missing_or_whole(folder, pairs):
    file = write_pairs(folder.parent / "pairs.tsv", pairs[:20])
    place = folder / "prepared"

    def work():
        prepare([file], place, TINY_TEXT, TINY_TEXT, FilterConfig(), shards=2)

    def read(folder):
        try:
            corpus = PreparedCorpus(folder / "prepared")
        except FileNotFoundError:
            remove_leftovers(folder / "prepared")  # ``prepare`` begins with this call
            return None
        corpus.require_its_vocabularies()
        for side in ("source", "target"):
            load_tokenizer(corpus.folder / side)
        return sum(len(read_shard(file)[0]) for file in corpus.files[:2])

    assert_old_or_new(folder, work, read, None, 20)


def exported(folder):
    """Returns the files of each version of a model."""
    return {number: contents(folder / str(number)) for number in versions(folder)}


def test_a_version_is_missing_or_whole(folder):
    def write(version):
        (version / "variables").mkdir(parents=True)
        (version / "variables" / "variables.index").write_text("weights")
        (version / "saved_model.pb").write_text("graph")

    def work():
        publish(folder / "models" / "name", write)

    whole = {1: {"saved_model.pb": b"graph", "variables/variables.index": b"weights"}}
    assert_old_or_new(folder, work, lambda at: exported(at / "models" / "name"), {}, whole)


def test_a_deleted_version_is_whole_or_gone(folder):
    make_versions(folder, "1", "2")
    both = exported(folder)
    assert_old_or_new(folder, lambda: prune(folder, 1), exported, both, {2: both[2]})
