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
    "luong-ensemble": ("+ ensemble (of 4; paper: of 8)", 23.0),
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

Each system was trained for about {minutes:g} minutes on one CPU core, on the Spanish-English benchmark split, in the
same small setting. `python -m benchmarks.results --corpus spa-eng.zip` writes one JSON file per run into
`docs/results/`, with its recipe, versions, machine and date. `python -m benchmarks.results_page` writes this page from
the files. [Papers and code](papers.md) lists the recipe, the switch and the test of each system.

**The small setting** differs from the papers as follows:

- Layers are narrower, and there are at most two of them.
- The window of local attention is D = {window}. Sentences have 8 tokens on average; those of the paper have 25.
- The vocabulary has {vocabulary:,} words on each side.
- Training uses Adam with a learning rate that decays to 0, Glorot and orthogonal initial weights, label smoothing 0.1
  and batches of 64. The papers use Adadelta and SGD and train for days. The initial rate is 0.002 for the lecture's
  systems and 0.006 for the others.

`rnnsearch-small` is the unchanged recipe, with 4,000 subword pieces. All other differences between the systems are
those of the papers. The number of updates is derived from the minutes at the start of a run. Each of Luong's systems
has its own seed. Scores are sacreBLEU and chrF on raw, cased text, with greedy search unless stated otherwise. The loss
is in nats per reference token. The recipes in `nmt_keras/recipes/` have the sizes and the training of the papers.
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
            trained = f"{one['steps']:,} | {one['minutes']:.1f}" if "steps" in one else "combines runs |"
            lines.append(
                f"| `{run.name}` | {one['bleu']:.2f} | {one['chrf']:.2f} | {one['loss']:.3f} | {one['exact']:.1f} | "
                f"{one['parameters'] / 1e6:.1f} M | {trained} |"
            )
        else:
            lines.append(f"| `{run.name}` | not run yet | | | | | | |")
    lines += [
        "",
        "The figures of `tutorial` cannot be compared with the others, because it has its own corpus: the first 30,000 "
        "pairs, in lower case and without accents. The -8 and -16 models are trained on other pairs; see below.",
        "",
    ]
    return lines


def ladder(found: Mapping[str, Result]) -> list[str]:
    """Returns the table of Luong's systems, with the paper's BLEU."""
    lines = [
        "## Table 1 of Luong, Pham, Manning 2015, at a small size",
        "",
        "| system | BLEU | gain | paper's BLEU | gain |",
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
        "## Table 1 of Bahdanau, Cho, Bengio 2014, at a small size",
        "",
        "The sentences of this corpus are short, so the training limits are 8 and 16 words instead of the paper's 30 "
        "and 50. The -16 models are also trained on concatenations of up to 16 words. "
        '"Long" pairs are concatenations of 2 to 6 test pairs. '
        f'"No UNK" pairs have no unknown words, and UNK is never generated. The beam size is {BEAM}. The numbers of '
        "pairs are in parentheses.",
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
        "Scores of test pairs and their concatenations, with 95 % bootstrap intervals.",
        "",
    ]
    if "rnnsearch-16" in found:
        panels = [
            Panel(np.array(shown["alignment"]), shown["source"], shown["target"])
            for shown in found["rnnsearch-16"]["alignments"]
        ]
        save_figure(alignment_grid(panels, columns=2), folder / "results-alignments.png")
        lines += [
            "## Figure 3: alignments",
            "",
            "![Alignments of four sentences by rnnsearch-16](results-alignments.png)",
            "",
        ]
    return lines


def findings(found: Mapping[str, Result], prose: Path) -> list[str]:
    """Returns the section on findings: computed sentences, then the text of ``prose``."""
    lines = ["## Comparison with the papers' findings", ""]
    for limit in (8, 16):
        names = [f"rnnencdec-{limit}", f"rnnsearch-{limit}"]
        if all(name in found for name in names):
            bins = [found[name]["by_length"] for name in names]
            beyond = next(i for i, each in enumerate(bins[0]) if int(re.findall(r"\d+", each["label"])[0]) >= limit)
            falls = [each[0]["bleu"][0] - each[beyond]["bleu"][0] for each in bins]
            lines.append(
                f"- From sources of {bins[0][0]['label']} words to sources of {bins[0][beyond]['label']} words, "
                f"`{names[0]}` loses {falls[0]:.1f} BLEU and `{names[1]}` {falls[1]:.1f}. Both are trained on up to "
                f"{limit} words."
            )
    if len(lines) == 2:
        return []
    return [*lines, *([prose.read_text(encoding="utf-8").rstrip()] if prose.exists() else []), ""]


def circumstances(found: Mapping[str, Result]) -> list[str]:
    """Returns the dates, machines and versions of the runs."""
    told = {json.dumps(result["circumstances"], sort_keys=True) for result in found.values()}
    return [
        "## Machines and versions",
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
