"""Measures training speed in target tokens per second, compared with OpenNMT-py on a matched model.

    benchmarks/peers/setup_peers.sh PEERS                                             installs the peers
    PEERS/bin/python benchmarks/peers/peers.py prepare --corpus spa.txt --work WORK   writes their corpus
    python -m benchmarks.train_speed --venv PEERS --work WORK
    python -m benchmarks.train_speed --venv PEERS --work WORK --units 512 --batch 128
    python -m benchmarks.train_speed --venv PEERS --work WORK --earlier first.json      adds a round to the first
    python -m benchmarks.train_speed --work WORK                                        without OpenNMT-py

The matched model translates Spanish to English with vocabularies of 5,000 words. It has embeddings of 256, a
bidirectional GRU layer of units / 2 per direction, additive attention, a GRU decoder layer with input feeding, and
tanh(W [c ; s]) of ``units`` below the softmax. It is trained with Adam at 1e-3, clipping at 1 and no dropout. This
package is also measured with bfloat16 factors. Rates count target tokens after warm-up, END included and padding
excluded. Compilation is reported separately. The systems run one after the other, each in its own process, ``repeats``
times: this is a round. Each system keeps freed memory. Prints JSON with every repetition, the ratios of the medians,
and the share of the processor's time that other virtual machines took. With ``--earlier``, the result also contains
the rounds of an earlier one.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from benchmarks.machine import ProcessorTime, machine, output_of, print_result, stolen_percent
from nmt_keras.config import END, UNK, AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, Recipe, TrainConfig
from nmt_keras.io.startup import keep_freed_memory

if TYPE_CHECKING:
    from nmt_keras.corpus.batches import Batches, TokenLists
    from nmt_keras.corpus.shards import ShardedBatches
    from nmt_keras.training.updater import Updater

WORDS = 5_000
INTERVAL = 20
"""Number of updates per measured rate, as in the peers' reports."""
MAX_TOKENS = 50
NAMES = {
    "matched": "nmt_keras",
    "matched-bfloat16": "nmt_keras, bfloat16",
    "onmt": "OpenNMT-py 3.5.1",
}
"""Names of the systems in the documentation."""

MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
"""Environment of OpenNMT-py, which takes memory from malloc: freed memory is kept, as TensorFlow keeps it here."""

Own = Literal["matched", "matched-bfloat16"]


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    work: Path
    """Folder written by ``peers.py prepare``."""
    venv: Path | None = None
    """Environment created by ``setup_peers.sh``. None measures this package alone."""
    units: int = 256
    batch: int = 64
    steps: int = 200
    """Number of updates per repetition, at least 60. The first 40 are not counted."""
    repeats: int = 3
    earlier: Path | None = None
    """Result of the same command, whose rounds precede the new one."""
    only: Own | None = None
    """System of this package to measure in this process. Used internally for each repetition."""


def main(settings: Settings) -> None:
    """Measures and prints the result."""
    if settings.only:
        print(json.dumps(measure(settings)))
        return
    ours, others = ("matched", "matched-bfloat16"), ("onmt",) if settings.venv else ()
    rounds = earlier_rounds(settings.earlier, (*ours, *others)) if settings.earlier else []
    found: dict[str, list[dict[str, Any]]] = {}
    facts, began = machine(), ProcessorTime.now()
    for _ in range(settings.repeats):
        for name in (*ours, *others):
            found.setdefault(name, []).append(in_a_process(command_of(settings, name)))
    rates = {name: statistics.median(each["target_tokens_per_s"] for each in runs) for name, runs in found.items()}
    ratios = {name: {other: round(rates[name] / rates[other], 2) for other in others} for name in ours}
    one = {"date": facts["date"], "stolen_percent": stolen_percent(began), "median": rates, "ratios": ratios}
    rounds = [*rounds, {**one, "runs": found}]
    print_result(facts, {"rounds": rounds}, *shown(rounds))


