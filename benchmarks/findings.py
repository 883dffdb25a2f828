"""Checks the sentences of docs/results/findings.md against the results.

    python -m benchmarks.findings

Each item of a list ends in an HTML comment: a Python expression over the results that is true if the sentence holds.

    system("luong-base")          row of a system in the table of its group, docs/results/GROUP/table.json
    system("rnnsearch", "units")  row of a system of several groups in the table of one of them
    rows()                        rows of all systems in all tables
    step("luong-base", "x")       mean BLEU of the second system minus that of the first, to one decimal
    runs("luong-base")            results of a system's seeds, docs/results/GROUP/NAME-SEED.json
    first("luong-base")           the first of them
    pilots("luong-base")          learning rates of a system's pilots, [] without pilots
    bins("rnnsearch-16", "long")  BLEU of a system's first seed by length, "test" or "long", docs/results.md's figure 2
    welch("luong-base", "x")      p-value of a Welch test of the BLEU of two systems' runs, to three decimals
    by_seed("luong-base", "x")    BLEU of each seed of the second system minus that of the first, to one decimal
    points("local-p", 1)          measurements of a system and a seed in docs/results/diagnostics/local-p.json
    loss(point)                   validation loss of a measurement, as a key of min and max
    sgd("local-p")                measurements of a system that was trained with SGD, in the same file
    translation("local-p", 1)     row of a system of notebook 3 and a seed in the same file
    positions(3)                  p_t of the ladder's local-p with a seed in the same file
    LADDER, LECTURE               systems of the ladder; pairs (system, its extension) of the lecture

Prints each sentence with the outcome. The exit code is 1 if a sentence does not hold or has no expression.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import tyro
from scipy.stats import ttest_ind

from benchmarks.results import LADDER, RESULTS

PROSE = RESULTS / "findings.md"
ITEM = re.compile(r"^- (?P<text>.*?)(?:\s*<!--\s*(?P<claim>.*?)\s*-->)?$", re.MULTILINE)
LECTURE = (
    ("lecture-rnn", "lecture-separate"),
    ("lecture-separate", "lecture-fed"),
    ("lecture-fed", "lecture-deep"),
    ("lecture-deep", "lecture-bidirectional"),
    ("lecture-deep", "lecture-reversed"),
)


class Finding(NamedTuple):
    """A sentence and whether it holds."""

    text: str
    claim: str
    holds: bool


@dataclass(frozen=True)
class Settings:
    """Options of the check."""

    prose: Path = PROSE
    """Markdown file with the sentences."""


@cache
def read(path: Path) -> Any:
    """Returns the content of a JSON file, with objects as namespaces."""
    return json.loads(path.read_text("utf-8"), object_hook=lambda fields: SimpleNamespace(**fields))


def system(name: str, group: str = "*") -> Any:
    found, *others = [row for row in rows(group) if row.name == name]
    if any(other != found for other in others):
        raise ValueError(f"findings: expected equal rows of {name} in all groups, received {[found, *others]}.")
    return found


def rows(group: str = "*") -> list[Any]:
    return [row for path in sorted(RESULTS.glob(f"{group}/table.json")) for row in read(path).systems]


def step(before: str, after: str) -> float:
    return round(float(system(after).bleu.mean - system(before).bleu.mean), 1)


def runs(name: str) -> list[Any]:
    folder, *_ = [path.parent for path in sorted(RESULTS.glob(f"*/{name}-[0-9].json"))]
    return [read(path) for path in sorted(folder.glob(f"{name}-[0-9].json"))]


def first(name: str) -> Any:
    return runs(name)[0]


def pilots(name: str) -> list[float]:
    return [pilot.learning_rate for pilot in first(name).pilots or []]


def bins(name: str, part: str) -> dict[str, float]:
    return {each.label: float(each.bleu[0]) for each in getattr(first(name).by_length, part)}


def welch(before: str, after: str) -> float:
    return round(float(ttest_ind(bleus(before), bleus(after), equal_var=False).pvalue), 3)


def by_seed(before: str, after: str) -> list[float]:
    assert [run.seed for run in runs(before)] == [run.seed for run in runs(after)]
    return [round(b - a, 1) for a, b in zip(bleus(before), bleus(after), strict=True)]


def bleus(name: str) -> list[float]:
    return [float(run.bleu) for run in runs(name)]


def points(name: str, seed: int) -> list[Any]:
    rows = read(RESULTS / "diagnostics" / "local-p.json")
    (found,) = [row for row in rows if row.experiment == "training" and (row.system, row.seed) == (name, seed)]
    return list(found.points)


def sgd(name: str) -> list[Any]:
    rows = read(RESULTS / "diagnostics" / "local-p.json")
    (found,) = [row for row in rows if row.experiment == "sgd" and row.system == name]
    return list(found.points)


def loss(point: Any) -> float:
    return float(point.loss)


def translation(name: str, seed: int) -> Any:
    rows = read(RESULTS / "diagnostics" / "local-p.json")
    (found,) = [row for row in rows if row.experiment == "translation" and (row.system, row.seed) == (name, seed)]
    return found


def positions(seed: int) -> Any:
    rows = read(RESULTS / "diagnostics" / "local-p.json")
    (found,) = [row for row in rows if row.experiment == "ladder" and row.seed == seed]
    return found.test


FUNCTIONS = (system, rows, step, runs, first, pilots, bins, welch, by_seed, points, sgd, loss, translation, positions)
BUILTINS = (round, min, max, all, len, range, getattr, sorted)
NAMES: dict[str, Any] = {
    **{function.__name__: function for function in (*FUNCTIONS, *BUILTINS)},
    "LADDER": [f"luong-{name}" for name in LADDER],
    "LECTURE": LECTURE,
    "__builtins__": {},
}


def findings(prose: str) -> list[Finding]:
    """Returns the list items of ``prose``. An item without an expression does not hold."""
    found = []
    for item in ITEM.finditer(prose):
        claim = item["claim"] or ""
        found.append(Finding(item["text"], claim, bool(claim) and eval(claim, dict(NAMES)) is True))
    return found


def main(settings: Settings) -> None:
    """Prints the outcome of each sentence."""
    found = findings(settings.prose.read_text("utf-8"))
    for finding in found:
        print(f"{'holds' if finding.holds else 'FAILS'}  {finding.text}\n       {finding.claim or 'no expression'}")
    if not found or not all(finding.holds for finding in found):
        sys.exit(1)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
