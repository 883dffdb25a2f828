"""Figures of what a model attends to and of how it learnt: arrays in, matplotlib figures out.

Figures are made without pyplot, so nothing global is opened or leaked: they work headless and in a server.
A notebook shows them as a cell's last value once ``%matplotlib inline`` has run.
"""

from __future__ import annotations

import os
import textwrap
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray

from nmt_keras.config import require

END_LABEL = "</s>"
LONGEST_LABEL = 32  # characters
MOST_TOKENS = 300  # per axis: 51 inches of the smallest cells
LARGEST_CELL, SMALLEST_CELL = 0.5, 0.17  # inches
LONG_EDGE, SHORT_EDGE = 8.0, 1.5  # inches: what a grid's longer edge aims at, and the least of both
LARGEST_FONT = 11.0  # points
CELL_IN_FONT_SIZES = 1.6  # room for a line of text, so that neighbouring labels never touch
MARGIN = 0.15  # inches
SCREEN_DPI, FILE_DPI = 100, 150
UNDRAWABLE = "\N{REPLACEMENT CHARACTER}"


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
    are taken from any installed font that has them.

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
        UserWarning: no installed font has some characters; they are drawn as ``�``. One warning names them all.
    """
    _require_tokens("source_tokens", source_tokens)
    _require_tokens("target_tokens", target_tokens)
    weights = _checked_weights(alignment, target_length=len(target_tokens), source_length=len(source_tokens))
    target_length, source_length = weights.shape

    cell = float(np.clip(LONG_EDGE / max(weights.shape), SMALLEST_CELL, LARGEST_CELL))
    width, height = max(SHORT_EDGE, source_length * cell), max(SHORT_EDGE, target_length * cell)
    font_size = min(LARGEST_FONT, 72 * cell / CELL_IN_FONT_SIZES)
    title_columns = max(40, int(72 * width / (0.6 * LARGEST_FONT)))
    title_label = "\n".join(_escaped(line) for line in textwrap.wrap(title or "", title_columns))

    families, replacements = _fonts_for(
        "".join([title_label, *map(_label, source_tokens), *map(_label, target_tokens)])
    )
    source_labels = [_label(token).translate(replacements) for token in source_tokens]
    target_labels = [_label(token).translate(replacements) for token in target_tokens]
    literally: dict[str, Any] = {"fontfamily": families, "parse_math": False, "usetex": False}

    figure = Figure(dpi=SCREEN_DPI)
    grid, bar = figure.add_axes((0, 0, 1, 1)), figure.add_axes((0, 0, 1, 1))
    image = grid.imshow(weights, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest", origin="upper")
    grid.xaxis.tick_top()
    grid.set_xticks(range(source_length), source_labels, rotation=90, fontsize=font_size, **literally)
    grid.set_yticks(range(target_length), target_labels, va="center", fontsize=font_size, **literally)
    grid.tick_params(length=2)
    grid.set_title(title_label.translate(replacements), fontsize=LARGEST_FONT, pad=10, **literally)
    figure.colorbar(image, cax=bar, ticks=[0, 0.25, 0.5, 0.75, 1], label="attention weight")

    bar_height = min(4.0, height)
    _fit_canvas(figure, {grid: (0.0, -height, width, height), bar: (width + 0.25, -bar_height, 0.15, bar_height)})
    return figure


def training_curves(log: Sequence[Mapping[str, float]]) -> Figure:
    """Draws loss (nats per token) against steps, training and validation, and validation BLEU on a panel below.

    Args:
        log: a run's rows. Each has ``step`` and any of ``loss``, ``valid_loss`` (nats per token) and ``valid_bleu``
            (0 to 100); other entries are ignored. Rows may come in any order. A value that is not finite leaves a gap.

    Returns:
        A figure with a panel for the losses and one for BLEU, each only if the log has such values.

    Raises:
        ValueError: a row has no ``step``, or there is nothing to draw.
    """
    for number, row in enumerate(log):
        require("step" in row, f"log[{number}]", "a row with a 'step'", dict(row))
    curves = {key: _curve(log, key) for key in ("loss", "valid_loss", "valid_bleu")}
    drawable = [key for key, points in curves.items() if np.isfinite(points[:, 1]).any()]
    require(
        bool(drawable),
        "log",
        "a finite 'loss', 'valid_loss' or 'valid_bleu' in at least one row (train until a row is logged)",
        f"{len(log)} rows with the entries {sorted({key for row in log for key in row})}",
    )

    panel_of = {"loss": "loss (nats per token)", "valid_loss": "loss (nats per token)", "valid_bleu": "BLEU"}
    panels = list(dict.fromkeys(panel_of[key] for key in drawable))
    figure = Figure(figsize=(7.0, 3.2 * len(panels)), dpi=SCREEN_DPI, layout="constrained")
    all_axes = dict(zip(panels, figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0], strict=True))
    for key in drawable:
        steps, values = curves[key].T
        # A line needs two points: the few of a validation, and a run's only row, are seen by their markers.
        marker = None if key == "loss" and len(steps) > 1 else "o"
        name, colour = ("training", "tab:blue") if key == "loss" else ("validation", "tab:orange")
        all_axes[panel_of[key]].plot(steps, values, label=name, color=colour, marker=marker, markersize=4)
    for quantity, axes in all_axes.items():
        axes.set_ylabel(quantity)
        axes.grid(alpha=0.3)
        axes.legend()
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as PNG or SVG, by the path's suffix, at 150 dots per inch.

    The file appears complete or not at all. It carries no date and no version, so the same figure gives the same bytes.

    Raises:
        ValueError: the suffix is neither ``.png`` nor ``.svg``.
        FileNotFoundError: the path's folder does not exist.
    """
    path = Path(path)
    unstamped = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
    suffix = path.suffix.lower()
    require(suffix in unstamped, "path", "a file name that ends in .png or .svg", str(path))
    partial = path.with_name(f".{uuid4().hex}.part")
    try:
        with matplotlib.rc_context({"svg.hashsalt": "nmt_keras"}):
            figure.savefig(partial, format=suffix[1:], dpi=FILE_DPI, metadata=unstamped[suffix])
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _require_tokens(where: str, tokens: Sequence[str]) -> None:
    are_strings = not isinstance(tokens, str) and all(isinstance(token, str) for token in tokens)
    require(are_strings, where, "a sequence of strings, one a token (split a sentence, decode bytes)", tokens)
    expected = f"1 to {MOST_TOKENS} tokens (draw a longer text sentence by sentence)"
    require(1 <= len(tokens) <= MOST_TOKENS, where, expected, len(tokens))