def shown(rounds: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Returns the table of target tokens per second in each round, and a paragraph on the rounds."""
    first, compiling = rounds[0], {}
    others = next(iter(first["ratios"].values()))
    table = []
    for name, runs in first["runs"].items():
        ratios = {
            f"ratio to {NAMES[other]}": [one["ratios"][name][other] for one in rounds]
            if name in first["ratios"]
            else None
            for other in others
        }
        rates = [round(one["median"][name]) for one in rounds]
        table.append({"": NAMES[name], "parameters": runs[0]["parameters"], "tokens/s": rates, **ratios})
        if "compile_s" in runs[0]:
            seconds = [run["compile_s"] for one in rounds for run in one["runs"][name]]
            compiling[name] = f"{min(seconds):.0f} to {max(seconds):.0f} s ({NAMES[name]})"
    stolen = " · ".join(f"{one['stolen_percent']} %" for one in rounds)
    ours = first["runs"][next(iter(compiling))]
    return table, (
        f"Rounds: {len(rounds)}, each with the median of {len(ours)} processes of each system. Time that other virtual "
        f"machines took in each round: {stolen}.\nCompilation for {ours[0]['shapes']} length buckets is not included. "
        f"It took {', '.join(compiling.values())}."
    )


def earlier_rounds(path: Path, systems: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the rounds of an earlier result. Raises SystemExit if they measured other systems."""
    rounds: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rounds"]
    for one in rounds:
        if tuple(one["runs"]) != tuple(systems):
            raise SystemExit(
                f"train_speed: --earlier {path}: expected rounds of {', '.join(systems)}. Received: "
                f"{', '.join(one['runs'])}. Pass a result of the same command."
            )
    return rounds


def in_a_process(command: Sequence[str]) -> dict[str, Any]:
    """Runs a command and returns the JSON in its last output line."""
    result: dict[str, Any] = json.loads(output_of(command, env={**os.environ, **MALLOC}).splitlines()[-1])
    print(result, file=sys.stderr, flush=True)
    return result


def command_of(settings: Settings, name: str) -> list[str]:
    """Returns the command for a repetition of a system."""
    options: dict[str, Any] = {"units": settings.units, "batch": settings.batch, "steps": settings.steps}
    if name == "onmt":
        assert settings.venv is not None
        command = [str(settings.venv / "bin" / "python"), str(Path(__file__).parent / "peers" / "peers.py"), "speed"]
        options["venv"] = settings.venv
    else:
        command = [sys.executable, "-m", "benchmarks.train_speed"]
        options["only"] = name
    given = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    return [*command, "--work", str(settings.work), *given]


def matched(units: int, batch: int) -> Recipe:
    """Returns the recipe of the model that both toolkits can train."""
    model = ModelConfig(
        embedding_size=256,
        encoder=EncoderConfig(cell="gru-reset-after", units=units // 2),
        attention=AttentionConfig("additive", units=units),
        decoder=DecoderConfig(
            order="update-then-attend",
            cell="gru-reset-after",
            units=units,
            initial_state="both",
            input_feeding=True,
            output="attentional",
            output_state="current",
            output_units=units,
        ),
        dropout=0.0,
    )
    train = TrainConfig(
        batch_size=batch,
        length_buckets=12,
        max_tokens=MAX_TOKENS,
        learning_rate=1e-3,
        warmup_steps=0,
        decay="constant",
        beta_2=0.999,
        label_smoothing=0.0,
    )
    return Recipe(name="matched", model=model, train=train)


def measure(settings: Settings) -> dict[str, Any]:
    """Measures one system of this package in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    keep_freed_memory()
    import tensorflow as tf

    from nmt_keras.training.compiling import compile_and_time
    from nmt_keras.training.execution import build_for_training
    from nmt_keras.training.updater import Updater

    precision: Literal["bfloat16-products", "float32"]
    precision = "bfloat16-products" if settings.only == "matched-bfloat16" else "float32"
    recipe = matched(settings.units, settings.batch)
    recipe = replace(recipe, train=replace(recipe.train, precision=precision))
    tf.keras.utils.set_random_seed(1)
    batches, sizes = read_batches(settings.work, recipe)
    updater = Updater(build_for_training(recipe, *sizes), recipe.train)
    began = time.perf_counter()
    compile_and_time(updater, batches, lambda _: None)
    compiling, faults = time.perf_counter() - began, page_faults()
    measured = rates(updater, batches, settings.steps)
    return {
        "ours": settings.only,
        "parameters": sum(int(tf.size(variable)) for variable in updater.variables),
        "target_tokens_per_s": round(statistics.median(measured[2:])),
        "page_faults_per_update": round((page_faults() - faults) / settings.steps),
        "compile_s": round(compiling, 1),
        "shapes": len(batches.buckets),
    }


def read_batches(work: Path, recipe: Recipe) -> tuple[Batches, tuple[int, int]]:
    """Returns batches of the peers' training set as words, and the sizes of the vocabularies."""
    from nmt_keras.corpus.batches import Batches, choose_buckets

    sides = [encoded(work / f"train.w.{language}") for language in ("es", "en")]
    lengths = [side.lengths for side, _ in sides]
    kept = (lengths[0] <= recipe.train.max_tokens) & (lengths[1] <= recipe.train.max_tokens)
    source, target = (side.take(kept.nonzero()[0]) for side, _ in sides)
    batches = Batches(
        source,
        target,
        batch_size=recipe.train.batch_size,
        buckets=choose_buckets(source.lengths, target.lengths, recipe.train.length_buckets),
        pool_size=recipe.train.pool_size,
        seed=recipe.train.seed,
    )
    return batches, (sides[0][1], sides[1][1])


def encoded(path: Path) -> tuple[TokenLists, int]:
    """Returns a file's lines as ids of its most frequent words, and the size of the vocabulary."""
    import numpy as np

    from nmt_keras.corpus.batches import TokenLists

    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    counts = Counter(word for line in lines for word in line)
    ids = {word: END + 1 + rank for rank, (word, _) in enumerate(counts.most_common(WORDS))}
    flat = [number for line in lines for number in (*(ids.get(word, UNK) for word in line), END)]
    return TokenLists(np.array(flat), np.array([len(line) + 1 for line in lines])), END + 1 + len(ids)


def page_faults() -> int:
    """Returns the number of times that this process got a page of memory from the system."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def rates(updater: Updater, batches: Batches | ShardedBatches, steps: int) -> list[float]:
    """Returns target tokens per second for every ``INTERVAL`` updates."""
    import numpy as np

    from nmt_keras.corpus.batches import Position
    from nmt_keras.training.schedules import learning_rate

    found: list[float] = []
    tokens, began = 0, time.perf_counter()
    for step, (_, batch) in zip(range(1, steps + 1), batches.iterate(Position(0, 0, 0)), strict=False):
        metrics = updater.train_step([batch], step, learning_rate(updater.config, step, steps))
        tokens += int(np.count_nonzero(batch.target))
        if step % INTERVAL == 0:
            float(metrics.gradient_norm)  # waits for the update
            now = time.perf_counter()
            found.append(tokens / (now - began))
            tokens, began = 0, now
    return found


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
