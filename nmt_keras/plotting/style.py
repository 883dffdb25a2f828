"""Style of curves and scores: colours that colour-blind readers can distinguish, and markers for greyscale.

The background is transparent. The grey of the text has the same contrast on a white and on a dark page.
"""

import math
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmt_keras.plotting.labels import fonts_for, one_line

INK = "#808080"
"""Colour of text and frames."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
"""Palette of Okabe and Ito without yellow, which is too light on white. Grey replaces black, which is invisible on a
dark page."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Marker shapes. Six markers and seven colours give 42 distinct pairs."""
SCREEN_DPI, FILE_DPI = 100, 150
BAND_OPACITY = 0.15
LEGEND_COLUMNS, LEGEND_ROW = 2, 0.22  # height in inches
LONGEST_IN_COLUMN = 36
"""Maximum number of characters of a name beside another one in a legend."""


def looks(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns arguments of ``Axes.plot`` (label, color, marker) for each name, and the font families of the labels."""
    families, replacements = fonts_for("".join(map(one_line, names)))
    labels = [one_line(name).translate(replacements) for name in names]
    styles = zip(labels, cycle(COLOURS), cycle(MARKERS), strict=False)
    return [{"label": label, "color": colour, "marker": marker} for label, colour, marker in styles], families


def finish(axes: Axes) -> None:
    """Sets the colours, adds a grid, and removes the top and right sides of the frame."""
    axes.figure.set_facecolor("none")
    axes.set_facecolor("none")
    axes.grid(color=INK, alpha=0.3)
    axes.spines[:].set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    for text in (axes.xaxis.label, axes.yaxis.label, *axes.texts):
        text.set_color(INK)


def add_legend(figure: Figure, families: Sequence[str] = ()) -> None:
    """Adds one legend of all lines above all panels. The height of the figure grows by the rows of the legend."""
    # get_legend_handles_labels would omit labels that begin with an underscore
    lines = [line for axes in figure.axes for line in axes.lines]
    entries = {(str(line.get_label()), str(line.get_color()), str(line.get_marker())): line for line in lines}
    labels = [label for label, *_ in entries]
    columns = LEGEND_COLUMNS if max(map(len, labels)) <= LONGEST_IN_COLUMN else 1
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * math.ceil(len(entries) / columns))
    legend = figure.legend(
        entries.values(),
        labels,
        loc="outside upper left",
        ncols=columns,
        prop={"family": list(families)},
        frameon=False,
        labelcolor=INK,
    )
    for text in legend.get_texts():
        text.set(parse_math=False, usetex=False)
