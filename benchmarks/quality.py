"""Measures BLEU after training for ten minutes, for an hour, and for two hours with word alignments.

    python -m benchmarks.quality --corpus spa-eng.zip --plan ten-minutes > docs/measured/quality-ten-minutes.json
    python -m benchmarks.quality --corpus spa-eng.zip --plan hour > docs/measured/quality-hour.json
    python -m benchmarks.quality --corpus spa-eng.zip --plan guided --alignments spa-eng.align > guided.json

Training minutes include compilation. Sizes and rates were chosen on the validation set. The validation set and the test
set are translated with greedy search and with beam 5. Prints JSON.

    python -m benchmarks.quality --corpus spa-eng.zip --plan hour --run runs/second --seed 2
    python -m benchmarks.quality --corpus spa-eng.zip --plan hour --run runs/second --seed 2 --ensemble runs/first

The last command evaluates the ensemble of two finished runs, and each run alone.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from benchmarks.machine import machine, output_of, print_result

RECIPE = "conditional-gru"
"""Recipe of all plans."""
HOUR: dict[str, Any] = {
    "minutes": 60,
    "train.precision": "bfloat16-products",
    "train.learning-rate": 0.003,
    "train.batch-size": 128,
    "train.length-buckets": 16,
    "train.pool-size": 131_072,
    "model.embedding-size": 256,
    "model.encoder.units": 256,
    "model.attention.units": 256,
    "model.decoder.units": 512,
    "model.decoder.output-units": 384,
    "model.dropout": 0.4,
    "model.recurrent-dropout": 0.2,
}
PLANS: dict[str, dict[str, Any]] = {
    "ten-minutes-float32": {"minutes": 10},
    "ten-minutes": {
        "minutes": 10,
        "train.precision": "bfloat16-products",
        "train.learning-rate": 0.005,
        "model.embedding-size": 192,
        "model.encoder.units": 160,
        "model.attention.units": 192,
        "model.decoder.units": 320,
        "model.decoder.output-units": 192,
    },
    "hour": HOUR,
    "guided": HOUR | {"minutes": 120, "train.guided-weight": 0.1},
}
"""Options that differ from the recipe ``RECIPE``, by plan."""
PARTS = ("valid", "test")
SEARCHES = {"greedy": [], "beam 5": ["--search.beam-size", "5"]}


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    corpus: str
    """Path of a corpus file, or "sample"."""
    plan: Literal["ten-minutes-float32", "ten-minutes", "hour", "guided"]
    run: Path | None = None
    """Run directory to keep. The output of training is written to RUN.log, the machine to RUN.machine.json. An existing
    run is evaluated without training."""
    seed: int = 1
    """Seed of the training."""
    alignments: Path | None = None
    """Word alignments of the corpus, for the plan "guided". docs/guides/guided-alignment.md tells how to make them."""
    ensemble: tuple[Path, ...] = ()
    """Finished runs of the same plan with other seeds. They are evaluated together with ``run``."""


def main(settings: Settings) -> None:
    """Trains, translates and prints the result."""
    with tempfile.TemporaryDirectory() as folder:
        run = settings.run or Path(folder) / "run"
        if not (run.exists() and log_of(run).exists()):
            train(settings, run, Path(folder) / "cache")
        plan, runs = PLANS[settings.plan], (run, *settings.ensemble)
        for each in runs:
            require_plan(each, plan)
        require_seeds(runs, settings.seed)
        if not machine_of(run).exists():
            raise SystemExit(f"quality: {machine_of(run)} is missing. It describes the machine. Pass another --run.")
        results = [result_of(each) for each in runs]
        found: dict[str, Any] = results[0] if len(runs) == 1 else {"members": results, "bleu": bleu(runs)}
        before = json.loads(machine_of(run).read_text(encoding="utf-8"))
    print_result(before, {"recipe": RECIPE, "plan": plan, **found}, *shown(results, found["bleu"], plan))


def shown(
    runs: Sequence[dict[str, Any]], bleu: dict[str, Any], plan: dict[str, Any]
) -> tuple[list[dict[str, Any]], str]:
    """Returns the table of BLEU by part, system and search, and a paragraph on the training of each run."""
    alone = {f"seed {run['seed']}": run["bleu"] for run in runs}
    systems = {**alone, "ensemble": bleu} if len(runs) > 1 else {"BLEU": bleu}
    table = [
        {"": f"{part}, {name}", **{search: found[f"{part}, {search}"]["bleu"] for search in SEARCHES}}
        for part in PARTS
        for name, found in systems.items()
    ]
    trained = [
        (f"Seed {run['seed']}: " if len(runs) > 1 else "")
        + f"{run['training_minutes']} minutes of training, including "
        f"{run['compile_s']:.0f} s of compilation: {run['updates']:,} updates, {run['epochs']} epochs, "
        f"{run['target_tokens_per_s']:,} target tokens/s."
        for run in runs
    ]
    options = ", ".join(f"`--{name} {value}`" for name, value in plan.items())
    more = round(runs[0]["training_minutes"]) - plan["minutes"]
    then = f", then `--more-minutes {more}`" if more > 0 else ""
    return table, f"{' '.join(trained)} `{RECIPE}` with {options}{then}."


def log_of(run: Path) -> Path:
    """Returns the file with the output of training."""
    return run.with_name(f"{run.name}.log")


def machine_of(run: Path) -> Path:
    """Returns the file that describes the machine before training."""
    return run.with_name(f"{run.name}.machine.json")


def train(settings: Settings, run: Path, cache: Path) -> None:
    """Trains the plan. Writes the run directory, the output of training and the machine."""
    if (settings.plan == "guided") != (settings.alignments is not None):
        raise SystemExit("quality: pass --alignments with the plan guided, and with no other plan.")
    run.parent.mkdir(parents=True, exist_ok=True)
    machine_of(run).write_text(json.dumps(machine()), encoding="utf-8")
    plan = {**PLANS[settings.plan], "train.seed": settings.seed}
    options = [part for name, value in plan.items() for part in (f"--{name}", str(value))]
    options += ["--alignments", str(settings.alignments)] if settings.alignments else []
    command = [sys.executable, "-m", "nmt_keras", "train", RECIPE, "--corpus", settings.corpus, "--run", str(run)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache.resolve())}
    said = output_of([*command, *options], env=environment, stderr=subprocess.STDOUT)
    log_of(run).write_text(said, encoding="utf-8")


def require_plan(run: Path, plan: Mapping[str, Any]) -> None:
    """Raises SystemExit if ``run`` has another recipe than ``RECIPE`` with the options of ``plan``."""
    recipe = json.loads((run / "recipe.json").read_text(encoding="utf-8"))
    if recipe["name"] != RECIPE:
        raise SystemExit(
            f"quality: {run}: expected the recipe {RECIPE}, received {recipe['name']}. Pass another --run."
        )
    for name, value in plan.items():
        found: Any = recipe["train"] if name == "minutes" else recipe
        for part in name.replace("-", "_").split("."):
            found = found[part]
        if found != value:
            raise SystemExit(
                f"quality: {run}: expected the plan's {name} {value}, received {found}. Pass another --run."
            )


def require_seeds(runs: Sequence[Path], seed: int) -> None:
    """Raises SystemExit if two runs have the same seed, or if the first run has another seed than ``seed``."""
    seeds = [seed_of(run) for run in runs]
    if seeds[0] != seed or len(set(seeds)) < len(seeds):
        raise SystemExit(
            f"quality: the runs must have different seeds, and the first must have --seed {seed}. Received: {seeds}. "
            "Pass other runs."
        )


def seed_of(run: Path) -> int:
    """Returns the seed of a run."""
    return int(json.loads((run / "recipe.json").read_text(encoding="utf-8"))["train"]["seed"])


def result_of(run: Path) -> dict[str, Any]:
    """Returns the results of a finished run, from its directory and from the output of training."""
    said = log_of(run).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    # the last ones are those of the whole run, if it was resumed or continued
    minutes = re.findall(r"trained for ([\d.]+) minutes", said)[-1]
    compilation, batches = re.findall(r"([\d.]+) of them for compilation, in epochs of (\d+) batches", said)[-1]
    updates = max(row["step"] for row in rows)
    return {
        "seed": seed_of(run),
        "updates": updates,
        "epochs": round(updates / int(batches), 2),
        "target_tokens_per_s": round(statistics.median(row["tokens_per_s"] for row in rows if "tokens_per_s" in row)),
        "compile_s": round(60 * float(compilation)),
        "training_minutes": float(minutes),
        "bleu": bleu([run]),
    }


def bleu(runs: Sequence[Path]) -> dict[str, Any]:
    """Returns BLEU and chrF on the validation and the test set. Several runs are one ensemble."""
    first, *others = map(str, runs)
    system = [first, *(["--ensemble", *others] if others else [])]
    return {
        f"{part}, {name}": scores([*system, "--part", part, *search])
        for part in PARTS
        for name, search in SEARCHES.items()
    }


def scores(options: Sequence[str]) -> dict[str, Any]:
    """Returns BLEU and chrF that ``nmt evaluate`` reports."""
    report = json.loads(output_of([sys.executable, "-m", "nmt_keras", "evaluate", *options, "--json"]))
    (system,) = report["systems"]
    found = {name: round(system[name]["mean"], 2) for name in ("bleu", "chrf")}
    return {**found, "signature": report["bleu_signature"]}


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
