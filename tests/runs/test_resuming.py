"""Exact resume: a stopped run ends with the weights of an undisturbed run, or it is refused."""

import os
import re
import resource
import shutil
import threading
from dataclasses import dataclass, replace

import pytest
from bigram import Bigram, assert_same_checkpoints, config, interrupt, kill
from bigram import Run as Trained
from tiny import TINY_RECIPE

from nmt_keras.config import TokenizerConfig
from nmt_keras.runs.training_data import training_data
from nmt_keras.text import Codec
from nmt_keras.training import (
    Checkpoints,
    Progress,
    Updater,
    checkpoints_in,
    copy_best,
    is_finished,
    load_weights,
    read_log,
)
from nmt_keras.training.checkpoints import set_damaged_aside


@pytest.fixture
def stopped(batches, tmp_path):
    """A run that was stopped after 9 steps, with checkpoints of steps 5 and 9."""
    Trained(batches, tmp_path, at={9: interrupt}).until_stopped()
    return tmp_path


@pytest.mark.parametrize("name", ["es-en [v2] año", "caf\udce9"])
def test_a_run_in_a_folder_of_any_name_resumes_and_none_of_its_checkpoints_is_set_aside(batches, tmp_path, name):
    folder = tmp_path / name
    Trained(batches, folder, at={9: interrupt}).until_stopped()
    assert not is_finished(folder)
    assert Trained(batches, folder, at={11: interrupt}).until_stopped(previous=True).steps == [10, 11]
    copy_best(folder / "checkpoints", tmp_path / f"copy of {name}")
    for other in (name, "a[", "b]\\[c", "*?"):
        folder = folder.rename(tmp_path / other)
        assert load_weights(Bigram(), folder / "checkpoints").step == 5


# Exact equality


@pytest.mark.parametrize(
    "fields",
    [
        {"gradient_accumulation_steps": 2, "decay": "halving", "optimizer": "adadelta"},
        {"precision": "mixed_float16"},
        pytest.param({"xla": True}, marks=pytest.mark.slow),
    ],
    ids=["many options", "float16", "XLA"],
)
@pytest.mark.long
def test_a_run_killed_at_any_place_ends_with_the_weights_of_one_that_was_not(batches, tmp_path, fields, dtype_policy):
    dtype_policy(fields.get("precision", "float32"))
    settings, losses = config(checkpoint_every=2, log_every=1, **fields), (3.0, 3.5, 2.0, 2.5)
    whole = Trained(batches, tmp_path / "whole", settings, losses=losses)()
    killed = tmp_path / "killed"
    for step, seen in ((7, losses), (12, losses[1:]), (18, losses[2:])):  # validations follow steps 5, 10, 15 and 20
        Trained(batches, killed, settings, losses=seen, at={step: kill}).until_stopped()
    assert len(read_log(killed / "log.jsonl")) == 18 + 3  # steps and validations
    last = Trained(batches, killed, settings, losses=losses[3:])()
    assert (last.steps, last.validated) == ([17, 18, 19, 20], [20])
    assert_same_checkpoints(killed, whole.folder)
    assert _rows(killed) == _rows(whole.folder)


def _rows(folder):
    timed = ("tokens_per_s", "seconds", "seconds_left")
    return [{name: row[name] for name in row.keys() - timed} for row in read_log(folder / "log.jsonl")]


# Signals


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # an interrupt in Path.iterdir leaves its iterator open
@pytest.mark.usefixtures("_python_s_own_interrupt_handler")
@pytest.mark.parametrize("delay", [0.0, 0.006])
def test_a_second_interrupt_at_any_moment_of_saving_leaves_a_whole_checkpoint(batches, tmp_path, delay):
    second = threading.Timer(delay, interrupt)

    def both():
        interrupt()
        second.start()

    def run_and_wait():
        try:
            Trained(batches, tmp_path, at={7: both})()
        finally:
            second.join()  # the second interrupt may come after the run

    with pytest.raises(KeyboardInterrupt):
        run_and_wait()
    assert load_weights(Bigram(), tmp_path / "checkpoints").step == 5  # the best checkpoint
    again = Trained(batches, tmp_path, at={8: kill}).until_stopped()
    assert again.steps[0] in (6, 8)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_names_are_copied_where_they_vary(corpus, share):
    text = TokenizerConfig("subword", 500)
    recipe = replace(TINY_RECIPE, source=text, target=text, train=replace(TINY_RECIPE.train, augmentation=share))
    codec = Codec(*training_data(corpus, recipe, lambda _: None).fit(None))
    assert (codec.encode_source(["Vive en Xochimilco."]).copies is not None) == (share > 0.0)


# Refusals


