"""Compiled training steps are kept for the next start, and training is the same with and without them."""

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bigram import assert_same_checkpoints
from servers import ROOT
from tiny import TINY_RECIPE, write_pairs

from nmt_keras import cli, cores
from nmt_keras.cli import cache

FLAG = "--tf_xla_persistent_cache_directory"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The folder of all caches, in an environment without settings."""
    for name in ("NMT_COMPILATION_CACHE", "TF_XLA_FLAGS", "XLA_FLAGS", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nmt_keras"


def used(monkeypatch):
    """Returns the folder that a process uses for its cache."""
    with monkeypatch.context() as patch:  # restores TF_XLA_FLAGS
        patch.setenv("TF_XLA_FLAGS", os.environ.get("TF_XLA_FLAGS", ""))
        folder = cache.use_compilation_cache()
        assert (f"{FLAG}={folder}" in os.environ["TF_XLA_FLAGS"]) == (folder is not None)
        return folder


def test_the_folder_is_the_user_s_alone_and_the_same_in_the_next_process(root, monkeypatch):
    folder = used(monkeypatch)
    assert folder.parent == root
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert used(monkeypatch) == folder


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(cache, "version", lambda _: "0.1"),
        lambda patch: patch.setattr(cache, "PROCESSOR", Path(__file__)),
        lambda patch: patch.setattr(os, "sched_getaffinity", lambda _: range(77)),
        lambda patch: patch.setenv("TF_NUM_INTRAOP_THREADS", "77"),
        lambda patch: patch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true"),
        lambda patch: patch.setenv("TF_XLA_FLAGS", "--tf_xla_clustering_debug"),
    ],
    ids=["TensorFlow", "processor", "cores", "threads", "flags of XLA", "flags of TensorFlow"],
)
def test_another_machine_or_setting_has_another_folder(root, monkeypatch, change):
    before = used(monkeypatch)
    change(monkeypatch)
    assert used(monkeypatch) not in (None, before)


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setenv("NMT_COMPILATION_CACHE", "off"),
        lambda patch: patch.setenv("TF_XLA_FLAGS", f"{FLAG}=/elsewhere"),
        lambda patch: patch.setenv("XDG_CACHE_HOME", "relative"),
        lambda patch: [patch.delenv("XDG_CACHE_HOME"), patch.setattr(os.path, "expanduser", lambda path: path)],
    ],
    ids=["off", "another cache", "a relative path", "no home folder"],
)
def test_the_environment_switches_it_off_or_has_one_of_its_own(root, monkeypatch, change):
    change(monkeypatch)
    assert cache.use_compilation_cache() is None
    assert os.environ.get("TF_XLA_FLAGS", "") in ("", f"{FLAG}=/elsewhere")
    assert not root.exists()


def test_a_folder_that_cannot_be_written_or_a_gpu_driver_leaves_the_cache_off(root, monkeypatch, tmp_path):
    root.parent.mkdir()
    root.write_text("a file in its place")
    assert used(monkeypatch) is None
    root.unlink()
    monkeypatch.setattr(cache, "DRIVER", tmp_path)
    assert used(monkeypatch) is None


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("fault", ["open to others", "a link", "of another user"])
def test_a_folder_to_which_others_have_access_leaves_the_cache_off(root, monkeypatch, fault, keyed):
    """XLA executes the content."""
    folder = used(monkeypatch)
    place = folder if keyed else root
    if fault == "open to others":
        place.chmod(0o750)
    elif fault == "a link":
        place.rename(root.parent / "elsewhere")
        place.symlink_to(root.parent / "elsewhere")
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert used(monkeypatch) is None


def test_a_cache_that_is_too_large_loses_entries_that_no_starting_process_needs(root, monkeypatch):
    folder = used(monkeypatch)
    (folder / "entry.pb").write_bytes(bytes(100))
    for largest, age, kept in ((10_000, 7200, True), (50, 60, True), (50, 7200, False)):
        monkeypatch.setattr(cache, "LARGEST", largest)
        os.utime(folder / "entry.pb", (time.time() - age,) * 2)
        assert used(monkeypatch) == folder
        assert (folder / "entry.pb").exists() == kept


@pytest.mark.parametrize(
    ("command", "calls"),
    [("train", ["cache", "tensorflow"]), ("compare tutorial --updates 1 --to out", ["tensorflow"])],
)
def test_only_commands_that_can_empty_the_cache_after_an_error_use_it(tmp_path, monkeypatch, capsys, command, calls):
    """``nmt compare`` trains in child processes, whose errors it does not see."""
    found = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["nmt", *command.split(), "--corpus", "missing.tsv"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(cli, "use_compilation_cache", lambda: found.append("cache"))
    monkeypatch.setattr(cli, "import_tensorflow", lambda *_: found.append("tensorflow"))
    with pytest.raises(SystemExit):
        cli.main()
    assert "missing.tsv" in capsys.readouterr().err  # it failed when it loaded the corpus
    assert found == calls


# On real runs


class Commands:
    """Commands that train a tiny run with XLA, each in a process of its own."""

    def __init__(self, folder, pairs, precision):
        train = replace(
            TINY_RECIPE.train, steps=6, log_every=1, checkpoint_every=2, length_buckets=2, xla=True, precision=precision
        )
        (folder / "recipe.json").write_text(replace(TINY_RECIPE, train=train).to_json(), "utf-8")
        write_pairs(folder / "train.tsv", pairs[:80])
        write_pairs(folder / "valid.tsv", pairs[80:90])
        own = {"XDG_CACHE_HOME": str(folder / "cache"), "NMT_COMPILATION_CACHE": "", "PYTHONPATH": str(ROOT)}
        self.folder, self.environment = folder, {**os.environ, **own}

    def started(self, run, **environment):
        options = ["--corpus", "train.tsv", "--valid", "valid.tsv", "--run", run, "--deterministic"]
        return subprocess.Popen(
            [sys.executable, "-m", "nmt_keras", "train", "recipe.json", *options],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def train(self, run, code=0, **environment):
        """Trains and returns the output on standard error."""
        process = self.started(run, **environment)
        _, messages = process.communicate(timeout=400)
        assert process.returncode == code, messages[-3000:]
        return messages

    def kill_after(self, step, run):
        process = self.started(run)
        for line in process.stderr:
            if line.startswith(f"step {step} of"):
                break
        process.kill()
        process.communicate(timeout=60)

    @property
    def entries(self):
        return sorted((self.folder / "cache").rglob("*.pb"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "damage"),
    [
        ("float32", lambda content: content[:1000]),
        ("bfloat16-products", lambda content: content[: -len(content) // 2]),
    ],
)
def test_weights_do_not_depend_on_where_the_compiled_steps_come_from_and_damaged_steps_are_removed(
    pairs, tmp_path, precision, damage
):
    commands = Commands(tmp_path, pairs, precision)
    commands.train("without", NMT_COMPILATION_CACHE="off")
    assert commands.entries == []
    commands.kill_after(3, "killed")
    entries = commands.entries
    assert entries
    commands.train("killed")
    assert commands.entries == entries  # nothing was compiled again, even after the checkpoint was restored
    for entry in entries:
        entry.write_bytes(damage(entry.read_bytes()))
    assert "emptied the cache of compiled training steps" in commands.train("damaged", code=1)
    assert commands.entries == []
    commands.train("damaged")
    for run in ("killed", "damaged"):
        assert_same_checkpoints(tmp_path / run, tmp_path / "without")


@pytest.mark.parametrize(
    ("limit", "count"),
    [
        ("200000 100000", 2),
        ("max 100000", 8),
        ("150000 100000", 2),
        ("5000 100000", 1),
        ("9900000 100000", 8),
        (None, 8),
    ],
)
def test_the_limit_of_a_container_counts(limit, count, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(3, 11)})
    monkeypatch.setattr(cores, "CPU_MAX", tmp_path / "cpu.max")
    if limit is not None:
        cores.CPU_MAX.write_text(f"{limit}\n")
    assert cores.available_cores() == count
