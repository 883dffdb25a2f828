"""Training curves: losses and validation BLEU against steps, of one run or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nmt_keras.config import require
from nmt_keras.plotting.style import COLOURS, SCREEN_DPI, finish, looks

Rows = Sequence[Mapping[str, float]]
"""The rows of a run's log. Each has ``step`` and any of ``loss``, ``valid_loss`` (nats per token) and ``valid_bleu``
(0 to 100). Other entries are ignored. Rows may come in any order. A value that is not finite leaves a gap."""

PANEL_OF = {"loss": "loss (nats per token)", "valid_loss": "loss (nats per token)", "valid_bleu": "BLEU"}
PANEL_WIDTH, PANEL_HEIGHT = 7.0, 3.2  # inches


def training_curves(log: Rows) -> Figure:
    """Draws loss (nats per token) against steps, training and validation, and validation BLEU on a panel below.

    Args:
        log: a run's rows; see ``Rows``.

    Returns:
        A figure with a panel for the losses and one for BLEU, each only if the log has such values.

    Raises:
        ValueError: a row has no ``step``, or there is nothing to draw.
    """
    curves = _curves("log", log, tuple(PANEL_OF))
    figure, panels = _panels([PANEL_OF[key] for key in curves])
    for key, points in curves.items():
        steps, values = points.T
        # A line needs two points: the few of a validation, and a run's only row, are seen by their markers.
        marker = None if key == "loss" and len(steps) > 1 else "o"
        name, colour = ("training", COLOURS[0]) if key == "loss" else ("validation", COLOURS[1])
        panels[PANEL_OF[key]].plot(steps, values, label=name, color=colour, marker=marker, markersize=4)
    for axes in panels.values():
        finish(axes, [])
    return figure


def compare_training(logs: Mapping[str, Rows]) -> Figure:
    """Draws the validation loss of several runs against steps, and their validation BLEU on a panel below.

    Args:
        logs: each run's rows by its name; see ``Rows``.

    Raises:
        ValueError: there is no run, a row has no ``step``, or there is nothing to draw.

    Warns:
        UserWarning: no installed font has some characters of the names, or matplotlib mirrors them, which versions
            below 3.11 do with what is written from right to left.
    """
    require(bool(logs), "logs", "at least one run", dict(logs))
    all_curves = {name: _curves(f"logs[{name!r}]", log, ("valid_loss", "valid_bleu")) for name, log in logs.items()}
    drawn = [key for key in ("valid_loss", "valid_bleu") if any(key in curves for curves in all_curves.values())]
    figure, panels = _panels([{"valid_loss": "validation loss (nats per token)"}.get(key, "BLEU") for key in drawn])
    found, families = looks(list(logs), stacklevel=2)
    for look, curves in zip(found, all_curves.values(), strict=True):
        for key, axes in zip(drawn, panels.values(), strict=True):
            if key in curves:
                steps, values = curves[key].T
                axes.plot(steps, values, label=look.label, color=look.colour, marker=look.marker, markersize=5)
    for axes in panels.values():
        finish(axes, families)
    return figure


def _curves(where: str, log: Rows, keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """The points [N, (step, value)] of each of ``keys`` that has something to draw, in order of step."""
    for number, row in enumerate(log):
        require("step" in row, f"{where}[{number}]", "a row with a 'step'", dict(row))
    curves = {key: sorted((row["step"], row[key]) for row in log if key in row) for key in keys}
    arrays = {key: np.array(points, dtype=np.float64).reshape(-1, 2) for key, points in curves.items()}
    drawable = {key: points for key, points in arrays.items() if np.isfinite(points[:, 1]).any()}
    require(
        bool(drawable),
        where,
        f"a finite {_either(keys)} in at least one row (train until a row is logged)",
        f"{len(log)} rows with the entries {sorted({key for row in log for key in row})}",
    )
    return drawable


def _either(keys: Sequence[str]) -> str:
    *first, last = map(repr, keys)
    return f"{', '.join(first)} or {last}"


def _panels(quantities: Sequence[str]) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one panel below the other, by what it shows, over one axis of steps."""
    names = list(dict.fromkeys(quantities))
    figure = Figure(figsize=(PANEL_WIDTH, PANEL_HEIGHT * len(names)), dpi=SCREEN_DPI, layout="constrained")
    panels = dict(zip(names, figure.subplots(len(names), sharex=True, squeeze=False)[:, 0], strict=True))
    for quantity, axes in panels.items():
        axes.set_ylabel(quantity)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    return figure, panels
