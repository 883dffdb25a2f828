#!/usr/bin/env python3
"""Trains the recipe ``small-corpus``, and a variant of it, on small corpora of several sizes and languages.

    python -m benchmarks.small_corpora train --corpus spa-eng.zip --source 1 --target 0 --languages es en \\
        --pairs 20000 --to runs/small --variants small-corpus without-layer-norm
    python -m benchmarks.small_corpora table --to runs/small > docs/measured/small-corpora.json

``train`` draws training pairs from a corpus, trains each variant with the command ``nmt train``, and translates the
validation and the test set with beam 5. Trainings with a result are skipped, so repeat the command to resume it. To use
two cores, start it twice with different ``--variants``. ``table`` prints the results of all corpora as JSON.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from benchmarks.machine import machine
from benchmarks.quality import BEAM, nmt, scores
from nmt_keras.config import require_choice
from nmt_keras.corpus import Pair, read_pairs, split_pairs
from nmt_keras.files import read_json, write_whole
from nmt_keras.training import read_log

RECIPE = "small-corpus"
"""Recipe of all variants."""
VARIANTS: dict[str, dict[str, Any]] = {
    RECIPE: {},
    "without-layer-norm": {"model.encoder.cell": "gru", "model.decoder.cell": "gru"},
}
"""Options that differ from the recipe ``RECIPE``, by variant."""


@dataclass(frozen=True)
class Train:
    """Options of the command "train"."""

    corpus: Path
    """Path of a corpus file: tab-separated, also compressed."""
    languages: tuple[str, str]
    """Codes of the source and the target language, such as es en."""
    pairs: int
    """Number of training pairs, drawn at random."""
    to: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """Folder of the run directories and results."""
    source: int = 0
    """Column of the source sentences, counted from 0."""
    target: int = 1
    """Column of the target sentences, counted from 0."""
    variants: tuple[str, ...] = (RECIPE,)
    """Variants to train."""

    def __post_init__(self) -> None:
        for variant in self.variants:
            require_choice("--variants", tuple(VARIANTS), variant)


@dataclass(frozen=True)
class Table:
    """Options of the command "table"."""

    to: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """Folder of the results."""


Commands = Train | Table


def main(settings: Commands) -> None:
    """Runs the command."""
    if isinstance(settings, Train):
        train(settings)
    else:
        print(json.dumps(found_in(settings.to), indent=2))


def train(settings: Train) -> None:
    """Draws the corpus, trains the variants without a result, and writes the results."""
    source, target = settings.languages
    folder = settings.to / f"{settings.corpus.stem}-{source}-{target}-{settings.pairs}"
    files = write_corpus(settings, folder)
    for variant in settings.variants:
        result, run = folder / f"{variant}.json", folder / variant
        if result.exists():
            continue
        before = machine()
        codes = ["--source-language", source, "--target-language", target]
        nmt(["train", RECIPE, *files, *codes, "--run", str(run), *options_of(variant)])
        bleu = {part: scores([str(run), "--part", part, *BEAM]) for part in ("valid", "test")}
        rows = [row for row in read_log(run / "log.jsonl") if "tokens_per_s" in row]
        last = {"updates": rows[-1]["step"], "epochs": rows[-1]["epoch"] + 1}
        found = {"source": source, "target": target, "pairs": settings.pairs, "variant": variant, **last, "bleu": bleu}
        write_whole(result, json.dumps({**before, **found}, indent=2))


def options_of(variant: str) -> list[str]:
    """Returns the options of ``nmt train`` for a variant."""
    return [part for name, value in VARIANTS[variant].items() for part in (f"--{name}", str(value))]


def write_corpus(settings: Train, folder: Path) -> list[str]:
    """Writes the three sets as TSV files. Returns the options that pass them to ``nmt train``.

    Both directions of a corpus with English have the same sets: pairs with a common English sentence go to one set.
    """
    corpus = read_pairs(settings.corpus, source_column=settings.source, target_column=settings.target)
    parts = split_pairs(corpus.pairs, key_side="source" if settings.languages[0] == "en" else "target")
    if len(parts["train"]) < settings.pairs:
        raise SystemExit(f"small_corpora: --pairs: the training set has {len(parts['train']):,} pairs. Pass fewer.")
    drawn = random.Random(1).sample(parts["train"], settings.pairs)
    folder.mkdir(parents=True, exist_ok=True)
    options = []
    for option, pairs in (("--corpus", drawn), ("--valid", parts["valid"]), ("--test", parts["test"])):
        path = folder / f"{option.removeprefix('--')}.tsv"
        write_whole(path, lines_of(pairs))
        options += [option, str(path)]
    return options


def lines_of(pairs: Sequence[Pair]) -> str:
    """Returns one line per pair, its sides separated by a tab."""
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)


def found_in(folder: Path) -> dict[str, Any]:
    """Returns all results in ``folder``, sorted by languages and size, with the machine of the last one."""
    results = [read_json(path) for path in folder.glob("*/*.json")]
    if not results:
        raise SystemExit(f"small_corpora: {folder} contains no results. Run the command train first.")
    results.sort(key=lambda each: (each["source"], each["target"], each["pairs"], [*VARIANTS].index(each["variant"])))
    trained = [{name: value for name, value in each.items() if name not in machine()} for each in results]
    latest = max(results, key=lambda each: each["date"])
    command = " ".join(["python -m benchmarks.small_corpora", *sys.argv[1:]])
    return {**{name: latest[name] for name in machine()}, "command": command, "results": trained}


if __name__ == "__main__":
    main(tyro.cli(Commands, description=__doc__))
