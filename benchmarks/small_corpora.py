#!/usr/bin/env python3
"""Trains the recipe ``small-corpus``, and a variant of it, on small corpora of several sizes and languages.

    python -m benchmarks.small_corpora train --corpus spa-eng.zip --source 1 --target 0 --languages es en \\
        --pairs 20000 --to runs/small --variants small-corpus without-layer-norm
    python -m benchmarks.small_corpora table --to runs/small > docs/measured/small-corpora.json

``train`` draws training pairs from a corpus, trains each variant with the command ``nmt train``, and translates the
validation and the test set with beam 5. To resume an interrupted training, repeat the command: a variant with a result
is skipped. To use two cores, start it twice with different ``--variants``. ``table`` prints the results of all corpora
as JSON.
"""

from __future__ import annotations

import json
import operator
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import tyro

from benchmarks.machine import machine
from benchmarks.quality import BEAM, nmt, scores
from nmt_keras.corpus import Pair, read_pairs, split_pairs
from nmt_keras.files import read_json, write_whole
from nmt_keras.training import read_log

RECIPE: Final = "small-corpus"
"""Recipe of all variants."""
Variant = Literal["small-corpus", "without-layer-norm"]
VARIANTS: dict[Variant, dict[str, Any]] = {
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
    variants: tuple[Variant, ...] = (RECIPE,)
    """Variants to train."""


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
    (source, target), name = settings.languages, settings.corpus.name
    folder = settings.to / f"{name}-{source}-{target}-{settings.pairs}"
    corpus = {"corpus": name, "source": source, "target": target, "pairs": settings.pairs}
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
        last = {"updates": rows[-1]["step"], "epochs": rows[-1]["epoch"] + 1}  # begun epochs
        found = {**corpus, "variant": variant, **last, "bleu": bleu}
        write_whole(result, json.dumps({**before, **found}, indent=2))


def options_of(variant: Variant) -> list[str]:
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
    """Returns all results in ``folder`` by languages, corpus, size and variant, with the machine of the last one."""
    results = [read_json(path) for path in folder.glob("*/*.json")]
    if not results:
        raise SystemExit(f"small_corpora: {folder} contains no results. Run the command train first.")
    order, facts = list(VARIANTS), machine().keys()
    corpus = operator.itemgetter("source", "target", "corpus", "pairs")
    results.sort(key=lambda each: (corpus(each), order.index(each["variant"])))
    trained = [{name: value for name, value in each.items() if name not in facts} for each in results]
    latest = max(results, key=operator.itemgetter("date"))
    command = " ".join(["python -m benchmarks.small_corpora", *sys.argv[1:]])
    return {**{name: latest[name] for name in facts}, "command": command, "results": trained}


if __name__ == "__main__":
    main(tyro.cli(Commands, description=__doc__))
