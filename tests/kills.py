"""Kills training, export, prepare, bulk translation and publishing at random system calls, and checks their files.

    PYTHONPATH=. python tests/kills.py --kills 40 --seed 1

Each kill starts the work in a new process. strace sends SIGKILL when the process enters one of the system calls that
change a file. The call is drawn from those of an undisturbed run. Another process then reads the folder as a user
would: nothing may be partially visible, and nothing that was reported as done may be missing. It then completes the
work and compares the result with that of the undisturbed run.

The program prints the number of kills by work and system call as JSON. The same seed draws the same calls, but possibly
at other points of the work, because TensorFlow's threads write files in no fixed order. strace attaches to a process
that it has not started. Ubuntu allows this after ``sudo sysctl kernel.yama.ptrace_scope=0``.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")

import tensorflow as tf
import tyro
from reverser import export_reverser
from servers import running_server
from tiny import TINY_RECIPE, TINY_TEXT

import nmt_keras
from nmt_keras.config import FilterConfig, RunOptions
from nmt_keras.corpus import SplitCorpus
from nmt_keras.corpus.preparing import prepare
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.corpus.shards import PreparedCorpus
from nmt_keras.export.versions import prune, publish, versions
from nmt_keras.files import PARTIAL
from nmt_keras.runs import Run
from nmt_keras.runs.directory import is_run
from nmt_keras.runs.training import load_tokenizers
from nmt_keras.training import is_finished, read_log
from nmt_keras.training.checkpoint_index import is_whole, newest, recorded, step_of
from serve.bulk import translate_file
from serve.client import Client

STRACE = shutil.which("strace")

CALLS = (
    *("openat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "renameat", "renameat2", "link"),
    *("linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "chmod", "fchmod", "fchmodat"),
)
"""System calls that change files."""

TRACED = ",".join(f"?{name}" for name in CALLS)
"""The system calls for strace. The question mark permits calls that the processor's architecture lacks."""

LIMIT = 300.0
"""Time limit of a process in seconds."""

Files = dict[str, bytes]


def files_below(folder: Path) -> Files:
    """Returns the contents of the files below a folder, without partially written files and lock files."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != PARTIAL and path.name != "lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


class Work(ABC):
    """A piece of work. It changes only files below a folder ``at``. Its input is in ``base``."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def set_up(self) -> None:
        """Writes the input. Called once, in a separate process."""
        return

    @abstractmethod
    def do(self, at: Path, done: Callable[[int], None]) -> None:
        """Does the work or the rest of it. Calls ``done`` with the increasing number of results that must survive."""

    @abstractmethod
    def look(self, at: Path, done: int, whole: Path) -> None:
        """Asserts that ``done`` or more results are visible and complete. ``whole`` is an undisturbed run's folder."""

    @abstractmethod
    def result(self, at: Path) -> Any:
        """Returns the result, which must be equal after each completion."""


class Training(Work):
    """Trains a run with a checkpoint after each update."""

    recipe = replace(
        TINY_RECIPE,
        train=replace(TINY_RECIPE.train, steps=8, checkpoint_every=1, validations=4, log_every=1, max_to_keep=2),
    )
    pairs = sample_pairs()[:120]

    def do(self, at: Path, done: Callable[[int], None]) -> None:
        corpus = SplitCorpus("sample", self.pairs[:80], self.pairs[80:100], self.pairs[100:])
        Run(at / "run", self.recipe).train(
            corpus,
            report=lambda _: None,
            show=lambda step, *_: done(step - 1),  # the checkpoint of this step follows
            options=RunOptions(deterministic=True),
        )

    def look(self, at: Path, done: int, whole: Path) -> None:
        run = at / "run"
        if is_run(run):
            assert Run(run).recipe == self.recipe
            load_tokenizers(run)
        steps = [row["step"] for row in read_log(run / "log.jsonl")]
        assert steps == sorted(steps)
        for folder in (run / "checkpoints" / "last", run / "checkpoints" / "best"):
            assert all(is_whole(folder / name) for name in recorded(folder))
        last = newest(run / "checkpoints" / "last")
        assert done <= (step_of(last.name) if last else 0)
        assert is_finished(run) in (False, True)

    def result(self, at: Path) -> Any:
        run = at / "run"
        assert is_finished(run)
        states = []
        for name in ("last", "best"):
            reader = tf.train.load_checkpoint(str(newest(run / "checkpoints" / name)))
            timed = "save_counter|progress/(seconds|compilation|validation_seconds)"
            names = [n for n in reader.get_variable_to_shape_map() if not re.match(timed, n)]
            states.append({n: reader.get_tensor(n) for n in names if "CHECKPOINTABLE" not in n})
        timed = ("tokens_per_s", "seconds_left")
        rows = [{k: v for k, v in row.items() if k not in timed} for row in read_log(run / "log.jsonl")]
        exact = [{n: value.tobytes() if hasattr(value, "tobytes") else value for n, value in s.items()} for s in states]
        return exact, rows, files_below(run / "source"), files_below(run / "target")


