"""Compares variants of the ten-minute plan at equal training times.

    python -m benchmarks.ablations speed --corpus spa-eng.zip --to runs/ablations             on an idle machine
    python -m benchmarks.ablations train --corpus spa-eng.zip --to runs/ablations
    python -m benchmarks.ablations table --to runs/ablations > docs/measured/ablations.json

``speed`` measures the time of an update of each variant. Up to five variants are in memory and take turns, so that
changes of the machine's speed affect all of them. ``train`` trains each variant for the number of updates that the plan
makes in ``minutes``, divided by the variant's relative time. A busy machine thus does not change the result. Repeat the
command to resume it. To use two cores, start it twice with different ``--variants``. ``table`` prints the results as
JSON, with the highest BLEU on the validation set first.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from benchmarks.machine import machine
from benchmarks.quality import plan_recipe
from benchmarks.results import add_alignments, with_fields, write
from nmt_keras.cli.memory import keep_memory
from nmt_keras.config import Recipe, require_choice
from nmt_keras.files import read_json, write_whole

if TYPE_CHECKING:
    from nmt_keras.corpus import Pair
    from nmt_keras.runs.protocol import Study

PLAN = "ten-minutes"
"""Plan of ``benchmarks.quality`` that is varied."""
VARIANTS: dict[str, dict[str, Any]] = {
    "plan": {},
    "layer-norm": {"model.encoder.cell": "gru-layer-norm", "model.decoder.cell": "gru-layer-norm"},
    "layer-norm-encoder": {"model.encoder.cell": "gru-layer-norm"},
    "layer-norm-decoder": {"model.decoder.cell": "gru-layer-norm"},
    "tied-embeddings": {"model.decoder.tie_embeddings": True},
    "two-encoder-layers": {"model.encoder.layers": 2, "model.encoder.residual": True},
    "general-score": {"model.attention.kind": "general"},
    "2000-pieces": {"source.vocabulary_size": 2000, "target.vocabulary_size": 2000},
    "8000-pieces": {"source.vocabulary_size": 8000, "target.vocabulary_size": 8000},
    "batches-of-128": {"train.batch_size": 128, "train.learning_rate": 0.007},
    "moving-average": {"train.ema_decay": 0.999},
    "dropout": {"model.dropout": 0.1},
    "recurrent-dropout": {"model.recurrent_dropout": 0.1},
    "cosine": {"train.decay": "cosine"},
    "no-clipping": {"train.clip_norm": None},
}
"""Fields that differ from the plan, by variant."""
AS_FAST = ("cosine",)
"""Variants whose updates compute the same operations as the plan's. Their speed is not measured."""
CHUNK = 10
"""Number of updates that are timed at once."""
BUCKETS = 3
"""Number of length buckets when speeds are measured. Fewer buckets compile faster and affect all variants equally."""


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    what: Annotated[Literal["speed", "train", "table", "worker"], tyro.conf.Positional]
    """Step: speed, train or table. "worker" is used internally."""
    to: Path
    """Folder of the results."""
    corpus: str = ""
    """File of the Spanish-English corpus."""
    minutes: float = 10.0
    """Training time of the plan, in minutes. The schedules of all variants end then."""
    variants: tuple[str, ...] = tuple(VARIANTS)
    """Variants to measure or to train."""
    rounds: int = 6
    """Number of times that each variant is timed."""


def main(settings: Settings) -> None:
    """Measures, trains or prints."""
    for name in settings.variants:
        require_choice("variants", tuple(VARIANTS), name)
    {"speed": measure, "train": train, "table": show, "worker": answer}[settings.what](settings)


def recipe_of(variant: str) -> Recipe:
    """Returns the recipe of a variant."""
    recipe = with_fields(plan_recipe(PLAN), VARIANTS[variant])
    return replace(recipe, name=variant, search=replace(recipe.search, beam_size=5))


def measure(settings: Settings) -> None:
    """Writes the time of an update of each variant to speed.json. Variants take turns, a few at a time."""
    path, before = settings.to / "speed.json", machine()
    found: dict[str, Any] = read_json(path) if path.exists() else {}
    others = [name for name in settings.variants if name not in (*found, *AS_FAST, "plan")]
    for first in range(0, len(others), 4):
        names = ["plan", *others[first : first + 4]]
        workers = {name: _worker(settings, name) for name in names}
        for name, worker in workers.items():
            if worker.stdout is None or worker.stdout.readline() != "ready\n":
                raise SystemExit(f"ablations: {name}: the process failed.")
        times: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(settings.rounds):
            for name in names if turn % 2 else reversed(names):
                times[name].append(_ask(workers[name]))
        for worker in workers.values():
            worker.kill()
        for name in names[1:]:
            ratio = statistics.median(own / base for own, base in zip(times[name], times["plan"], strict=True))
            found[name] = {"ms": [round(1000 * each) for each in times[name]], "time_ratio": round(ratio, 3)}
        found["plan"] = {"ms": [round(1000 * each) for each in times["plan"]], "time_ratio": 1.0}
        settings.to.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**found, "machine": before}, indent=1) + "\n")


