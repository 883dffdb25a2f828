"""The part of docs/results.md on the ladder of Luong, Pham, Manning 2015, from the results of the group ``ladder``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import COMBINED, LADDER
from nmt_keras.plotting import compare_training, save_figure

Result = Mapping[str, Any]

RUNGS = {
    "luong-base": ("base", 11.3, 10.6),
    "luong-reverse": ("+ source reversed", 12.6, 9.9),
    "luong-dropout": ("+ dropout", 14.0, 8.1),
    "luong-location": ("+ global attention (location)", 16.8, 7.3),
    "luong-feed": ("+ input feeding", 18.1, 6.4),
    "luong-local-p": ("local-p attention (general) + feeding", 19.0, 5.9),
    "luong-replace": ("+ unknown words replaced (first seed)", 20.9, 5.9),
    "luong-ensemble": ("+ ensemble (of 4, first seeds; paper: of 8)", 23.0, None),
}
"""System name, BLEU and perplexity in table 1 of Luong, Pham, Manning 2015 (WMT14 English-German), by run."""

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


def curves(found: Mapping[str, Result], figures: Path) -> list[str]:
    """Draws the validation losses of the ladder's first seed and returns the lines that show them."""
    runs = {name: found[f"luong-{name}"] for name in LADDER if f"luong-{name}" in found}
    figure = compare_training({LADDER_LEGEND[name]: run["validations"] for name, run in runs.items()})
    save_figure(figure, figures / "results-ladder.svg")
    return [
        "![Validation loss and BLEU against updates](results-ladder.svg)",
        "",
        "Validation loss and BLEU of the first seed. The other seeds differ, most of all with the general score.",
        "",
    ]


def against_paper(folder: Path) -> list[str]:
    """Returns the table of Luong's systems, with the paper's BLEU. A system that has not been run has no score."""
    rows = json.loads((folder / "table.json").read_text("utf-8"))["systems"]
    here = {row["name"]: row["bleu"]["mean"] for row in rows}
    perplexity = {row["name"]: row["perplexity"]["mean"] for row in rows}
    made_of: dict[str, float] = {}
    for combined in COMBINED:
        for path in folder.glob(f"{combined.name}-*.json"):
            result = json.loads(path.read_text("utf-8"))
            here[combined.name], perplexity[combined.name] = result["bleu"], result["perplexity"]
            if len(result["runs"]) == 1:
                made_of[combined.name] = json.loads((folder / f"{result['runs'][0]}.json").read_text("utf-8"))["bleu"]
    lines = [
        "The systems of table 1 of the paper (WMT14 English-German), in its order. The last two are made of runs with "
        "the first seed, and their gains are those over systems of the first seed.",
        "",
        "| system | BLEU | gain | perplexity | paper's BLEU | gain | perplexity |",
        "|---|---|---|---|---|---|---|",
    ]
    before: tuple[float | None, float | None] = (None, None)
    for name, (rung, published, published_perplexity) in RUNGS.items():
        ours, previous = here.get(name), made_of.get(name, before[0])
        cells = [rung, _score(ours), _gain(ours, previous), _score(perplexity.get(name)), f"{published:.1f}"]
        cells += [_gain(published, before[1]), "-" if published_perplexity is None else f"{published_perplexity:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
        before = (ours, published)
    return [*lines, ""]


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _gain(value: float | None, before: float | None) -> str:
    return "" if value is None or before is None else f"{value - before:+.1f}"
