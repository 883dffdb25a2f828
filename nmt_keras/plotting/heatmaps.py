"""Heatmaps of attention: one sentence, or a grid of several."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from nmt_keras.config import require
from nmt_keras.plotting.labels import fonts_for, one_line, token_label
from nmt_keras.plotting.style import SCREEN_DPI

MOST_TOKENS = 300  # per axis: 51 inches of the smallest cells
LARGEST_CELL, SMALLEST_CELL = 0.5, 0.17  # inches
LONG_EDGE, SHORT_EDGE = 8.0, 1.5  # inches: preferred longer edge and minimum edge of a heatmap
PANEL_EDGE = 4.0  # inches: preferred longer edge of a heatmap in a grid
LARGEST_FONT = 11.0  # points
LETTER = 0.65 * LARGEST_FONT  # points: width of an average letter with spacing
CELL_IN_FONT_SIZES = 1.6  # prevents overlap of neighbouring labels
BAR_WIDTH = 0.15  # inches
MARGIN = 0.1  # inches around each plot
LONGEST_LABEL = 8.0  # inches: upper bound of the length of a label plus a title


class Panel(NamedTuple):
    """One heatmap of a grid, with the arguments of ``alignment_heatmap``."""

    alignment: ArrayLike  # [T, S]
    source_tokens: Sequence[str]  # S
    target_tokens: Sequence[str]  # T
    title: str | None = None


def alignment_heatmap(
    alignment: ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    title: str | None = None,
) -> Figure:
    """Draws the attention weights of one sentence pair: a row per target token, a column per source token.

    Target tokens label the rows on the left, and source tokens label the columns at the top. Labels are drawn literally
    (``$``, ``_``, ``^`` and ``\\`` are not mathematics), with these exceptions:

    - An empty token (END) is shown as ``</s>``. In a token of spaces only, each space is shown as ``␣``.
    - Control characters are escaped as in Python. Combining accents are composed with their letters.
    - A label of more than 32 characters ends in ``…``.

    The canvas grows with the number of tokens. Characters missing from the configured fonts are drawn in another
    installed font. To draw words instead of subword pieces, use ``translation.word_alignment.align_words`` first.

    Args:
        alignment: [T, S] weights in [0, 1]. Row t holds the weights of target token t.
        source_tokens: The S source tokens, without padding.
        target_tokens: The T target tokens, without padding.
        title: Title, drawn literally and wrapped to the width of the figure; ``None`` for no title.

    Returns:
        A figure with two axes: the heatmap and its colour bar.

    Raises:
        ValueError: a sentence is not a sequence of 1 to 300 strings, ``alignment`` is not of shape [T, S], or a weight
            is not a number in [0, 1].

    Warns:
        UserWarning: see ``labels.fonts_for``.
    """
    return _draw([Panel(alignment, source_tokens, target_tokens, title)], columns=1)


def alignment_grid(panels: Sequence[Panel], *, columns: int | None = None) -> Figure:
    """Draws several heatmaps, row by row, with one colour scale. Labels and warnings are as in ``alignment_heatmap``.

    Args:
        panels: At least one heatmap, such as those of several sentences or of an n-best list.
        columns: Number of heatmaps per row; ``None`` for an approximately square grid.

    Returns:
        A figure with the axes of the heatmaps, in order, followed by the colour bar.

    Raises:
        ValueError: as in ``alignment_heatmap``, or there is no panel, or ``columns`` is not positive.
    """
    require(len(panels) >= 1, "panels", "at least one sentence pair", len(panels))
    columns = math.ceil(math.sqrt(len(panels))) if columns is None else columns
    require(columns >= 1, "columns", "a positive number", columns)
    return _draw(panels, columns=min(columns, len(panels)))


def _draw(panels: Sequence[Panel], *, columns: int) -> Figure:
    checked = [_checked(panel) for panel in panels]
    labels = [token_label(token) for panel in checked for token in (*panel.source_tokens, *panel.target_tokens)]
    families, replacements = fonts_for("".join([*labels, *(one_line(panel.title or "") for panel in panels)]))

    edge = LONG_EDGE if len(panels) == 1 else PANEL_EDGE
    cells = [float(np.clip(edge / max(np.shape(panel.alignment)), SMALLEST_CELL, LARGEST_CELL)) for panel in checked]
    sizes = [cell * np.array(np.shape(panel.alignment)) for panel, cell in zip(checked, cells, strict=True)]
    rows = math.ceil(len(panels) / columns)
    heights = [max(SHORT_EDGE, *(size[0] for size in sizes[row * columns :][:columns])) for row in range(rows)]
    widths = [max(SHORT_EDGE, *(size[1] for size in sizes[column::columns])) for column in range(columns)]

    figure = Figure(dpi=SCREEN_DPI)
    figure.set_layout_engine("constrained", w_pad=MARGIN, h_pad=MARGIN, wspace=0, hspace=0)
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[*widths, BAR_WIDTH], height_ratios=heights)
    for number, (panel, cell) in enumerate(zip(checked, cells, strict=True)):
        row, column = divmod(number, columns)
        _heatmap(figure.add_subplot(grid[row, column]), panel, cell, widths[column], families, replacements)
    (image,), bar = figure.axes[0].images, figure.add_subplot(grid[:, -1])
    figure.colorbar(image, cax=bar, ticks=[0, 0.25, 0.5, 0.75, 1], label="attention weight")
    # Labels and margins have a fixed size, so the canvas must grow by exactly as much as the cells.
    cells_size = np.array([sum(widths) + BAR_WIDTH, sum(heights)])
    canvas = cells_size + LONGEST_LABEL * np.array([columns + 1, rows])
    figure.set_size_inches(*canvas)
    figure.draw_without_rendering()
    scale = canvas * figure.axes[0].get_position().size / (widths[0], heights[0])
    figure.set_size_inches(*(canvas + cells_size * (1 - scale)))
    return figure


def _heatmap(
    axes: Axes, panel: Panel, cell: float, width: float, families: list[str], replacements: Mapping[int, str]
) -> None:
    """Draws one panel, ``width`` inches wide, with cells of at least ``cell`` inches."""
    font_size = min(LARGEST_FONT, 72 * cell / CELL_IN_FONT_SIZES)
    title = "\n".join(one_line(line) for line in textwrap.wrap(panel.title or "", int(72 * width / LETTER)))
    source_labels = [token_label(token).translate(replacements) for token in panel.source_tokens]
    target_labels = [token_label(token).translate(replacements) for token in panel.target_tokens]

    literally: dict[str, Any] = {"fontfamily": families, "parse_math": False, "usetex": False}
    axes.imshow(panel.alignment, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source_labels)), source_labels, rotation=90, fontsize=font_size, **literally)
    axes.set_yticks(range(len(target_labels)), target_labels, va="center", fontsize=font_size, **literally)
    axes.tick_params(length=2)
    axes.set_title(title.translate(replacements), fontsize=LARGEST_FONT, pad=10, **literally)


def _require_tokens(where: str, tokens: Sequence[str]) -> None:
    are_strings = not isinstance(tokens, str) and all(isinstance(token, str) for token in tokens)
    require(are_strings, where, "a sequence of strings, one per token", tokens, "Split a sentence, and decode bytes.")
    hint = "Draw a longer text sentence by sentence."
    require(1 <= len(tokens) <= MOST_TOKENS, where, f"1 to {MOST_TOKENS} tokens", len(tokens), hint)


def _checked(panel: Panel) -> Panel:
    """Returns the panel with its weights as an array, or raises ValueError as described in ``alignment_heatmap``."""
    _require_tokens("source_tokens", panel.source_tokens)
    _require_tokens("target_tokens", panel.target_tokens)
    weights = np.asarray(panel.alignment, dtype=np.float64)
    shape = len(panel.target_tokens), len(panel.source_tokens)
    require(
        weights.shape == shape,
        "alignment",
        f"shape [target tokens, source tokens] = {shape}",
        weights.shape,
        "Remove padding, and keep END.",
    )
    # The bfloat16 weights of the pieces of a word can sum to more than 1, because they are rounded.
    require(
        bool(0.0 <= weights.min() and weights.max() <= 1.01),
        "alignment",
        "weights in [0, 1]",
        f"weights from {weights.min():g} to {weights.max():g}",
        "Pass the probabilities after the softmax. A source whose positions are all masked gives NaN.",
    )
    return panel._replace(alignment=weights)