def _worker(settings: Settings, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.ablations", "worker", "--corpus", settings.corpus]
    command += ["--to", str(settings.to), "--variants", name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _ask(worker: subprocess.Popen[str]) -> float:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def answer(settings: Settings) -> None:
    """Compiles one variant. For each line of standard input, prints the seconds of an update."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import tensorflow as tf

    from nmt_keras.corpus.batches import Position
    from nmt_keras.runs.training_data import training_data
    from nmt_keras.training.compiling import compile_and_time
    from nmt_keras.training.execution import build_for_training
    from nmt_keras.training.schedules import learning_rate
    from nmt_keras.training.updater import Updater

    (name,) = settings.variants
    recipe = recipe_of(name)
    config = replace(recipe.train, length_buckets=BUCKETS)
    recipe = replace(recipe, train=config)
    data = training_data(read_split(settings.corpus), recipe, lambda _: None)
    tokenizers = data.fit()
    tf.keras.utils.set_random_seed(1)
    batches = data.batches(tokenizers)
    updater = Updater(build_for_training(recipe, *(each.vocabulary_size for each in tokenizers)), config)
    compile_and_time(updater, batches, lambda _: None)
    drawn, step = batches.iterate(Position(0, 0, 0)), 0

    def update() -> float:
        nonlocal step
        chunk = [next(drawn)[1] for _ in range(CHUNK)]
        began = time.perf_counter()
        for batch in chunk:
            step += 1
            metrics = updater.update([batch], step, learning_rate(config, step, 10_000))
        float(metrics.gradient_norm)  # waits for the updates
        return (time.perf_counter() - began) / CHUNK

    update()
    print("ready", file=out, flush=True)
    for _ in sys.stdin:
        print(update(), file=out, flush=True)


def read_split(corpus: str) -> Any:
    """Returns the published split of a Spanish-English corpus file, Spanish to English."""
    from nmt_keras.corpus import SplitCorpus, read_pairs, split_pairs

    parts = split_pairs(read_pairs(Path(corpus), source_column=1, target_column=0).pairs, key_side="target")
    return SplitCorpus("spa-eng", parts["train"], parts["valid"], parts["test"])


def train(settings: Settings) -> None:
    """Trains and scores the variants that have no result yet."""
    from nmt_keras.runs.protocol import Study, run_study

    speeds = read_json(settings.to / "speed.json")
    measured = read_json(Path(__file__).parents[1] / "docs" / "measured" / f"quality-{PLAN}.json")
    updates = measured["updates"] * settings.minutes / measured["plan"]["minutes"]
    split = read_split(settings.corpus)
    for name in settings.variants:
        study = Study(
            folder=settings.to / name,
            systems=[recipe_of(name)],
            corpus=split,
            updates=round(updates / time_ratio(speeds, name)),
            rates=(1.0,),
            seeds=(1,),
            language="en",
        )
        run_study(study, 1, print)
        add_alignments(study)
        add_valid(study, split.valid)


def add_valid(study: Study, pairs: Sequence[Pair]) -> None:
    """Adds the BLEU of the validation pairs, on which the variants are compared, to the result of a study's run."""
    from nmt_keras.evaluation.metrics import bleu
    from nmt_keras.runs import Run

    (system,), (seed,) = study.systems, study.seeds
    path = study.path(system, seed)
    found = read_json(path)
    if "valid" not in found:
        translator = Run(study.run_folder(system, seed)).translator()
        texts = [translation.text for translation in translator.translate([pair.source for pair in pairs])]
        write(path, found | {"valid": round(bleu(texts, [pair.target for pair in pairs]).value, 2)})


def time_ratio(speeds: Mapping[str, Any], variant: str) -> float:
    """Returns the time of an update of a variant, relative to the plan."""
    return 1.0 if variant in AS_FAST else float(speeds[variant]["time_ratio"])


def show(settings: Settings) -> None:
    """Prints the results as JSON."""
    speeds = read_json(settings.to / "speed.json")
    paths = {name: settings.to / name / f"{name}-1.json" for name in settings.variants}
    rows = [_row(name, time_ratio(speeds, name), read_json(path)) for name, path in paths.items() if path.exists()]
    command = " ".join(["python -m benchmarks.ablations", *sys.argv[1:]])
    ranked = sorted(rows, key=lambda row: -row["valid"])
    facts = {**speeds["machine"], "command": command, "minutes": settings.minutes}
    print(json.dumps({**facts, "variants": ranked}, indent=2))


def _row(name: str, ratio: float, found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "changes": VARIANTS[name],
        "time_ratio": ratio,
        "updates": found["steps"],
        "valid": found["valid"],
        "test": found["bleu"],
        "error_rate": found["alignment"]["error_rate"],
    }


if __name__ == "__main__":
    keep_memory()
    main(tyro.cli(Settings, description=__doc__))
