#!/usr/bin/env python3
"""Counts the share of padding in training batches, by the number of length buckets.

    python -m benchmarks.padding --corpus spa-eng.zip --plan hour > docs/measured/padding.json

Tokenizes the training pairs with the vocabularies of a plan of ``benchmarks.quality``, and chooses buckets and cuts
batches as training does. Prints JSON with the padded share of the source and target positions of the first epoch, by
the size of the pools that are sorted and by the number of buckets. The figures do not depend on the machine.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Literal

import tyro

from benchmarks.ablations import read_split
from benchmarks.machine import machine
from benchmarks.quality import plan_recipe
from nmt_keras.corpus.batches import Batches, TokenLists, choose_buckets


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

    before, recipe = machine(), plan_recipe(settings.plan)
    data = training_data(read_split(settings.corpus), recipe, lambda _: None)
    batches = data.batches(data.fit())
    assert isinstance(batches, Batches)
    shares = {
        pool: {
            count: padded_share(batches.source, batches.target, count, pool, recipe.train.batch_size)
            for count in settings.buckets
        }
        for pool in settings.pools
    }
    command = " ".join(["python -m benchmarks.padding", *sys.argv[1:]])
    print(json.dumps({**before, "command": command, "pairs": len(batches.source), "percent": shares}, indent=2))


def padded_share(source: TokenLists, target: TokenLists, count: int, pool: int, batch_size: int) -> float:
    """Returns the percentage of positions that are padding, with at most ``count`` buckets."""
    buckets = choose_buckets(source.lengths, target.lengths, count)
    batches = Batches(source, target, batch_size=batch_size, buckets=buckets, pool_size=pool, seed=1)
    number = batches.bucket_counts(0)
    positions = sum(number[bucket] * batch_size * (bucket.source + bucket.target) for bucket in buckets)
    return round(100 * (1 - int(source.lengths.sum() + target.lengths.sum()) / positions), 1)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
