"""The part of docs/results.md on table 1 and figures 2 and 3 of Bahdanau, Cho, Bengio 2014."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import BEAM
from nmt_keras.plotting import Panel, alignment_grid, bleu_by_length, save_figure

Result = Mapping[str, Any]

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

LEGEND = {
    "rnnencdec-8": "encoder-decoder, up to 8 words",
    "rnnsearch-8": "with attention, up to 8 words",
    "rnnencdec-16": "encoder-decoder, up to 16 words",
    "rnnsearch-16": "with attention, up to 16 words",
    "rnnsearch-16-longer": "with attention, up to 16 words, trained longer",
}
"""Names in figure 2, by run: model and length of its training pairs."""

FEWEST = 20
"""Smallest number of sentences of a point of figure 2. BLEU of fewer sentences is not reliable."""
PARTS = {
    "test": (
        "results-by-length.svg",
        "BLEU by length, test sentences",
        "Test sentences. {beyond} of {all} have more than 15 words.",
    ),
    "long": ("results-by-length-long.svg", "BLEU by length, concatenations", "Concatenations of 2 to 6 test pairs."),
}
"""File, text and caption of the parts of figure 2, by kind of test pair."""


def table_1(found: Mapping[str, Result]) -> list[str]:
    """Returns table 1 of Bahdanau et al. from the results of first seeds, with the paper's BLEU."""
    runs = {name: found[name]["table"] for name in PUBLISHED if "table" in found.get(name, {})}
    if not runs:
        return []
    lines = [
        "## Table 1 of Bahdanau, Cho, Bengio 2014, at a small size",
        "",
        "The sentences of this corpus are short, so the training limits are 8 and 16 words (the number in a name) "
        "instead of the paper's 30 and 50. Training pairs are single sentences and concatenations within the limit. "
        '"Long" pairs are concatenations of 2 to 6 test pairs. '
        f'"No UNK" pairs have no unknown words, and UNK is never generated. The beam size is {BEAM}, the seed is 1. '
        "The numbers of pairs are in parentheses. The commands of the groups `bahdanau-8`, `bahdanau-16` and "
        "`bahdanau-16-longer`, above, measure this table and figures 2 and 3.",
        "",
        "| model | test, all | test, no UNK | test, perplexity | long, all | long, no UNK | long, perplexity "
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
        kept = [place for place, one in enumerate(bins) if one["sentences"] >= FEWEST]
        systems = {LEGEND[name]: [found[name]["by_length"][part][i]["bleu"] for i in kept] for name in have}
        figure = bleu_by_length([bins[i]["label"] for i in kept], [bins[i]["sentences"] for i in kept], systems)
        save_figure(figure, folder / file)
        beyond = sum(one["sentences"] for one in bins if int(re.findall(r"\d+", one["label"])[0]) > 15)
        told = caption.format(beyond=beyond, all=f"{sum(one['sentences'] for one in bins):,}")
        told += f" Lengths with fewer than {FEWEST} sentences are not shown. Intervals: 95 %, bootstrap over sentences."
        lines += [f"![{text}]({file})", "", told, ""]
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
            f"Attention weights of `rnnsearch-16`, beam size {BEAM}. Columns: source words. Rows: translated words.",
            "",
        ]
    return lines
