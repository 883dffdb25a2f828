"""Measures the processor time and memory of preparing and of selecting from a corpus of the size of WMT'14.

    python -m benchmarks.corpus_cost --work WORK > docs/measured/corpus-cost.json

Generates 4.5 million sentence pairs, the size of English-German, runs ``nmt prepare`` and ``nmt select`` on them, and
prints JSON. Words are drawn from 700,000 by Zipf's law. Sentence lengths are log-normal, 25 words on average. The files
in WORK take 3 GB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.machine import machine

WORDS = 700_000
"""Number of different words of each side."""
CHUNK = 100_000
"""Number of pairs that are generated at once."""
DOMAIN = 3_000
"""Number of pairs of the domain, the first of the corpus."""
SELECTED = 40_000_000
"""Number of words to select."""


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    work: Path
    """Folder of the generated files and of the output."""
    pairs: int = 4_500_000
    """Number of sentence pairs."""


def main(settings: Settings) -> None:
    """Generates the pairs, measures both commands and prints the result."""
    before, work = machine(), settings.work
    work.mkdir(parents=True, exist_ok=True)
    corpus, domain = ([work / f"{name}.en", work / f"{name}.de"] for name in ("corpus", "domain"))
    words = generate(corpus, domain, settings.pairs)
    sides = ("--source", "--target")
    limits = [option for side in sides for option in (f"{side}.kind", "word", f"{side}.vocabulary-size", "50004")]
    commands = {
        "prepare": ["--corpus", *corpus, "--to", work / "prepared", *limits, "--filters.max-tokens", "51"],
        "select": ["--domain", *domain, "--corpus", *corpus, "--words", SELECTED, "--to", work / "selected.tsv.gz"],
    }
    found = {name: cost([name, *map(str, options)]) for name, options in commands.items()}
    command = " ".join(["python -m benchmarks.corpus_cost", *sys.argv[1:]])
    print(json.dumps({**before, "command": command, "pairs": settings.pairs, "words": words, **found}, indent=2))


def generate(corpus: Sequence[Path], domain: Sequence[Path], count: int) -> int:
    """Writes ``count`` pairs, and the first of them as the domain. Returns the number of words of one side."""
    random = np.random.default_rng(1)
    spellings = [np.array([spelled(number, first) for number in range(WORDS)], object) for first in ("", "k")]
    shares = np.arange(1, WORDS + 1) ** -1.05
    sums, total = np.cumsum(shares / shares.sum()), 0
    for path in (*corpus, *domain):
        path.write_text("", encoding="utf-8")
    for start in range(0, count, CHUNK):
        lengths = np.clip(random.lognormal(3.05, 0.55, min(CHUNK, count - start)).astype(int), 2, 90)
        bounds = [0, *np.cumsum(lengths)]
        drawn = np.minimum(np.searchsorted(sums, random.random(bounds[-1])), WORDS - 1)
        total += bounds[-1] + len(lengths)
        for words, path, own in zip(spellings, corpus, domain, strict=True):
            lines = [f"{' '.join(words[drawn[a:b]])} .\n" for a, b in pairwise(bounds)]
            with path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
            if start == 0:
                own.write_text("".join(lines[:DOMAIN]), encoding="utf-8")
    return int(total)


def spelled(number: int, first: str) -> str:
    """Returns the spelling of a word: ``first``, then the digits of ``number`` as letters."""
    letters = "abcdefghijklmnoprstuvwz"
    text = first
    while True:
        number, digit = divmod(number, len(letters))
        text += letters[digit]
        if number == 0:
            return text


def cost(arguments: Sequence[str]) -> dict[str, Any]:
    """Runs an ``nmt`` command. Returns its processor time in seconds and its peak memory in megabytes."""
    process = subprocess.Popen([sys.executable, "-m", "nmt_keras", *arguments], stdout=sys.stderr)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"corpus_cost: nmt {' '.join(arguments)} failed.")
    return {
        "processor_s": round(usage.ru_utime + usage.ru_stime),
        "peak_megabytes": round(usage.ru_maxrss * 1024 / 1e6),
    }


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
