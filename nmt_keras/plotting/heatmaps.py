"""Heatmaps of attention: one sentence, or a grid of several."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike, NDArray

from nmt_keras.config import require
from nmt_keras.plotting.labels import fonts_for, one_line, token_label
from nmt_keras.plotting.style import SCREEN_DPI

MOST_TOKENS = 300  # per axis: 51 inches of the smallest cells
LARGEST_CELL, SMALLEST_CELL = 0.5, 0.17  # inches
LONG_EDGE, SHORT_EDGE = 8.0, 1.5  # inches: desired longer edge of a heatmap, and minimum of both
PANEL_EDGE = 4.0  # inches: desired longer edge in a grid
LARGEST_FONT = 11.0  # points
LETTER = 0.65 * LARGEST_FONT  # points: width of an average letter, with some room
CELL_IN_FONT_SIZES = 1.6  # room for a line of text, so that neighbouring labels never touch
BAR_WIDTH = 0.15  # inches
MARGIN = 0.1  # inches around everything that is drawn
LONGEST_LABEL = 8.0  # inches: more than any label and its title take


class Panel(NamedTuple):
    """One sentence pair of a grid of heatmaps; see ``alignment_heatmap`` for its parts."""

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

    Target tokens run down the left edge, source tokens along the top, each at the centre of its own row or column.
    Labels are drawn literally (``$``, ``_``, ``^`` and ``\\`` are characters, never mathematics), except that

    - an empty string, as END's surface is, reads ``</s>``, and blanks alone read ``␣``;
    - control characters are escaped as Python writes them, and combining accents composed with their letters;
    - a label beyond 32 characters ends in ``…``.

    The canvas grows with the number of tokens and encloses all that is drawn. Characters that the configured fonts lack
    are drawn in any installed font that has them. ``translation.word_alignment.align_words`` makes words of pieces.

    Args:
        alignment: [T, S] weights in [0, 1]; row t says where target token t looked.
        source_tokens: the S source tokens, without padding.
        target_tokens: the T target tokens, without padding.
        title: a text above the figure, drawn literally and wrapped to the figure's width; none by default.

    Returns:
        A figure with two axes: the heatmap and its colour bar.

    Raises:
        ValueError: a sentence is not a sequence of 1 to 300 strings, ``alignment`` is not of shape [T, S], or a weight
            is not a number in [0, 1].

    Warns:
        UserWarning: no installed font has some characters; they are drawn as ``�``. One warning names them all. Or
            labels are written from right to left, and matplotlib is older than 3.11, which mirrors them.
    """
    return _draw([Panel(alignment, source_tokens, target_tokens, title)], columns=1, edge=LONG_EDGE)


def alignment_grid(panels: Sequence[Panel], *, columns: int | None = None) -> Figure:
    """Draws several heatmaps row by row under one colour scale: sentences, or the n-best of one.

    Args:
        panels: at least one; see ``alignment_heatmap``, whose labels, errors and warning are the same.
        columns: panels in a row; as many as make the grid about square by default.

    Returns:
        A figure with the heatmaps' axes, in order, and their colour bar's.

    Raises:
        ValueError: also if there is no panel, or ``columns`` is not positive.
    """
    require(len(panels) >= 1, "panels", "at least one sentence pair", len(panels))
    if columns is None:
        columns = math.ceil(math.sqrt(len(panels)))
    require(columns >= 1, "columns", "a positive number", columns)
    return _draw(panels, columns=min(columns, len(panels)), edge=PANEL_EDGE)