def _checked_weights(alignment: ArrayLike, *, target_length: int, source_length: int) -> NDArray[np.float64]:
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


def _label(token: str) -> str:
    if token == "":
        return END_LABEL
    if token.strip(" ") == "":
        token = token.replace(" ", "␣")
    label = _escaped(unicodedata.normalize("NFC", token))
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _escaped(text: str) -> str:
    """The text on one line: controls, line separators and lone surrogates as Python escapes them."""
    unprintable = {"Cc", "Cs", "Zl", "Zp"}
    return "".join(ascii(c)[1:-1] if unicodedata.category(c) in unprintable else c for c in text)


def _fonts_for(text: str) -> tuple[list[str], dict[int, str]]:
    """Font families that together draw ``text``, and replacements for the characters that none has (one warning)."""
    families = [*matplotlib.rcParams["font.family"], "DejaVu Sans"]  # the one that matplotlib itself brings comes last
    missing = set(text).difference("\n", *map(_characters, families))
    font = FontProperties(family=families).get_name()

    # findfont logs a complaint of each family without a regular face; fonts of last resort claim all, draw boxes.
    installed = {f.name for f in fontManager.ttflist if f.style == "normal" and f.weight in (400, "normal", "regular")}
    for family in sorted(name for name in installed if not name.lstrip(".").startswith(("LastResort", "Last Resort"))):
        if not missing:
            break
        found = missing & _characters(family)
        if found:
            families.append(family)
            missing -= found

    if missing:
        named = ", ".join(f"{character} (U+{ord(character):04X})" for character in sorted(missing))
        warnings.warn(
            f"Neither {font} nor any other installed font has {named}: drawn as {UNDRAWABLE}. Install one, "
            "such as Noto Sans CJK or Noto Emoji, and call matplotlib.font_manager.fontManager.addfont(its file).",
            stacklevel=3,
        )
    return families, {ord(character): UNDRAWABLE for character in missing}


def _characters(family: str) -> set[str]:
    return set(map(chr, get_font(findfont(FontProperties(family=[family]))).get_charmap()))


def _fit_canvas(figure: Figure, frames: Mapping[Axes, tuple[float, float, float, float]]) -> None:
    """Puts each axes at its frame (left, bottom, width, height in inches) on a canvas that just encloses all labels.

    The frames share an origin that may lie anywhere. Labels are sized in points, so what is measured fits any canvas.
    """

    def place(left: float, bottom: float) -> None:
        across, up = figure.get_size_inches()
        for axes, (x, y, width, height) in frames.items():
            axes.set_position(((x - left) / across, (y - bottom) / up, width / across, height / up))

    place(0.0, 0.0)
    measured = []
    for dpi in (FILE_DPI, SCREEN_DPI):  # letters snap to whole dots, so a long label's inches depend on the resolution
        figure.set_dpi(dpi)
        measured.append(figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer()))
    drawn = Bbox.union(measured)
    figure.set_size_inches(drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN)
    place(drawn.x0 - MARGIN, drawn.y0 - MARGIN)


def _curve(log: Sequence[Mapping[str, float]], key: str) -> NDArray[np.float64]:
    points = sorted((row["step"], row[key]) for row in log if key in row)
    return np.array(points, dtype=np.float64).reshape(-1, 2)  # [points, (step, value)]
