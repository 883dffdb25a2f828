"""Writes docs/results.md and its figures from the files in docs/results. All numbers come from these files.

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

from benchmarks import local_p_page
from benchmarks.results import BEAM, COMBINED, LADDER, RESULTS, VOCABULARY, WINDOW, Group, groups
from nmt_keras.plotting import (
    Panel,
    alignment_grid,
    bleu_by_length,
    compare_training,
    save_figure,
    score_intervals,
)

Result = Mapping[str, Any]

RUNGS = {
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
    "rnnsearch-16-longer": ("RNNsearch-50, trained longer", 28.45, 36.15),
}
"""Model and BLEU (all, no UNK) in table 1 of Bahdanau, Cho, Bengio 2014 (WMT14 English-French), by run."""

MOSES = ("Moses", 33.30, 35.63)
"""The phrase-based system of the same table."""

TITLES = {
    "ladder": "The ladder of Luong, Pham, Manning 2015",
    "general-rate": "The general score with a lower learning rate",
    "bahdanau-8": "RNNencdec and RNNsearch, up to 8 words",
    "bahdanau-16": "RNNencdec and RNNsearch, up to 16 words",
    "bahdanau-16-longer": "RNNsearch, up to 16 words, four times as many updates",
    "lecture": "The lecture's systems",
    "tutorial": "The tutorial's system",
    "sampling": "Teacher forcing, scheduled sampling and free running",
    "units": "Words, subwords and characters",
    "self-attention": "Recurrence and self-attention at equal size",
    "fixed-context": "Fixed contexts: the last state and the mean of the annotations",
    "small-corpus": "30,000 training pairs",
    "ensemble": "Ensembles of one system",
    "rnnsearch-50-as-published": "RNNsearch with the paper's training",
    "luong-feed-as-published": "Luong's input feeding with the paper's training",
}
"""Titles of the sections on groups, by group."""

LADDER_LEGEND = {
    "base": "no attention",
    "reverse": "+ source reversed",
    "dropout": "+ dropout",
    "location": "+ location attention",
    "feed": "+ input feeding",
    "dot": "dot attention, input feeding",
    "general": "general attention, input feeding",
    "concat": "concat attention, input feeding",
    "local-m": "local-m attention, input feeding",
    "local-p": "local-p attention, input feeding",
}
"""Names in the figure of the ladder, by rung."""

LEGEND = {
    "rnnencdec-8": "encoder-decoder, up to 8 words",
    "rnnsearch-8": "with attention, up to 8 words",
    "rnnencdec-16": "encoder-decoder, up to 16 words",
    "rnnsearch-16": "with attention, up to 16 words",
    "rnnsearch-16-longer": "with attention, up to 16 words, trained longer",
}
"""Names in figure 2, by run: model and length of its training pairs."""

PARTS = {
    "test": ("results-by-length.svg", "BLEU by length, test sentences", "Test sentences. Few have more than 15 words."),
    "long": ("results-by-length-long.svg", "BLEU by length, concatenations", "Concatenations of 2 to 6 test pairs."),
}
"""File, text and caption of the parts of figure 2, by kind of test pair."""

INTRODUCTION = """# Results

This page compares the systems of the papers in one small setting, on the Spanish-English benchmark split.
`python -m benchmarks.results_page` writes it from the JSON files in `docs/results/`. [Papers and code](papers.md) lists
the recipe, field and test of each equation.

**The protocol.** Systems of one group have equal numbers of updates and the same training pairs. Pilots choose the
learning rate of each system, except in the groups with `as-published` or `longer` in their names. The checkpoint with
the lowest validation loss is scored. [Compare attention variants](guides/compare-attention.md) describes the protocol.
Each group has a command:

    python -m benchmarks.results GROUP --corpus spa-eng.zip --to runs/GROUP --jobs 2

**The small setting** differs from the papers:

- narrower layers, and at most two of them
- local attention with D = {window}, because sentences have 8 tokens on average instead of 25
- {vocabulary:,} words per side (`rnnsearch-small` and `subwords`: subwords; `characters`: characters)
- Adam with a rate that falls linearly to 0, Glorot and orthogonal initial weights, label smoothing 0.1 and batches of
  64, because the papers' Adadelta and SGD learn more slowly; the groups `as-published` use the papers' training
