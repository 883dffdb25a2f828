"""Measures BLEU after training for ten minutes, for an hour, and for two hours with word alignments.

    python -m benchmarks.quality --corpus spa-eng.zip --plan ten-minutes > docs/measured/quality-ten-minutes.json
    python -m benchmarks.quality --corpus spa-eng.zip --plan hour > docs/measured/quality-hour.json
    python -m benchmarks.quality --corpus spa-eng.zip --plan guided --alignments spa-eng.align > guided.json

Training minutes include compilation. Sizes and rates were chosen on the validation set. The validation set and the test
set are translated with greedy search and with beam 5. Prints JSON.

    python -m benchmarks.quality --corpus spa-eng.zip --plan hour --run runs/second --seed 2 --ensemble runs/first

This command evaluates the ensemble of a finished run and of others, which have other seeds.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tyro

from benchmarks.machine import machine, output_of, print_result
from nmt_keras.config import require

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
SEARCHES = {"greedy": [], "beam 5": ["--search.beam-size", "5"]}


def main(
    corpus: str,
    plan: Literal["ten-minutes-float32", "ten-minutes", "hour", "guided"],
    run: Path | None = None,
    seed: int = 1,
    alignments: Path | None = None,
    ensemble: tuple[Path, ...] = (),
) -> None:
    """Trains, translates and prints the result.

    Args:
        corpus: Path of a corpus file, or "sample".
        plan: Options of the training.
        run: Run directory to keep. The output of training and the machine are written to RUN.json. A run that has this
            file is evaluated without training.
        seed: Seed of the training.
        alignments: Word alignments of the corpus, for the plan "guided". docs/guides/guided-alignment.md tells how to
            make them.
        ensemble: Finished runs of the same plan with other seeds. They are evaluated together with ``run``.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = run or Path(folder) / "run"
        record = run.with_name(f"{run.name}.json")
        if not record.exists():
            require((plan == "guided") == bool(alignments), "--alignments", "a file for guided alone", alignments)
            options = {**PLANS[plan], "corpus": corpus, "run": run, "train.seed": seed}
            options |= {"alignments": alignments} if alignments else {}
            before, said = machine(), train(options, Path(folder) / "cache")
            record.write_text(json.dumps({**before, "said": said}), encoding="utf-8")
        runs = [run, *ensemble]
        seeds = [json.loads((each / "recipe.json").read_text(encoding="utf-8"))["train"]["seed"] for each in runs]
        require(len({*seeds}) == len(seeds), "--ensemble", "runs with different seeds", seeds)
        before = json.loads(record.read_text(encoding="utf-8"))
        found = {"recipe": RECIPE, "plan": PLANS[plan], "seeds": seeds, **result_of(run, before.pop("said"))}
        print_result(before, {**found, "bleu": bleu(runs)})


def train(options: Mapping[str, Any], cache: Path) -> str:
    """Trains the recipe with options of ``nmt train``, which has an empty cache. Returns its output."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache.resolve())}
    command = [sys.executable, "-m", "nmt_keras", "train", RECIPE, *words]
    return output_of(command, env=environment, stderr=subprocess.STDOUT)


def result_of(run: Path, said: str) -> dict[str, Any]:
    """Returns the results of a finished run, from its directory and from the output of training."""
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    # the last ones are those of the whole run, if it was resumed or continued
    minutes = re.findall(r"trained for ([\d.]+) minutes", said)[-1]
    compilation, batches = re.findall(r"([\d.]+) of them for compilation, in epochs of (\d+) batches", said)[-1]
    updates = max(row["step"] for row in rows)
    return {
        "updates": updates,
        "epochs": round(updates / int(batches), 2),
        "target_tokens_per_s": round(statistics.median(row["tokens_per_s"] for row in rows if "tokens_per_s" in row)),
        "compile_s": round(60 * float(compilation)),
        "training_minutes": float(minutes),
    }


def bleu(runs: Sequence[Path]) -> dict[str, Any]:
    """Returns BLEU and chrF on the validation and the test set. Several runs are one ensemble."""
    first, *others = map(str, runs)
    system = [first, *(["--ensemble", *others] if others else [])]
    return {
        f"{part}, {name}": scores([*system, "--part", part, *search])
        for part in ("valid", "test")
        for name, search in SEARCHES.items()
    }


def scores(options: Sequence[str]) -> dict[str, Any]:
    """Returns BLEU and chrF that ``nmt evaluate`` reports."""
    report = json.loads(output_of([sys.executable, "-m", "nmt_keras", "evaluate", *options, "--json"]))
    (system,) = report["systems"]
    means = {name: round(system[name]["mean"], 2) for name in ("bleu", "chrf")}
    return {**means, "signature": report["bleu_signature"]}


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
