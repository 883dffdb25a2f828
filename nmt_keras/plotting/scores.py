"""Plots of system scores with confidence intervals: by sentence length, and side by side."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nmt_keras.plotting.style import BAND_OPACITY, COLOURS, SCREEN_DPI, add_legend, finish, looks

Score = tuple[float, float, float]
"""A score and the ends of its confidence interval, 0 to 100."""

WIDTH, HEIGHT, ROW_HEIGHT = 7.0, 4.0, 0.35  # inches


def bleu_by_length(
    bins: Sequence[str], sentences: Sequence[int], systems: Mapping[str, Sequence[Score]], unit: str = "words"
) -> Figure:
    """Draws BLEU against source length, with a line and a confidence band for each system.

    Args:
        bins: Names of the length bins, ascending.
        sentences: Number of sentences in each bin.
        systems: BLEU in each bin, by system name.
        unit: Unit of length.

    Warns:
        UserWarning: see ``labels.fonts_for``.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=SCREEN_DPI, layout="constrained")
    axes = figure.subplots()
    lines, families = looks(list(systems))
    for line, scores in zip(lines, systems.values(), strict=True):
        values, lows, highs = zip(*scores, strict=True)
        axes.fill_between(range(len(bins)), lows, highs, color=line["color"], alpha=BAND_OPACITY)
        axes.plot(values, **line, markersize=5)
    axes.set_xticks(range(len(bins)), [f"{name}\n{count:,}" for name, count in zip(bins, sentences, strict=True)])
    axes.set_xlabel(f"source length in {unit}, with the number of sentences")
    axes.set_ylabel("BLEU, with 95 % interval")
    axes.set_ylim(bottom=0)
    finish(axes)
    add_legend(figure, families)
    return figure


def bars(values: Mapping[str, float], unit: str) -> Figure:
    """Draws a bar for each value, with its name.

    Args:
        values: Values by name, at least one.
        unit: Label of the values.

    Warns:
        UserWarning: see ``labels.fonts_for``.
    """
    figure = Figure(figsize=(WIDTH, 1.1 + ROW_HEIGHT * len(values)), dpi=SCREEN_DPI, layout="constrained")
    axes = figure.subplots()
    lines, families = looks(list(values))
    axes.barh(range(len(values)), [*values.values()], color=COLOURS[0])
    axes.set_yticks(
        range(len(values)), [line["label"] for line in lines], fontfamily=families, parse_math=False, usetex=False
    )
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    finish(axes)
    return figure


def score_intervals(scores: Mapping[str, Mapping[str, Score]]) -> Figure:
    """Draws a panel for each metric, with the score and interval of each system.

    Args:
        scores: Scores by metric, then by system. All metrics have the same systems.

    Warns:
        UserWarning: see ``labels.fonts_for``.
    """
    names = list(next(iter(scores.values())))
    figure = Figure(figsize=(WIDTH, 1.1 + ROW_HEIGHT * len(names)), dpi=SCREEN_DPI, layout="constrained")
    lines, families = looks(names)
    panels = figure.subplots(1, len(scores), squeeze=False, sharey=True)[0]
    for axes, (metric, systems) in zip(panels, scores.items(), strict=True):
        for place, (line, name) in enumerate(zip(lines, names, strict=True)):
            value, low, high = systems[name]
            axes.plot([low, high], [place, place], color=line["color"], linewidth=2)
            axes.plot([value], [place], color=line["color"], marker=line["marker"], markersize=8)
            axes.annotate(f"{value:.1f}", (value, place), xytext=(0, 7), textcoords="offset points", ha="center")
        axes.set_xlabel(f"{metric}, with 95 % interval")
        axes.margins(x=0.15)
        axes.set_ylim(len(names) - 0.4, -0.8)  # first system on top, with room for its label
        finish(axes)
    panels[0].set_yticks(
        range(len(names)), [line["label"] for line in lines], fontfamily=families, parse_math=False, usetex=False
    )
    return figure
