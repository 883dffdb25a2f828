"""The section of docs/results.md on predictive local attention, from the runs of ``benchmarks.local_p``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.local_p import VARIANTS
from nmt_keras.markdown import table
from nmt_keras.plotting import save_figure
from nmt_keras.plotting.style import COLOURS, MARKERS, SCREEN_DPI, add_legend, finish, looks

Row = Mapping[str, Any]

QUANTITIES = {"loss": "validation loss (nats per token)", "saturated": "saturated positions (share)"}
PANEL_WIDTH, PANEL_HEIGHT = 7.0, 2.8  # inches

INTRODUCTION = """## Local-p: sum or mean over the units

Local-p predicts the centre of its window, p_t = S * sigmoid(v_p * tanh(W_p h_t)) (Luong et al. 2015, equation 9). S is
the source length. With Adam, one update can move all terms of this sum in the same direction. The sigmoid may then
saturate: p_t is at an end of the sentence, where its gradient is close to zero. By default, nmt_keras therefore uses
the mean over the units. The recipe `luong-local-p`, which is trained with SGD, has the paper's sum.
This section compares both with p_t = t ("local-m"; "Gaussian": with the weights of local-p) and with global attention
("general"). A position is *saturated* if the derivative of its sigmoid is below 0.01. *Correlation* is that of p_t with
t. *Mass* is the sum of a row of attention weights before it is normalised. The commands:

    python -m benchmarks.local_p --corpus spa-eng.zip --experiments agreement overfit training translation
    python -m benchmarks.local_p --corpus spa-eng.zip --experiments training --seeds 3 4 \
--variants local-m local-p 'local-p, sum'
    python -m benchmarks.local_p --corpus spa-eng.zip --experiments sgd --seeds 1
    python -m benchmarks.local_p --corpus spa-eng.zip --experiments ladder \
