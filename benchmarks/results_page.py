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
}
"""Model and BLEU (all, no UNK) in table 1 of Bahdanau, Cho, Bengio 2014 (WMT14 English-French), by run."""

TITLES = {
    "ladder": "The ladder of Luong, Pham, Manning 2015",
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
}
"""Names in figure 2, by run: model and length of its training pairs."""

MORE_PUBLISHED = (("RNNsearch-50, trained longer", 28.45, 36.15), ("Moses", 33.30, 35.63))

INTRODUCTION = """# Results

This page compares the systems in one small setting, on the Spanish-English benchmark split.
`python -m benchmarks.results_page` writes it from the JSON files in `docs/results/`. [Papers and code](papers.md) lists
the recipe, field and test of each equation. A *ladder* is a sequence of systems in which each system adds a component
to the previous one.

There are two kinds of results:

- **By protocol** (`docs/results/GROUP/`): equal numbers of updates, a learning rate chosen for each system by pilots,
  and the checkpoint of the lowest validation loss. A row is the mean of the finished runs, which differ in their seeds;
  *runs* is their number. The groups `as-published` have no pilots. [Compare attention
  variants](guides/compare-attention.md) describes the protocol. Command for the group `ladder`:
  `python -m benchmarks.results ladder --corpus spa-eng.zip --to runs/ladder --jobs 2`.
  The other groups are {groups}.
- **Single runs** (`docs/results/*.json`): one seed per system and about 7.5 minutes on one CPU core, so faster systems
  made more updates. The learning rate is 0.002 for the lecture's systems and 0.006 for all other systems. The scored
  checkpoint is the better of two, by validation loss.

**The small setting** differs from the papers:

- narrower layers, and at most two of them
- local attention with D = {window}, because sentences have 8 tokens on average instead of 25
- {vocabulary:,} words per side (except `rnnsearch-small`, which is unchanged and has 4,000 subwords)
- Adam with a rate that falls linearly to 0, Glorot and orthogonal initial weights, label smoothing 0.1 and batches of
  64, because the papers' Adadelta and SGD learn more slowly; the groups `as-published` use the papers' training
- a loss per token instead of per sentence
- in local-p, the logit of the position is the mean of v_p * tanh(W_p h_t) over the units, not the sum (see the
  [findings](#findings))

Scores are sacreBLEU and chrF on raw, cased text with greedy search, unless stated otherwise. "Exact" is the share of
test sentences whose translation equals the reference. The loss is in nats per token of the reference. AER is the
alignment error rate on [100 sentence pairs](results/alignments/README.md), 0 to 1, lower is better.
"""

PROSE = "findings.md"
"""Name of the file with the findings, in the folder of the results."""


def results(folder: Path) -> dict[str, Result]:
    """Returns all single runs by name."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
    return {result["name"]: result for result in found}


def by_protocol(source: Path, figures: Path) -> list[str]:
    """Returns one section for each group with results in ``source``; draws the ladder's losses into ``figures``."""
    lines = []
    for name, group in groups().items():
        folder = source / name
        if not (folder / "table.md").exists():
            continue
        lines += [f"## {TITLES[name]}, by protocol", "", (folder / "table.md").read_text("utf-8").rstrip(), ""]
        if name == "ladder":
            lines += [*_ladder_curves(folder, figures), *_against_paper(folder)]
        lines += [*_combined(group, folder), *_normalized(group, folder)]
    return lines


def _ladder_curves(folder: Path, figures: Path) -> list[str]:
    """Draws the validation losses of the ladder's first seed and returns the lines that show them."""
    names = [name for name in LADDER if (folder / f"luong-{name}-1.json").exists()]
    runs = {name: json.loads((folder / f"luong-{name}-1.json").read_text("utf-8")) for name in names}
    if not runs:
        return []
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


def single_runs(found: Mapping[str, Result]) -> list[str]:
    """Returns the table of all single runs, in the order of their groups."""
    lines = [
        "## Single runs",
        "",
        "| run | BLEU | chrF | loss | exact, % | parameters | updates | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    names = [system.name for group in groups().values() for system in group.systems]
    for name in dict.fromkeys(names):
        if one := found.get(name):
            lines.append(
                f"| `{name}` | {one['bleu']:.2f} | {one['chrf']:.2f} | {one['loss']:.3f} | {one['exact']:.1f} | "
                f"{one['parameters'] / 1e6:.1f} M | {one['steps']:,} | {one['minutes']:.1f} |"
            )
    if not found:
        lines.append("| no system has been run | | | | | | | |")
    lines += [
        "",
        "`tutorial` uses only the first 30,000 pairs, in lower case and without accents, so its scores are not "
        "comparable to the other scores. The -8 and -16 models are trained on other pairs; see table 1.",
        "",
    ]
    return lines


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
    systems = {LEGEND[name]: [part["bleu"] for part in found[name]["by_length"]] for name in have}
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


def reports(folder: Path, figures: Path) -> None:
    """Draws the example figures of the guide on evaluation from the file in ``folder``."""
    if (path := folder / "hour.json").exists():
        report = json.loads(path.read_text(encoding="utf-8"))
        lengths = bleu_by_length(report["bins"], report["sentences"], report["bleu_by_length"])
        save_figure(lengths, figures / "report-bleu-by-length.svg")
        save_figure(score_intervals(report["scores"]), figures / "report-scores.svg")


def findings(found: Mapping[str, Result], prose: Path) -> list[str]:
    """Returns the section on findings: the text of ``prose`` without the expressions that check it."""
    if not found or not prose.exists():
        return []
    text = re.sub(r"\s*<!--.*?-->", "", prose.read_text(encoding="utf-8"), flags=re.DOTALL)
    return ["## Findings", "", text.strip(), ""]


def circumstances(found: Mapping[str, Result], source: Path) -> list[str]:
    """Returns the dates, machines and versions of the single runs and of the groups' runs in ``source``."""
    runs = [json.loads(path.read_text("utf-8")) for path in sorted(source.glob("*/*-*.json"))]
    in_groups = [run for run in runs if isinstance(run, dict) and "circumstances" in run]
    told = {json.dumps(result["circumstances"], sort_keys=True) for result in [*found.values(), *in_groups]}
    return [
        "## Machines and versions",
        "",
        *(f"- {', '.join(f'{k} {v}' for k, v in json.loads(one).items())}" for one in sorted(told)),
        "",
    ]


def _other_groups() -> str:
    *most, last = (f"`{name}`" for name in groups() if name != "ladder")
    return f"{', '.join(most)} and {last}"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _gain(value: float | None, before: float | None) -> str:
    return "" if value is None or before is None else f"{value - before:+.1f}"


def page(source: Path, figures: Path) -> str:
    """Returns the page on the results in the folder ``source``, and draws its figures into the folder ``figures``."""
    found = results(source)
    sections: Sequence[list[str]] = (
        by_protocol(source, figures),
        single_runs(found),
        table_1(found),
        pictures(found, figures),
        findings(found, source / PROSE),
        circumstances(found, source),
    )
    reports(source / "reports", figures)
    introduction = INTRODUCTION.format(vocabulary=VOCABULARY, window=WINDOW, groups=_other_groups())
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
