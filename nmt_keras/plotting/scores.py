"""Scores of systems: BLEU by sentence length, and scores side by side, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nmt_keras.config import require
from nmt_keras.plotting.style import BAND_OPACITY, SCREEN_DPI, finish, looks

Score = tuple[float, float, float]
"""A score and the two ends of its confidence interval, all 0 to 100."""

WIDTH, HEIGHT, ROW_HEIGHT = 7.0, 4.0, 0.35  # inches


def bleu_by_length(
    bins: Sequence[str], sentences: Sequence[int], systems: Mapping[str, Sequence[Score]], unit: str = "words"
) -> Figure:
    """Draws BLEU against the length of the source sentence, a line and a band of confidence for each system.

    Args:
        bins: what each range of lengths is called, ascending.
        sentences: how many each holds.
        systems: the BLEU of each bin, by the system's name.
        unit: what length is counted in.

    Raises:
        ValueError: there is no bin or no system, or a system has not one score for each bin.

    Warns:
        UserWarning: no installed font has some characters of the names, or matplotlib mirrors them, which versions
            below 3.11 do with what is written from right to left.
    """
    require(bool(bins), "bins", "at least one range of lengths", list(bins))
    require(len(sentences) == len(bins), "sentences", f"a number for each of {len(bins)} bins", list(sentences))
    require(bool(systems), "systems", "at least one", dict(systems))
    for name, scores in systems.items():
        require(len(scores) == len(bins), f"systems[{name!r}]", f"{len(bins)} scores, one a bin", len(scores))
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=SCREEN_DPI, layout="constrained")
    axes = figure.subplots()
    found, families = looks(list(systems), stacklevel=2)
    places = range(len(bins))
    for look, scores in zip(found, systems.values(), strict=True):
        values, lows, highs = zip(*scores, strict=True)
        axes.fill_between(places, lows, highs, color=look.colour, alpha=BAND_OPACITY, linewidth=0)
        axes.plot(places, values, label=look.label, color=look.colour, marker=look.marker, markersize=5)
        if len(bins) == 1:  # a band of one place has no width
            axes.vlines(places, lows, highs, color=look.colour, alpha=2 * BAND_OPACITY, linewidth=6)
    axes.set_xticks(places, [f"{name}\n{count:,}" for name, count in zip(bins, sentences, strict=True)])
    axes.set_xlabel(f"source {unit}, and sentences of that length")
    axes.set_ylabel("BLEU, with 95 % interval")
    axes.set_ylim(bottom=0)
    finish(axes, families)
    return figure


def score_intervals(scores: Mapping[str, Mapping[str, Score]]) -> Figure:
    """Draws the scores of systems side by side, a panel for each metric: a point and its interval.

    Args:
        scores: by the metric's name, each system's score by the system's name.

    Raises:
        ValueError: there is no metric, or a metric has no system.

    Warns:
        UserWarning: no installed font has some characters of the names, or matplotlib mirrors them, which versions
            below 3.11 do with what is written from right to left.
    """
    require(bool(scores), "scores", "at least one metric", dict(scores))
    for metric, systems in scores.items():
        require(bool(systems), f"scores[{metric!r}]", "at least one system", dict(systems))
    names = list(next(iter(scores.values())))
    height = 1.1 + ROW_HEIGHT * len(names)
    figure = Figure(figsize=(WIDTH, height), dpi=SCREEN_DPI, layout="constrained")
    found, families = looks(names, stacklevel=2)
    panels = figure.subplots(1, len(scores), squeeze=False, sharey=True)[0]
    for axes, (metric, systems) in zip(panels, scores.items(), strict=True):
        for place, (look, name) in enumerate(zip(found, names, strict=True)):
            value, low, high = systems[name]
            axes.plot([low, high], [place, place], color=look.colour, linewidth=2)
            axes.plot([value], [place], color=look.colour, marker=look.marker, markersize=8)
            axes.annotate(f"{value:.1f}", (value, place), xytext=(0, 7), textcoords="offset points", ha="center")
        axes.set_xlabel(f"{metric}, with 95 % interval")
        axes.margins(x=0.15)
        axes.set_ylim(len(names) - 0.4, -0.8)  # the first on top, with room for its number
        finish(axes, families)
    panels[0].set_yticks(
        range(len(names)), [look.label for look in found], fontfamily=families, parse_math=False, usetex=False
    )
    return figure
