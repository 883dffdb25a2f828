"""Style of all figures: colours that colour-blind readers can distinguish, and markers for greyscale."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes

from nmt_keras.plotting.labels import fonts_for, one_line

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Palette of Okabe and Ito without yellow, because yellow lines are too light on white."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Marker shapes. Six markers and seven colours give 42 distinct pairs."""
SCREEN_DPI, FILE_DPI = 100, 150
BAND_OPACITY = 0.15


def looks(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns arguments of ``Axes.plot`` (label, color, marker) for each name, and the font families of the labels."""
    families, replacements = fonts_for("".join(map(one_line, names)))
    labels = [one_line(name).translate(replacements) for name in names]
    styles = zip(labels, cycle(COLOURS), cycle(MARKERS), strict=False)
    return [{"label": label, "color": colour, "marker": marker} for label, colour, marker in styles], families


def finish(axes: Axes, families: Sequence[str]) -> None:
    """Adds a grid and, if there are labels, a legend. Removes the top and right sides of the frame."""
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        for text in axes.legend(prop={"family": list(families)}, framealpha=0.9).get_texts():
            text.set(parse_math=False, usetex=False)