class Export(Training):
    """Exports a trained run."""

    def set_up(self) -> None:
        super().do(self.base, lambda _: None)

    def do(self, at: Path, done: Callable[[int], None]) -> None:
        run = Run(self.base / "run")
        done(int(run.export(run.translator(), at / "models", max_to_keep=2).name))

    def look(self, at: Path, done: int, whole: Path) -> None:
        found = versions(at / "models")
        assert done <= max(found, default=0)
        wanted = {name: len(content) for name, content in files_below(whole / "models" / "1").items()}
        for version in found:
            there = {name: len(content) for name, content in files_below(at / "models" / str(version)).items()}
            assert there.keys() == wanted.keys()
            assert all(there[name] == size for name, size in wanted.items() if "variables" in name)

    def result(self, at: Path) -> Any:
        translations = nmt_keras.load(at / "models").translate([pair.source for pair in self.pairs[100:104]])
        return versions(at / "models"), [found.text for found in translations]


class Prepare(Work):
    """Prepares a corpus."""

    def set_up(self) -> None:
        lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in sample_pairs()[:300])
        (self.base / "pairs.tsv").write_text(lines, "utf-8")

    def do(self, at: Path, done: Callable[[int], None]) -> None:
        if not (at / "prepared" / "prepared.json").exists():
            prepare([self.base / "pairs.tsv"], at / "prepared", TINY_TEXT, TINY_TEXT, FilterConfig(), shards=3)
        done(1)

    def look(self, at: Path, done: int, whole: Path) -> None:
        try:
            corpus = PreparedCorpus(at / "prepared")
        except FileNotFoundError:
            assert not done
            return
        corpus.require_its_vocabularies()
        for name, content in files_below(whole / "prepared").items():
            assert (at / "prepared" / name).read_bytes() == content

    def result(self, at: Path) -> Any:
        return files_below(at / "prepared")


class Bulk(Work):
    """Translates a file with a server. Its address is in the environment variable SERVER."""

    lines = tuple(f"a{number} b c" for number in range(400))

    def set_up(self) -> None:
        (self.base / "in").write_text("".join(f"{line}\n" for line in self.lines))

    def do(self, at: Path, done: Callable[[int], None]) -> None:
        with Client(os.environ["SERVER"], "reverser") as client:
            translate_file(client, (self.base / "in").read_text().splitlines(), at / "out", batch=8, workers=2)
        done(len(self.lines))

    def look(self, at: Path, done: int, whole: Path) -> None:
        content = (at / "out").read_bytes() if (at / "out").exists() else b""
        assert (whole / "out").read_bytes().startswith(content)
        assert content.count(b"\n") >= done

    def result(self, at: Path) -> Any:
        assert (at / "out").read_text().splitlines() == [f"c b a{number}" for number in range(400)]


class Publish(Work):
    """Publishes versions and removes old ones."""

    def do(self, at: Path, done: Callable[[int], None]) -> None:
        def write(version: Path) -> None:
            (version / "variables").mkdir()
            for name in ("saved_model.pb", "variables/data", "variables/index"):
                (version / name).write_text(version.name)

        for _ in range(5):
            done(int(publish(at / "models", write).name))
            prune(at / "models", max_to_keep=2)

    def look(self, at: Path, done: int, whole: Path) -> None:
        found = versions(at / "models")
        assert done <= max(found, default=0)
        assert len(found) >= min(done, 2)
        for version in found:
            contents = files_below(at / "models" / str(version))
            assert contents.keys() == {"saved_model.pb", "variables/data", "variables/index"}
            assert len(set(contents.values())) == 1

    def result(self, at: Path) -> Any:
        self.look(at, 0, at)
        return len(versions(at / "models")), [path.name for path in (at / "models").glob("deleted-*")]


WORKS = {work.__name__.lower(): work for work in (Training, Export, Prepare, Bulk, Publish)}


@contextmanager
def forked(function: Callable[[], None], log: Path):
    """Forks a process that waits. Yields its id and a function that makes it call ``function``."""
    waits, goes = os.pipe()
    number = os.fork()
    if number == 0:
        code = 1
        try:
            os.close(goes)
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            os.read(waits, 1)
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(waits)
    try:
        yield number, lambda: os.close(goes)
    except BaseException:
        with suppress(ProcessLookupError):  # the process may have ended
            os.kill(number, signal.SIGKILL)
        raise