--runs runs/ladder/runs/luong-local-p-2 runs/ladder/runs/luong-local-p-3
"""


def section(path: Path, figures: Path) -> list[str]:
    """Returns the section on the runs in the file ``path``, and draws its figure into the folder ``figures``."""
    if not path.exists():
        return []
    rows: list[Row] = json.loads(path.read_text("utf-8"))
    save_figure(curves(of(rows, "training")), figures / "results-local-p.svg")
    lines = [INTRODUCTION, *_training(of(rows, "training"), "with Adam at a peak rate of")]
    lines += [
        "![Validation loss and saturated positions](results-local-p.svg)",
        "",
        "The training above, with each seed of the mean and of the sum.",
        "",
    ]
    lines += _training(of(rows, "sgd"), "with the paper's SGD at")
    lines += _ladder(of(rows, "ladder"))
    return [*lines, *_translation(of(rows, "translation")), *_overfit(of(rows, "overfit")), *_agreement(rows)]


def of(rows: Sequence[Row], experiment: str) -> list[Row]:
    """Returns the rows of an experiment, in the order of ``VARIANTS``, then of windows and seeds."""
    found = [row for row in rows if row["experiment"] == experiment]
    return sorted(found, key=lambda row: (VARIANTS.index(row["system"]), row["window"], row["seed"]))


def predicts(system: str) -> bool:
    """Returns ``True`` if a system predicts p_t. The other systems with a window have p_t = t."""
    return system.startswith("local-p")


def curves(rows: Sequence[Row]) -> Figure:
    """Draws validation loss and saturated positions of local-p against updates, for all seeds."""
    drawn = {f"{row['system']}, seed {row['seed']}": row["points"][1:] for row in rows if predicts(row["system"])}
    figure = Figure(figsize=(PANEL_WIDTH, PANEL_HEIGHT * len(QUANTITIES)), dpi=SCREEN_DPI, layout="constrained")
    panels = figure.subplots(len(QUANTITIES), sharex=True)
    lines, families = looks(list(drawn))
    for line, row in zip(lines, filter(lambda row: predicts(row["system"]), rows), strict=True):
        line |= {"color": COLOURS["sum" in row["system"]], "marker": MARKERS[row["seed"] - 1]}
    for (quantity, label), axes in zip(QUANTITIES.items(), panels, strict=True):
        for line, points in zip(lines, drawn.values(), strict=True):
            axes.plot([p["updates"] for p in points], [p[quantity] for p in points], **line, markersize=5)
        axes.set_ylabel(label)
        if quantity == "saturated":
            axes.set_ylim(-0.05, 1.05)
        finish(axes)
    panels[-1].set_xlabel("updates")
    panels[-1].xaxis.label.set_color(panels[-1].yaxis.label.get_color())
    add_legend(figure, families)
    return figure


def _training(rows: Sequence[Row], optimizer: str) -> list[str]:
    if not rows:
        return []
    best = [min(row["points"], key=lambda point: point["loss"]) for row in rows]
    cells = [
        [row["system"], str(row["seed"]), f"{point['updates']:,.0f}", *_figures(row["system"], point)]
        for row, point in zip(rows, best, strict=True)
    ]
    first = rows[0]
    told = (
        f"Trained on {first['pairs']:,} pairs of at most 9 tokens, END included, {optimizer} {first['rate']}, and "
        f"scored on 500 other pairs {len(first['points']) - 1} times in {first['points'][-1]['updates']:,.0f} updates. "
        "At the lowest validation loss:"
    )
    return [told, "", table(["system", "seed", "updates", *HEADS], cells), ""]


def _translation(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    cells = [
        [
            row["system"],
            str(row["seed"]),
            f"{row['bleu']:.2f}",
            *_figures(row["system"], row["test"], row["valid_loss"]),
        ]
        for row in rows
    ]
    heads = ["system", "seed", "BLEU", *HEADS]
    told = f"The model of notebook 3 with D = {rows[0]['window']}, after {rows[0]['updates']:,} updates:"
    return [told, "", table(heads, cells), ""]


def _ladder(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    cells = [[str(row["seed"]), *_figures(row["system"], row["test"])] for row in rows]
    told = (
        f"`luong-local-p` in the ladder (the mean, Adam, D = {rows[0]['window']}), on 1,000 pairs of the test set, "
        "which also has long sentences. The loss is on these pairs:"
    )
    return [told, "", table(["seed", "test loss", *HEADS[1:]], cells), ""]


def _overfit(rows: Sequence[Row]) -> list[str]:
    if not rows:
        return []
    cells = [
        [row["system"], str(row["window"]), *(f"{row['points'][point]['loss']:.3f}" for point in (0, -1))]
        for row in rows
    ]
    told = (
        f"Loss on {rows[0]['pairs']} training pairs without dropout, before and after "
        f"{rows[0]['points'][-1]['updates']:,.0f} updates with Adam at {rows[0]['rate']} and batches of "
        f"{rows[0]['batch_size']}. A model that can fit its training pairs reaches about 0:"
    )
    return [told, "", table(["system", "D", "before", "after"], cells), ""]


def _agreement(rows: Sequence[Row]) -> list[str]:
    found = [case for row in rows if row["experiment"] == "agreement" for case in row["rows"]]
    if not found:
        return []
    windows = sorted({case["window"] for case in found})
    cells = [
        [str(window), *(f"{max(case[key] for case in found if case['window'] == window):.1e}" for key in DIFFERENCES)]
        for window in windows
    ]
    told = (
        "Local-p has the same loss and gradients in eager execution and with XLA, and with more padding. Largest "
        "relative differences:"
    )
    return [told, "", table(["D", "loss", "gradients"], cells), ""]


DIFFERENCES = ("loss_relative_difference", "gradient_relative_difference")
HEADS = ["validation loss", "saturated, %", "mean abs(p_t - t)", "correlation", "mass"]


def _figures(system: str, point: Row, loss: float | None = None) -> list[str]:
    """Returns the cells of ``HEADS``. The loss is ``loss``, or else that of ``point``."""
    shown = f"{point['loss'] if loss is None else loss:.3f}"
    mass = f"{point['row_mass']:.2f}" if "row_mass" in point else "-"
    if not predicts(system):
        return [shown, "-", "-", "-", mass]
    follows = f"{point['correlation_with_t']:.2f}" if "correlation_with_t" in point else "-"
    return [shown, f"{100 * point['saturated']:.0f}", f"{point['distance_from_t']:.2f}", follows, mass]