def _draw(panels: Sequence[Panel], *, columns: int, edge: float) -> Figure:
    """Draws ``panels``, each with a desired longer edge of ``edge`` inches."""
    checked = []
    for panel in panels:
        _require_tokens("source_tokens", panel.source_tokens)
        _require_tokens("target_tokens", panel.target_tokens)
        shape = len(panel.target_tokens), len(panel.source_tokens)
        checked.append(panel._replace(alignment=_checked_weights(panel.alignment, *shape)))
    labels = [token_label(token) for panel in checked for token in (*panel.source_tokens, *panel.target_tokens)]
    families, replacements = fonts_for("".join([*labels, *(one_line(panel.title or "") for panel in panels)]))

    cells = [float(np.clip(edge / max(np.shape(panel.alignment)), SMALLEST_CELL, LARGEST_CELL)) for panel in checked]
    sizes = [cell * np.array(np.shape(panel.alignment)) for panel, cell in zip(checked, cells, strict=True)]
    rows = math.ceil(len(panels) / columns)
    heights = [max(SHORT_EDGE, *(size[0] for size in sizes[row * columns :][:columns])) for row in range(rows)]
    widths = [max(SHORT_EDGE, *(size[1] for size in sizes[column::columns])) for column in range(columns)]

    figure = Figure(dpi=SCREEN_DPI)
    figure.set_layout_engine("constrained", w_pad=MARGIN, h_pad=MARGIN, wspace=0, hspace=0)
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[*widths, BAR_WIDTH], height_ratios=heights)
    image = None
    for number, (panel, cell) in enumerate(zip(checked, cells, strict=True)):
        row, column = divmod(number, columns)
        axes = figure.add_subplot(grid[row, column])
        image = _heatmap(axes, panel, cell, widths[column], families, replacements)
    assert image is not None
    figure.colorbar(image, cax=figure.add_subplot(grid[:, -1]), ticks=[0, 0.25, 0.5, 0.75, 1], label="attention weight")
    # Labels and margins have the same size on any canvas, so the canvas grows by as much as the cells must.
    cells_size = np.array([sum(widths) + BAR_WIDTH, sum(heights)])
    canvas = cells_size + LONGEST_LABEL * np.array([columns + 1, rows])
    figure.set_size_inches(*canvas)
    figure.draw_without_rendering()
    scale = canvas * figure.axes[0].get_position().size / (widths[0], heights[0])
    figure.set_size_inches(*(canvas + cells_size * (1 - scale)))
    return figure


def _heatmap(
    axes: Axes, panel: Panel, cell: float, width: float, families: list[str], replacements: Mapping[int, str]
) -> AxesImage:
    """Draws one panel of ``width`` inches whose smallest cells measure ``cell`` inches."""
    font_size = min(LARGEST_FONT, 72 * cell / CELL_IN_FONT_SIZES)
    title = "\n".join(one_line(line) for line in textwrap.wrap(panel.title or "", int(72 * width / LETTER)))
    source_labels = [token_label(token).translate(replacements) for token in panel.source_tokens]
    target_labels = [token_label(token).translate(replacements) for token in panel.target_tokens]

    literally: dict[str, Any] = {"fontfamily": families, "parse_math": False, "usetex": False}
    image = axes.imshow(panel.alignment, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source_labels)), source_labels, rotation=90, fontsize=font_size, **literally)
    axes.set_yticks(range(len(target_labels)), target_labels, va="center", fontsize=font_size, **literally)
    axes.tick_params(length=2)
    axes.set_title(title.translate(replacements), fontsize=LARGEST_FONT, pad=10, **literally)
    return image


def _require_tokens(where: str, tokens: Sequence[str]) -> None:
    are_strings = not isinstance(tokens, str) and all(isinstance(token, str) for token in tokens)
    require(are_strings, where, "a sequence of strings, one a token (split a sentence, decode bytes)", tokens)
    expected = f"1 to {MOST_TOKENS} tokens (draw a longer text sentence by sentence)"
    require(1 <= len(tokens) <= MOST_TOKENS, where, expected, len(tokens))


def _checked_weights(alignment: ArrayLike, target_length: int, source_length: int) -> NDArray[np.float64]:
    weights = np.asarray(alignment, dtype=np.float64)
    require(
        weights.shape == (target_length, source_length),
        "alignment",
        f"shape [target tokens, source tokens] = {(target_length, source_length)} (cut the padding off, keep END)",
        weights.shape,
    )
    not_finite = np.count_nonzero(~np.isfinite(weights))
    require(not_finite == 0, "alignment", "finite weights (is a whole source masked?)", f"{not_finite} NaN or infinite")
    # bfloat16 weights, once summed over a word's pieces, can pass 1 by a rounding.
    require(
        bool(0.0 <= weights.min() and weights.max() <= 1.01),
        "alignment",
        "weights in [0, 1] (probabilities, after the softmax)",
        f"weights from {weights.min():g} to {weights.max():g}",
    )
    return weights
