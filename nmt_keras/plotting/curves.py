"""Training curves of one or several runs: losses and validation BLEU against steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nmt_keras.config import require
from nmt_keras.plotting.style import COLOURS, INK, SCREEN_DPI, add_legend, finish, looks

Rows = Sequence[Mapping[str, float]]
"""Rows of a run's log, in any order. Each has ``step`` and any of ``loss``, ``valid_loss`` (nats per token) and
``valid_bleu`` (0 to 100). Other entries are ignored. A value that is not finite leaves a gap."""

PANEL_OF = {"loss": "loss (nats per token)", "valid_loss": "loss (nats per token)", "valid_bleu": "BLEU"}
PANEL_WIDTH, PANEL_HEIGHT = 7.0, 3.2  # inches


def training_curves(log: Rows) -> Figure:
    """Draws training and validation loss against steps, and validation BLEU on a panel below.

    Args:
        log: Log of a run.

    Returns:
        A figure with a panel for the losses and one for BLEU. A panel without values is omitted.

    Raises:
        ValueError: a row has no ``step``, or there is nothing to draw.
    """
    curves = _curves("log", log, tuple(PANEL_OF))
    marker = "o" if len(curves.get("loss", ())) == 1 else None  # makes a single point visible
    training = {"label": "training", "color": COLOURS[0], "marker": marker, "markersize": 4}
    validation = {"label": "validation", "color": COLOURS[1], "marker": "o", "markersize": 4}
    return _stacked(
        [(PANEL_OF[key], points, training if key == "loss" else validation) for key, points in curves.items()]
    )


def compare_training(logs: Mapping[str, Rows]) -> Figure:
    """Draws the validation loss of several runs against steps, and their validation BLEU on a panel below.

    Args:
        logs: Log of each run, by run name.

    Raises:
        ValueError: there is no run, a row has no ``step``, or there is nothing to draw.

    Warns:
        UserWarning: see ``labels.fonts_for``.
    """
    require(bool(logs), "logs", "at least one run", dict(logs))
    all_curves = {name: _curves(f"logs[{name!r}]", log, ("valid_loss", "valid_bleu")) for name, log in logs.items()}
    lines, families = looks(list(logs))
    panels = {"valid_loss": "validation loss (nats per token)", "valid_bleu": "BLEU"}
    curves = [
        (panel, found[key], {**line, "markersize": 5})
        for key, panel in panels.items()
        for line, found in zip(lines, all_curves.values(), strict=True)
        if key in found
    ]
    return _stacked(curves, families)


def _curves(where: str, log: Rows, keys: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Returns the points [N, 2] of each key with a finite value. A point is (step, value); points are in step order."""
    for number, row in enumerate(log):
        require("step" in row, f"{where}[{number}]", "a row with a 'step'", dict(row))
    curves = {}
    for key in keys:
        points = sorted((row["step"], row[key]) for row in log if row.get(key) is not None)
        if np.isfinite([value for _, value in points]).any():
            curves[key] = np.array(points, dtype=np.float64)
    entries = sorted({key for row in log for key in row})
    require(bool(curves), where, f"a finite value of one of {keys}", entries, "Train until a row is logged.")
    return curves


def _stacked(
    curves: Sequence[tuple[str, NDArray[np.float64], Mapping[str, Any]]], families: Sequence[str] = ()
) -> Figure:
    """Draws curves in panels, one above the other.

    Args:
        curves: Quantity, points [N, 2] and look of each curve. Curves of the same quantity share a panel.
        families: Font families of the legend.
    """
    quantities = list(dict.fromkeys(quantity for quantity, _, _ in curves))
    figure = Figure(figsize=(PANEL_WIDTH, PANEL_HEIGHT * len(quantities)), dpi=SCREEN_DPI, layout="constrained")
    panels = dict(zip(quantities, figure.subplots(len(quantities), sharex=True, squeeze=False)[:, 0], strict=True))
    for quantity, points, look in curves:
        panels[quantity].plot(*points.T, **look)
    for quantity, axes in panels.items():
        axes.set_ylabel(quantity)
        finish(axes)
    axes.set_xlabel("step", color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    add_legend(figure, families)
    return figure
