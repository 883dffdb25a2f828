"""Writes docs/results.md and its figures from docs/results/*.json. All numbers come from these files.

python -m benchmarks.results_page
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import BEAM, COMBINED, MINUTES, RESULTS, VOCABULARY, WINDOW, Combined, Run, all_runs
from nmt_keras.plotting import Panel, alignment_grid, bleu_by_length, save_figure

Result = Mapping[str, Any]

LADDER = {
    "luong-base": ("base", 11.3),
    "luong-reverse": ("+ source reversed", 12.6),
    "luong-dropout": ("+ dropout", 14.0),
    "luong-location": ("+ global attention (location)", 16.8),
    "luong-feed": ("+ input feeding", 18.1),
    "luong-local-p": ("local-p attention (general) + feeding", 19.0),
    "luong-replace": ("+ unknown words replaced", 20.9),
    "luong-ensemble": ("+ ensemble (of 4; of 8 there)", 23.0),
}
"""System name and BLEU in table 1 of Luong, Pham, Manning 2015 (WMT14 English-German), by run."""

PUBLISHED = {
    "rnnencdec-8": ("RNNencdec-30", 13.93, 24.19),
    "rnnsearch-8": ("RNNsearch-30", 21.50, 31.44),
    "rnnencdec-16": ("RNNencdec-50", 17.82, 26.71),
    "rnnsearch-16": ("RNNsearch-50", 26.75, 34.16),
}
"""Model and BLEU (all, no UNK) in table 1 of Bahdanau, Cho, Bengio 2014 (WMT14 English-French), by run."""

MORE_PUBLISHED = (("RNNsearch-50, trained longer", 28.45, 36.15), ("Moses", 33.30, 35.63))

INTRODUCTION = """# Results

Every system, trained for about {minutes:g} minutes on one CPU core on the Spanish-English benchmark split, in one small
setting. This page is written by `python -m benchmarks.results_page` from one JSON file per run in `docs/results/`,
which `python -m benchmarks.results --corpus spa-eng.zip` makes; each holds its recipe, versions, machine and date.
[Papers and code](papers.md) names the recipe, the switch and the test of every line.

**The small setting**, and where it departs from the papers: layers a fraction as wide, at most two upon each other;
local attention's window is D = {window}, for sentences of 8 tokens on average where the paper's have 25;
{vocabulary:,} words a side; Adam with a rate that falls to 0, Glorot and orthogonal initial weights, label smoothing
0.1, batches of 64 - because the papers' Adadelta and SGD are made for days. The rate begins at 0.002 for the lecture's
systems, at 0.006 for the others; `rnnsearch-small` is the recipe as it is, with 4,000 pieces. What else tells the
systems apart is the papers'. Minutes become a number of updates at a run's start; each of Luong's systems has a seed of
its own. Scores are sacreBLEU and chrF on raw, cased text, greedy unless said; the loss is nats per token of the
reference. The recipes themselves, `nmt_keras/recipes/`, have the papers' sizes and training.
"""

PROSE = "findings.md"
"""File with the discussion of the results, in the folder of the results."""


def results(folder: Path) -> dict[str, Result]:
    """Returns all results by name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
    return {result["name"]: result for result in found}