- a loss per token instead of per sentence
- in local-p, the logit of the position is a [mean over the units](#local-p-sum-or-mean-over-the-units), not a sum

**The tables.** Scores are sacreBLEU and chrF on raw, cased text with greedy search, unless stated otherwise, with 95 %
intervals. If a system has several runs, which differ in their seeds, a row is their mean ± standard deviation, and the
intervals are from a bootstrap over sentences and runs. With one run, they do not include the variation between seeds.
p is the two-sided p-value of the difference from the row above, from a paired bootstrap, at least 0.001. Perplexity is
per token of the reference. AER is the alignment error rate on [100 sentence pairs](results/alignments/README.md), 0 to
1, lower is better.
"""

PROSE = "findings.md"
"""Name of the file with the findings, in the folder of the results."""


def first_runs(source: Path) -> dict[str, Result]:
    """Returns the result of each system's first seed, by system. A system of several groups has that of the first."""
    found: dict[str, Result] = {}
    for name, group in groups().items():
        for system in group.systems:
            path = source / name / f"{system.name}-1.json"
            if system.name not in found and path.exists():
                found[system.name] = json.loads(path.read_text("utf-8"))
    return found


def table_of(folder: Path) -> Result | None:
    """Returns the table of the group with the folder ``folder``, or ``None`` if the group has no result."""
    path = folder / "table.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def group_sections(source: Path, figures: Path) -> list[str]:
    """Returns one section for each group with results in ``source``, and draws the figures into ``figures``."""
    lines, found = [], first_runs(source)
    for name, group in groups().items():
        folder = source / name
        if (protocol := table_of(folder)) is None:
            continue
        rows = [line for line in (folder / "table.md").read_text("utf-8").splitlines() if line.startswith("|")]
        runs = "1 run" if protocol["finished"] == 1 else f"{protocol['finished']} runs"
        told = f"Group `{name}`, {runs} of {protocol['updates']:,} updates."
        lines += [f"## {TITLES[name]}", "", *rows, "", told, ""]
        if name == "ladder":
            lines += [*_ladder_curves(found, figures), *_against_paper(folder)]
        lines += [*_combined(group, folder), *_normalized(group, folder)]
    return lines


def _ladder_curves(found: Mapping[str, Result], figures: Path) -> list[str]:
    """Draws the validation losses of the ladder's first seed and returns the lines that show them."""
    runs = {name: found[f"luong-{name}"] for name in LADDER if f"luong-{name}" in found}
    curves = compare_training({LADDER_LEGEND[name]: run["validations"] for name, run in runs.items()})
    save_figure(curves, figures / "results-ladder.svg")
    return [
        "![Validation loss and BLEU against updates](results-ladder.svg)",
        "",
        "Validation loss and BLEU of the first seed.",
        "",
    ]


def _against_paper(folder: Path) -> list[str]:
    """Returns the table of Luong's systems, with the paper's BLEU. A system that has not been run has no score."""
    rows = json.loads((folder / "table.json").read_text("utf-8"))["systems"]
    here = {row["name"]: row["bleu"]["mean"] for row in rows}
    made_of: dict[str, float] = {}
    for combined in COMBINED:
        for path in folder.glob(f"{combined.name}-*.json"):
            result = json.loads(path.read_text("utf-8"))
            here[combined.name] = result["bleu"]
            if len(result["runs"]) == 1:
                made_of[combined.name] = json.loads((folder / f"{result['runs'][0]}.json").read_text("utf-8"))["bleu"]
    lines = [
        "The systems of table 1 of the paper (WMT14 English-German), in its order. The last two are made of runs with "
        "the first seed, and their gains are those over systems of the first seed.",
        "",
        "| system | BLEU | gain | paper's BLEU | gain |",
        "|---|---|---|---|---|",
    ]
    before: tuple[float | None, float | None] = (None, None)
    for name, (rung, published) in RUNGS.items():
        ours, previous = here.get(name), made_of.get(name, before[0])
        lines.append(
            f"| {rung} | {_score(ours)} | {_gain(ours, previous)} | {published:.1f} | {_gain(published, before[1])} |"
        )
        before = (ours, published)
    return [*lines, ""]


def _combined(group: Group, folder: Path) -> list[str]:
    """Returns the table of a group's combined systems, each after the runs that it is made of."""
    rows: dict[str, Result] = {}
    for combined in group.combined:
        for path in folder.glob(f"{combined.name}-*.json"):
            result = json.loads(path.read_text("utf-8"))
            paths = [path for run in result["runs"] if (path := folder / f"{run}.json").exists()]
            members = {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
            rows |= {**members, combined.name: result}
    if not rows:
        return []
    lines = ["| run | BLEU | chrF | loss | unknown, % |", "|---|---|---|---|---|"]
    lines += [
        f"| `{name}` | {row['bleu']:.2f} | {row['chrf']:.2f} | {row['loss']:.3f} | {_score(row.get('unknown'))} |"
        for name, row in rows.items()
    ]
    note = "Runs and the systems made of them. Unknown: share of the translations' tokens that are unknown words."
    return [*lines, "", note, ""]


def _normalized(group: Group, folder: Path) -> list[str]:
    """Returns the table of the runs that are also scored without case or accents."""
    paths = sorted(path for system in group.systems for path in folder.glob(f"{system.name}-*.json"))
    runs = {path.stem: json.loads(path.read_text("utf-8")) for path in paths}
    rows = {name: run for name, run in runs.items() if "normalized" in run}
    if not rows:
        return []
    lines = ["| run | BLEU, raw text | BLEU, lower case without accents |", "|---|---|---|"]
    lines += [f"| `{name}` | {run['bleu']:.2f} | {run['normalized']['bleu']:.2f} |" for name, run in rows.items()]
    signatures = {(run["signature"], run["normalized"]["signature"]) for run in rows.values()}
    lines.append("")
    for raw, simple in sorted(signatures):
        lines += [f"Raw text: `{raw}`. Lower case, accents removed from both sides: `{simple}`.", ""]
    return lines


def table_1(found: Mapping[str, Result]) -> list[str]:
    """Returns table 1 of Bahdanau et al. from the results of first seeds, with the paper's BLEU."""
    runs = {name: found[name]["table"] for name in PUBLISHED if "table" in found.get(name, {})}
    if not runs:
        return []
    lines = [
        "## Table 1 of Bahdanau, Cho, Bengio 2014, at a small size",
        "",
        "The sentences of this corpus are short, so the training limits are 8 and 16 words instead of the paper's 30 "
        "and 50. Training pairs are single sentences and concatenations within the limit. "
        '"Long" pairs are concatenations of 2 to 6 test pairs. '
        f'"No UNK" pairs have no unknown words, and UNK is never generated. The beam size is {BEAM}, the seed is 1. '
        "The numbers of pairs are in parentheses.",
        "",
        "| model | test, all | test, no UNK | perplexity | long, all | long, no UNK | perplexity "
        "| paper's model | all | no UNK |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, table in runs.items():
        here = [
            cell
            for part in (table["test"], table["long"])
            for cell in (
                f"{part['all']:.2f} ({part['pairs']:,})",
                f"{part['no_unk']:.2f} ({part['pairs_no_unk']:,})",
                f"{part['perplexity']:.2f}",
            )
        ]
        there, every, known = PUBLISHED[name]
        lines.append(f"| `{name}` | {' | '.join(here)} | {there} | {every:.2f} | {known:.2f} |")
    there, every, known = MOSES
    lines.append(f"| | | | | | | | {there} | {every:.2f} | {known:.2f} |")
    return [*lines, ""]


def pictures(found: Mapping[str, Result], folder: Path) -> list[str]:
    """Draws figures 2 and 3 of Bahdanau et al. into ``folder`` and returns their section."""
    have = [name for name in PUBLISHED if "by_length" in found.get(name, {})]
    if not have:
        return []
    lines = ["## Figure 2: BLEU by length of the source", ""]
    for part, (file, text, caption) in PARTS.items():
        bins = found[have[0]]["by_length"][part]
        systems = {LEGEND[name]: [one["bleu"] for one in found[name]["by_length"][part]] for name in have}
        figure = bleu_by_length([one["label"] for one in bins], [one["sentences"] for one in bins], systems)
        save_figure(figure, folder / file)
        lines += [f"![{text}]({file})", "", f"{caption} Intervals: 95 %, bootstrap over sentences.", ""]
    if "rnnsearch-16" in have:
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


def error_rates(source: Path) -> list[str]:
    """Returns the table of alignment error rates of all systems with attention, lowest first."""
    found: dict[str, tuple[float, str, Result]] = {}
    for name in groups():
        for row in (table_of(source / name) or {"systems": []})["systems"]:
            if row["error_rate"] and row["name"] not in found:
                attention = json.loads((source / name / f"{row['name']}-1.json").read_text("utf-8"))["recipe"]["model"]
                found[row["name"]] = row["error_rate"]["mean"], _attention(attention), row
    if not found:
        return []
    lines = ["## Alignment error rates", "", "| system | attention | AER | runs | BLEU |", "|---|---|---|---|---|"]
    for name, (rate, kind, row) in sorted(found.items(), key=lambda item: item[1][0]):
        spread = "" if row["error_rate"]["deviation"] is None else f" ± {row['error_rate']['deviation']:.3f}"
        lines.append(f"| `{name}` | {kind} | {rate:.3f}{spread} | {len(row['seeds'])} | {row['bleu']['mean']:.2f} |")
    return [*lines, ""]


def _attention(model: Result) -> str:
    """Returns the kind of attention of a model, in words."""
    attention = model["attention"]
    if model["decoder"]["order"] == "self-attention":
        return f"scaled dot, {model['decoder']['heads']} heads"
    local = "" if attention["span"] == "global" else f", {attention['span']}"
    return f"{attention['kind']}{local}{', input feeding' if model['decoder']['input_feeding'] else ''}"


def reports(folder: Path, figures: Path) -> None:
    """Draws the example figures of the guide on evaluation from the file in ``folder``."""
    if (path := folder / "hour.json").exists():
        report = json.loads(path.read_text(encoding="utf-8"))
        lengths = bleu_by_length(report["bins"], report["sentences"], report["bleu_by_length"])
        save_figure(lengths, figures / "report-bleu-by-length.svg")
        save_figure(score_intervals(report["scores"]), figures / "report-scores.svg")


def findings(prose: Path) -> list[str]:
    """Returns the section on findings: the text of ``prose`` without the expressions that check it."""
    if not prose.exists():
        return []
    text = re.sub(r"\s*<!--.*?-->", "", prose.read_text(encoding="utf-8"), flags=re.DOTALL)
    return ["## Findings", "", text.strip(), ""]


def circumstances(source: Path) -> list[str]:
    """Returns the versions, cores and dates of the runs in ``source``."""
    runs = [json.loads(path.read_text("utf-8")) for path in sorted(source.glob("*/*-*.json"))]
    told = {
        json.dumps(run["circumstances"], sort_keys=True)
        for run in runs
        if isinstance(run, dict) and "circumstances" in run
    }
    return [
        "## Versions",
        "",
        *(f"- {', '.join(f'{name} {value}' for name, value in json.loads(one).items())}" for one in sorted(told)),
        "",
    ]


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _gain(value: float | None, before: float | None) -> str:
    return "" if value is None or before is None else f"{value - before:+.1f}"


def page(source: Path, figures: Path) -> str:
    """Returns the page on the results in the folder ``source``, and draws its figures into the folder ``figures``."""
    found = first_runs(source)
    sections: Sequence[list[str]] = (
        findings(source / PROSE),
        group_sections(source, figures) or ["No system has been run.", ""],
        table_1(found),
        pictures(found, figures),
        error_rates(source),
        local_p_page.section(source / "diagnostics" / "local-p.json", figures),
        circumstances(source),
    )
    reports(source / "reports", figures)
    introduction = INTRODUCTION.format(vocabulary=VOCABULARY, window=WINDOW)
    return introduction + "\n" + "\n".join(line for section in sections for line in section)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=RESULTS.parent / "results.md")
    arguments = parser.parse_args()
    arguments.page.write_text(page(arguments.results, arguments.page.parent), encoding="utf-8")
    print(arguments.page)


if __name__ == "__main__":
    main()