def damage(folder, step, name="last"):
    (path,) = (folder / "checkpoints" / name / f"ckpt-{step}").glob("*.data*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_refused_and_the_whole_one_before_it_is_named_and_taken_when_asked_for(
    batches, stopped
):
    damage(stopped, 9)
    with pytest.raises(ValueError, match=r"last/ckpt-9: .*ckpt-5.*RunOptions\.previous"):
        Trained(batches, stopped)()
    again = Trained(batches, stopped, at={6: kill}).until_stopped(previous=True)
    assert re.search(r"set aside ckpt-9\b.*ckpt-5$", again.reports[0])
    assert "resuming at step 5 of 20" in again.reports
    last = Trained(batches, stopped, at={8: interrupt}).until_stopped(previous=True)
    assert "set aside" not in last.reports[0]
    assert [path.name for path in checkpoints_in(stopped / "checkpoints" / "last")] == ["ckpt-5", "ckpt-8"]


def test_a_checkpoint_that_the_system_does_not_open_is_not_called_damaged(batches, stopped):
    limits, next_file = resource.getrlimit(resource.RLIMIT_NOFILE), os.dup(0)
    os.close(next_file)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_file + 1, limits[1]))
        with pytest.raises(OSError, match=r"ckpt-9: cannot be read; Too many open files\. .*ulimit -n"):
            set_damaged_aside(stopped / "checkpoints", print)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert Trained(batches, stopped, at={11: interrupt}).until_stopped(previous=True).steps == [10, 11]


def test_where_no_checkpoint_is_whole_none_is_taken(batches, stopped):
    damage(stopped, 5)
    damage(stopped, 9)
    with pytest.raises(ValueError, match=r"last/ckpt-9: expected an intact checkpoint") as refusal:
        Trained(batches, stopped)(previous=True)
    assert "RunOptions.previous" not in str(refusal.value)


@pytest.mark.parametrize(("name", "kept"), [("last", ["ckpt-3", "ckpt-5"]), ("best", ["ckpt-5"])])
def test_the_next_save_removes_checkpoints_that_a_killed_process_left(tmp_path, name, kept):
    saved, folder = Checkpoints(tmp_path, Updater(Bigram(), config(max_to_keep=2))), tmp_path / name
    saved.save(name, Progress(step=3))
    for left in ("ckpt-1", "ckpt-2", "ckpt-6.partial"):  # not yet removed, and not yet whole
        shutil.copytree(folder / "ckpt-3", folder / left)
    saved.save(name, Progress(step=5))
    assert [path.name for path in checkpoints_in(folder)] == kept
    assert len(list(folder.iterdir())) == len(kept)


def test_a_checkpoint_of_an_earlier_version_may_hold_a_removed_field_at_its_default(tmp_path):
    @dataclass
    class Earlier(Progress):
        reductions: int = 0

    saved = Checkpoints(tmp_path, Updater(Bigram(), config()))
    saved.save("last", Earlier(step=3))
    assert saved.restore() == Progress(step=3)
    saved.save("last", Earlier(step=4, reductions=2))
    with pytest.raises(
        ValueError, match=r"ckpt-4: .*reductions: expected the former default of this removed field, 0, received 2"
    ):
        saved.restore()


def test_a_best_checkpoint_that_arrived_by_half_gives_way_when_asked_to(batches, stopped):
    (data,) = (stopped / "checkpoints" / "best" / "ckpt-5").glob("*.data-*")
    data.unlink()
    with pytest.raises(ValueError, match=r"best/ckpt-5: expected a checkpoint.*--previous"):
        load_weights(Bigram(), stopped / "checkpoints")
    again = Trained(batches, stopped, at={11: interrupt}, losses=[3.5])  # the loss of the lost checkpoint was 3
    again.until_stopped(previous=True)
    assert again.reports[0].endswith("set aside ckpt-5, which cannot be read; no checkpoint is left")
    assert load_weights(Bigram(), stopped / "checkpoints").step == 10


def test_a_checkpoint_of_other_shapes_is_refused_with_each_of_them(batches, stopped):
    with pytest.raises(ValueError, match=r"embedding: \[11, 3\] in .*, \[11, 5\] in .*kernel: \[3, 11\] in "):
        Trained(batches, stopped, model=Bigram(units=5))()


def test_a_checkpoint_of_another_run_is_refused_with_what_differs(batches, tmp_path):
    ours = {"train.learning_rate": 0.05, "vocabulary.source": "1f0c", "corpus.train": "77"}
    Trained(batches, tmp_path, at={3: interrupt}).until_stopped(identity=ours)
    theirs = {**ours, "vocabulary.source": "aa31", "train.a_field_of_a_later_version": 1}
    with pytest.raises(ValueError, match=r"vocabulary\.source: '1f0c' in .*, 'aa31' in ") as refusal:
        Trained(batches, tmp_path)(identity=theirs)
    assert "train." not in str(refusal.value)


# Disks


def test_a_full_disk_is_told_and_leaves_the_last_checkpoint_whole_and_no_litter(batches, tmp_path):
    """A limit on the size of files simulates a full disk: further writes fail."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    settings = config(log_every=100)  # a row of the log would fail first

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))

    try:
        with pytest.raises(OSError, match=r"ckpt-10: could not be written.*MiB are free.*ckpt-5.*Make room"):
            Trained(batches, tmp_path, settings, at={9: fill})()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    last = tmp_path / "checkpoints" / "last"
    assert [path.name for path in last.iterdir()] == ["ckpt-5"]
    assert Trained(batches, tmp_path, settings)().steps[0] == 6