def every_system(found: Mapping[str, Result]) -> list[str]:
    """Returns the table of all runs, in the order of their declaration."""
    lines = [
        "## Every system",
        "",
        "| run | BLEU | chrF | loss | exact, % | parameters | updates | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    systems: list[Run | Combined] = [*all_runs(), *COMBINED]
    for run in systems:
        if one := found.get(run.name):
            trained = f"{one['steps']:,} | {one['minutes']:.1f}" if "steps" in one else "of finished runs |"
            lines.append(
                f"| `{run.name}` | {one['bleu']:.2f} | {one['chrf']:.2f} | {one['loss']:.3f} | {one['exact']:.1f} | "
                f"{one['parameters'] / 1e6:.1f} M | {trained} |"
            )
        else:
            lines.append(f"| `{run.name}` | not run yet | | | | | | |")
    lines += [
        "",
        "`tutorial` has a corpus of its own, the first 30,000 pairs, in lower case without accents: its figures do not "
        "compare. The -8 and -16 models are trained on other pairs, see below.",
        "",
    ]
    return lines


def ladder(found: Mapping[str, Result]) -> list[str]:
    """Returns the table of Luong's systems, with the paper's BLEU."""
    lines = [
        "## The ladder of Luong, Pham, Manning 2015",
        "",
        "| system | BLEU here | gain | BLEU there | gain |",
        "|---|---|---|---|---|",
    ]
    before: tuple[float | None, float | None] = (None, None)
    for name, (rung, published) in LADDER.items():
        here = found[name]["bleu"] if name in found else None
        lines.append(
            f"| {rung} | {_score(here)} | {_gain(here, before[0])} | {published:.1f} | {_gain(published, before[1])} |"
        )
        before = (here, published)
    return [*lines, ""]


def table_1(found: Mapping[str, Result]) -> list[str]:
    """Returns table 1 of Bahdanau et al., with the paper's BLEU."""
    lines = [
        "## Table 1 of Bahdanau, Cho, Bengio 2014, in small",
        "",
        "The corpus's sentences are short, so limits of 8 and 16 words stand for the paper's 30 and 50. "
        "The -16 models also train on "
        'concatenations of up to 16 words; "long" concatenates 2 to 6 test pairs. '
        f'Beam {BEAM}. "No UNK": pairs without words unknown to the model, as many as are told, UNK never written.',
        "",
        "| model | test, all | test, no UNK | long, all | long, no UNK | paper's model | all | no UNK |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (there, every, known) in PUBLISHED.items():
        table = found[name]["table"] if name in found else {}
        here = [
            f"{_score(table[part][column])} ({table[part][pairs]:,})" if table else "-"
            for part in ("test", "long")
            for column, pairs in (("all", "pairs"), ("no_unk", "pairs_no_unk"))
        ]
        lines.append(f"| `{name}` | {' | '.join(here)} | {there} | {every:.2f} | {known:.2f} |")
    lines += [f"| | | | | | {there} | {every:.2f} | {known:.2f} |" for there, every, known in MORE_PUBLISHED]
    return [*lines, ""]


def pictures(found: Mapping[str, Result], folder: Path) -> list[str]:
    """Draws figures 2 and 3 of Bahdanau et al. into ``folder`` and returns their section."""
    have = [name for name in PUBLISHED if name in found]
    if not have:
        return []
    bins = found[have[0]]["by_length"]
    systems = {name: [part["bleu"] for part in found[name]["by_length"]] for name in have}
    figure = bleu_by_length([part["label"] for part in bins], [part["sentences"] for part in bins], systems)
    save_figure(figure, folder / "results-by-length.svg")
    lines = [
        "## Figure 2: BLEU by length of the source",
        "",
        "![BLEU by length](results-by-length.svg)",
        "",
        "Test pairs and their concatenations together, with 95 % bootstrap intervals.",
        "",
    ]
    if "rnnsearch-16" in found:
        panels = [
            Panel(np.array(shown["alignment"]), shown["source"], shown["target"])
            for shown in found["rnnsearch-16"]["alignments"]
        ]
        save_figure(alignment_grid(panels, columns=2), folder / "results-alignments.png")
        lines += [
            "## Figure 3: what the words looked at",
            "",
            "![Alignments of four sentences by rnnsearch-16](results-alignments.png)",
            "",
        ]
    return lines


def findings(found: Mapping[str, Result], prose: Path) -> list[str]:
    """Returns the section on findings: computed sentences, then the text of ``prose``."""
    lines = ["## What differs from the papers' findings", ""]
    for limit in (8, 16):
        names = [f"rnnencdec-{limit}", f"rnnsearch-{limit}"]
        if all(name in found for name in names):
            bins = [found[name]["by_length"] for name in names]
            beyond = next(i for i, each in enumerate(bins[0]) if int(re.findall(r"\d+", each["label"])[0]) >= limit)
            falls = [each[0]["bleu"][0] - each[beyond]["bleu"][0] for each in bins]
            lines.append(
                f"- Trained on up to {limit} words, from sources of {bins[0][0]['label']} words to those of "
                f"{bins[0][beyond]['label']}: `{names[0]}` loses {falls[0]:.1f} BLEU, `{names[1]}` {falls[1]:.1f}."
            )
    if len(lines) == 2:
        return []
    return [*lines, *([prose.read_text(encoding="utf-8").rstrip()] if prose.exists() else []), ""]


def circumstances(found: Mapping[str, Result]) -> list[str]:
    """Returns the dates, machines and versions of the runs."""
    told = {json.dumps(result["circumstances"], sort_keys=True) for result in found.values()}
    return [
        "## Circumstances",
        "",
        *(f"- {', '.join(f'{k} {v}' for k, v in json.loads(one).items())}" for one in sorted(told)),
        "",
    ]


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _gain(value: float | None, before: float | None) -> str:
    return "" if value is None or before is None else f"{value - before:+.1f}"


def page(found: Mapping[str, Result], folder: Path, prose: Path) -> str:
    """Returns the page and draws its figures into ``folder``. ``prose`` is the file with the discussion."""
    sections: Sequence[list[str]] = (
        every_system(found),
        ladder(found),
        table_1(found),
        pictures(found, folder),
        findings(found, prose),
        circumstances(found),
    )
    introduction = INTRODUCTION.format(minutes=MINUTES, vocabulary=VOCABULARY, window=WINDOW)
    return introduction + "\n" + "\n".join(line for section in sections for line in section)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=RESULTS.parent / "results.md")
    arguments = parser.parse_args()
    found = results(arguments.results)
    written = page(found, arguments.page.parent, arguments.results / PROSE)
    arguments.page.write_text(written, encoding="utf-8")
    print(f"{arguments.page}: {len(found)} results")


if __name__ == "__main__":
    main()
