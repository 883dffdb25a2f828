#!/usr/bin/env python3
"""Counts the share of padding in training batches, by the number of length buckets.

    python -m benchmarks.padding --corpus spa-eng.zip --plan hour > docs/measured/padding.json

Tokenizes the training pairs with the vocabularies of a plan of ``benchmarks.quality``, and chooses buckets and cuts
batches as training does. Prints JSON with the padded share of the source and target positions of the first epoch, by
the size of the pools that are sorted and by the number of buckets: with the buckets of training, which depend on the
longer side of a pair, and with buckets chosen by both sides. The figures do not depend on the machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tyro

from benchmarks.ablations import read_split
from benchmarks.machine import machine
from benchmarks.quality import plan_recipe
from benchmarks.results import with_fields
from nmt_keras.corpus.batches import Batches, Bucket, TokenLists, choose_buckets


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    corpus: str
    """Path of a corpus file."""
    plan: Literal["ten-minutes", "hour"] = "hour"
    """Plan of benchmarks.quality."""
    buckets: tuple[int, ...] = (8, 12, 16, 20, 24, 32, 40)
    """Maximum numbers of buckets."""
    pools: tuple[int, ...] = (16_384, 131_072)
    """Numbers of pairs that are sorted together (TrainConfig.pool_size)."""


def main(settings: Settings) -> None:
    """Counts and prints."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from nmt_keras.runs.training_data import training_data

    before, recipe = machine(), with_fields(plan_recipe(settings.plan), {"train.augmentation": 0.0})
    data = training_data(read_split(settings.corpus), recipe, lambda _: None)
    batches = data.batches(data.fit())
    assert isinstance(batches, Batches)
    source, target, rows = batches.source, batches.target, recipe.train.batch_size

    def shares(choose: Callable[[np.ndarray, np.ndarray, int], list[Bucket]]) -> dict[int, dict[int, float]]:
        buckets = {count: choose(source.lengths, target.lengths, count) for count in settings.buckets}
        return {
            pool: {count: padded_share(source, target, buckets[count], pool, rows) for count in settings.buckets}
            for pool in settings.pools
        }

    command = " ".join(["python -m benchmarks.padding", *sys.argv[1:]])
    found = {"percent": shares(choose_buckets), "percent_two_sided": shares(two_sided_buckets)}
    print(json.dumps({**before, "command": command, "pairs": len(source), **found}, indent=2))


def padded_share(
    source: TokenLists, target: TokenLists, buckets: Sequence[Bucket], pool: int, batch_size: int
) -> float:
    """Returns the percentage of positions that are padding."""
    batches = Batches(source, target, batch_size=batch_size, buckets=buckets, pool_size=pool, seed=1)
    number = batches.bucket_counts(0)
    positions = sum(number[bucket] * batch_size * (bucket.source + bucket.target) for bucket in buckets)
    return round(100 * (1 - int(source.lengths.sum() + target.lengths.sum()) / positions), 1)


def two_sided_buckets(source_lengths: np.ndarray, target_lengths: np.ndarray, count: int) -> list[Bucket]:
    """Returns ``count`` buckets chosen by both lengths, smallest first.

    A pair belongs to the smallest bucket into which it fits. Buckets are added one by one, each where it saves most
    positions. Then each is replaced by a better one, until no bucket improves. The result is a local optimum.
    """
    last = Bucket(int(source_lengths.max()), int(target_lengths.max()))
    pairs = np.zeros((last.source + 1, last.target + 1), np.int64)  # number of pairs by both lengths
    np.add.at(pairs, (source_lengths, target_lengths), 1)
    sizes = np.add.outer(range(last.source + 1), range(last.target + 1))  # positions of a row of each possible bucket

    def positions(buckets: Sequence[Bucket]) -> np.ndarray:
        """Returns the positions of a pair by its lengths."""
        found = np.full(pairs.shape, sum(last))
        for bucket in buckets:
            inside = found[: bucket.source + 1, : bucket.target + 1]
            np.minimum(inside, sum(bucket), out=inside)
        return found

    def best(others: Sequence[Bucket]) -> Bucket:
        """Returns the bucket that saves most positions beside ``others``."""
        before, saved = positions(others), np.zeros(pairs.shape, np.int64)
        for size in range(sum(last)):
            gains = (pairs * np.maximum(before - size, 0)).cumsum(0).cumsum(1)
            saved[sizes == size] = gains[sizes == size]
        return Bucket(*map(int, np.unravel_index(saved.argmax(), saved.shape)))

    chosen: list[Bucket] = []
    while len(chosen) < count - 1:
        chosen.append(best(chosen))
    total = np.inf
    while (improved := float((pairs * positions(chosen)).sum())) < total:
        total = improved
        for index in range(len(chosen)):
            chosen[index] = best([*chosen[:index], *chosen[index + 1 :]])
    return [*sorted(chosen, key=sum), last]


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
