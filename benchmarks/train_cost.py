#!/usr/bin/env python3
"""Measures how training scales with the size of the corpus, the length of sentences and the width of the model.

    python -m benchmarks.train_cost                     all three axes
    python -m benchmarks.train_cost --axes corpus       only the size of the corpus

Corpora are 1, 10 and 100 prepared shards of random ids with the sentence lengths of the built-in sample. They are read
from the disk, not from the page cache. A model is trained on each corpus for some updates. Then up to ten shards are
read without training. Every point is measured in separate processes, and the points of an axis take turns. Prints JSON
with the median of each point: target tokens per second, peak memory, seconds from opening the corpus to the first
batch, and pairs per second of the reader alone.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from benchmarks.machine import machine
from nmt_keras.cli.memory import keep_memory

SHARD = 100_000
"""Number of pairs per shard, the default of `nmt prepare` for large corpora."""
VOCABULARY = 5_000
Axis = Literal["corpus", "length", "width"]
POINTS: dict[Axis, tuple[int, ...]] = {
    "corpus": (1, 10, 100),  # shards
    "length": (10, 20, 40, 80),  # tokens of each side
    "width": (256, 512, 768, 1024),  # units
}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    axes: tuple[Axis, ...] = ("corpus", "length", "width")
    steps: int = 100
    """Number of updates per process, at least 40. The first 20 are not counted."""
    repetitions: int = 3
    """Number of processes per point."""
    one: tuple[str, str] | None = None
    """Axis and point to measure in this process. Used internally."""
    folder: Path = Path()
    """Folder of the shards. Used internally."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    if settings.one:
        print(json.dumps(measure(settings.one[0], int(settings.one[1]), settings)))
        return
    before = machine()
    found: dict[str, dict[int, Any]] = {}
    runs: dict[tuple[Axis, int], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "corpus" in settings.axes:
            write_corpora(Path(folder))
        for axis in settings.axes:
            for repetition, point in itertools.product(range(settings.repetitions), POINTS[axis]):
                options = ["--one", axis, str(point), "--folder", folder, "--steps", str(settings.steps)]
                command = [sys.executable, "-m", "benchmarks.train_cost", *options]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"train_cost: {axis} {point} failed:\n{done.stderr[-4000:]}")
                one = json.loads(done.stdout.splitlines()[-1])
                print(axis, point, repetition + 1, one, file=sys.stderr, flush=True)
                runs.setdefault((axis, point), []).append(one)
    for (axis, point), all_of in runs.items():
        found.setdefault(axis, {})[point] = medians(all_of)
    command_line = " ".join(["python -m benchmarks.train_cost", *sys.argv[1:]])
    print(json.dumps({**before, "command": command_line, **found}, indent=2))


def medians(runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Returns the median of each value over the processes of a point, and the rate of each process."""
    return {
        **{name: statistics.median(run[name] for run in runs) for name in runs[0]},
        "target_tokens_per_s_of_each": [run["target_tokens_per_s"] for run in runs],
    }


def measure(axis: str, point: int, settings: Settings) -> dict[str, Any]:
    """Measures one point in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import numpy as np
    import tensorflow as tf

    from benchmarks.train_speed import matched, rates
    from nmt_keras.corpus.batches import Batches, Bucket, Position, TokenLists
    from nmt_keras.corpus.shards import PreparedCorpus, ShardedBatches
    from nmt_keras.training.compiling import compile_and_time
    from nmt_keras.training.execution import build_for_training
    from nmt_keras.training.updater import Updater

    recipe = matched(point if axis == "width" else 256, 64)
    tf.keras.utils.set_random_seed(1)
    model = build_for_training(recipe, VOCABULARY, VOCABULARY)
    updater = Updater(model, recipe.train)
    if axis == "corpus":
        forget(settings.folder / str(point))
    began = time.perf_counter()
    batches: Batches | ShardedBatches
    if axis == "corpus":
        corpus = PreparedCorpus(settings.folder / str(point))
        batches = ShardedBatches(corpus, buckets=2, batch_size=64, pool_size=recipe.train.pool_size, seed=1)
    else:
        length = point if axis == "length" else 12
        ids = np.random.default_rng(1).integers(4, VOCABULARY, [2048, length])
        ids[:, -1] = 3
        side = TokenLists(ids.ravel(), np.full(len(ids), length))
        bucket = Bucket(length, length)
        batches = Batches(side, side, batch_size=64, buckets=[bucket], pool_size=2048, seed=1)
    next(batches.iterate(Position(0, 0, 0)))
    opening = time.perf_counter() - began
    compile_and_time(updater, batches, lambda _: None)
    result: dict[str, Any] = {
        "target_tokens_per_s": round(statistics.median(rates(updater, batches, settings.steps)[1:])),
    }
    if axis == "corpus":
        forget(settings.folder / str(point))
        began, pairs = time.perf_counter(), 0
        for _, batch in batches.iterate(Position(0, 0, 0)):
            pairs += batch.pairs
            if pairs >= min(10, point) * SHARD:
                break
        result["pairs"] = len(corpus)
        result["seconds_to_first_batch"] = round(opening, 2)
        result["reader_pairs_per_s"] = round(pairs / (time.perf_counter() - began))
    return {**result, "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def write_corpora(folder: Path) -> None:
    """Writes prepared corpora of 1, 10 and 100 shards, which are copies of one shard of random ids."""
    import numpy as np

    from nmt_keras.corpus.sample import sample_pairs
    from nmt_keras.corpus.shards import EncodedPair, ShardReport, shard_name, write_record, write_shard

    random = np.random.default_rng(1)
    lengths = [(len(pair.source.split()) + 2, len(pair.target.split()) + 2) for pair in sample_pairs()]

    def ids(length: int) -> Any:
        return np.append(random.integers(4, VOCABULARY, length - 1), 3).astype(np.int32)

    pairs = (
        EncodedPair(random.bytes(16), *(ids(length) for length in lengths[random.integers(len(lengths))]))
        for _ in range(SHARD)
    )
    one = write_shard(str(folder / "shard"), pairs, drop_duplicates=False)
    for count in POINTS["corpus"]:
        corpus = folder / str(count)
        for side in ("source", "target"):
            (corpus / side).mkdir(parents=True)
            (corpus / side / "text.json").write_text('{"sha256": ""}')
        for number in range(count):
            shutil.copyfile(folder / "shard", corpus / shard_name(number, count))
        reports = [ShardReport(shard_name(number, count), one.pairs, 0, one.lengths) for number in range(count)]
        write_record(str(corpus), reports, count * SHARD, {}, {})


def forget(folder: Path) -> None:
    """Syncs a corpus to the disk and removes it from the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    keep_memory()
    main(tyro.cli(Settings, description=__doc__))