def status(number: int) -> int:
    """Waits for a process. Returns its exit code, or the negative number of the signal that ended it."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found, code = os.waitpid(number, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(code)
        time.sleep(0.01)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    raise TimeoutError(f"process {number} hung")


def run(function: Callable[[], None], log: Path) -> None:
    """Calls ``function`` in a separate process, which must succeed."""
    with forked(function, log) as (number, start):
        start()
        assert status(number) == 0, log.read_text()


def traced(function: Callable[[], None], log: Path, trace: Path, *options: str) -> int:
    """Calls ``function`` in a separate process under strace. Returns the process's ``status``."""
    with forked(function, log) as (number, start):
        command = [str(STRACE), "-f", "-y", "-o", str(trace), "-e", f"trace={TRACED}", *options, "-p", str(number)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            message = strace.stderr.readline()
            assert "attached" in message, message
            start()
            return status(number)


def changes(trace: Path, at: Path) -> dict[str, list[int]]:
    """Returns the calls that changed files below ``at``, as {system call: positions among the calls of its thread}."""
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[str, list[int]] = {}
    for line in trace.read_text(errors="replace").splitlines():
        if match := re.match(r"(\d+) +(\w+)\((.*)", line):
            thread, call, rest = match.groups()
            counts[thread, call] += 1
            if str(at) in rest and not (call == "openat" and "O_RDONLY" in rest):
                found.setdefault(call, []).append(counts[thread, call])
    return found


@dataclass
class Options:
    """Kills pieces of work at random system calls and checks their files."""

    works: tuple[str, ...] = tuple(WORKS)
    """Pieces of work to kill."""
    kills: int = 40
    """Number of kills of each piece of work."""
    seed: int = 1
    """Seed of the drawn system calls."""
    folder: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    """Folder on the disk to test."""


def kill_and_check(work: Work, folder: Path, kills: int, rng: random.Random) -> dict[str, Any]:
    """Kills a piece of work ``kills`` times and checks its files. Returns the numbers of kills and of further runs."""
    log, whole, at, progress, trace = (folder / name for name in ("log", "whole", "at", "progress", "trace"))
    for each in (work.base, whole):
        each.mkdir(parents=True)
    run(work.set_up, log)

    def done(number: int) -> None:
        progress.write_text(str(number))

    def do(place: Path) -> Callable[[], None]:
        done(0)
        return lambda: work.do(place, done)

    assert traced(do(whole), log, trace) == 0, log.read_text()
    calls = changes(trace, whole)

    def check() -> None:
        work.look(at, int(progress.read_text() or 0), whole)
        do(at)()
        found, wanted = work.result(at), work.result(whole)
        assert found == wanted

    killed: Counter[str] = Counter()
    completed = 0
    while killed.total() < kills and completed <= kills:
        call = rng.choice(sorted(calls))
        number = rng.choice(calls[call])
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir()
        ended = traced(do(at), log, trace, "-e", f"inject={call}:signal=KILL:when={number}")
        assert ended in (0, -signal.SIGKILL), log.read_text()
        if ended:
            killed[call] += 1
        else:
            completed += 1  # the call was in another thread
        try:
            run(check, log)
        except AssertionError as error:
            raise AssertionError(f"{type(work).__name__}: killed at {call} number {number}: {at}") from error
        print(f"{type(work).__name__}: {killed.total()} kills, last at {call} {number}", file=sys.stderr, flush=True)
    assert killed.total() == kills, f"{type(work).__name__}: {completed} runs were not killed, {killed.total()} were."
    return {"kills": killed.total(), "by system call": dict(sorted(killed.items())), "not killed": completed}


def main(options: Options) -> None:
    """Prints the numbers of kills. Fails at the first kill with partial or lost results."""
    assert STRACE is not None, "strace is missing. On Debian: apt-get install strace"
    folder = Path(tempfile.mkdtemp(prefix="kills-", dir=options.folder))
    models = folder / "served"
    (models / "reverser").mkdir(parents=True)
    run(lambda: export_reverser(models / "reverser" / "1"), folder / "log")
    found: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "tensorflow": tf.__version__,
        "seed": options.seed,
    }
    with running_server(models) as url:
        os.environ["SERVER"] = url
        for name in options.works:
            work = WORKS[name](folder / name / "base")
            found[name] = kill_and_check(work, folder / name, options.kills, random.Random(f"{name} {options.seed}"))
    shutil.rmtree(folder)  # kept after a failure
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(tyro.cli(Options))
