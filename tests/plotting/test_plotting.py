"""Figures: labels are literal and correctly placed, curves have all points, and equal figures give equal files."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from nmt_keras.plotting import (
    Panel,
    alignment_grid,
    alignment_heatmap,
    bleu_by_length,
    compare_training,
    save_figure,
    score_intervals,
    training_curves,
)

SOURCE = ["¿", "cuánto", "cuesta", "el", "piñón", "?", ""]  # S = 7
TARGET = ["how", "much", "is", "it", "?"]  # T = 5


def uniform(target_length: int, source_length: int) -> np.ndarray:
    return np.full((target_length, source_length), 1.0 / source_length)


def shown(labels: list[Text]) -> list[str]:
    return [label.get_text() for label in labels]


def one_by_one(source: str, title: str | None = None) -> Figure:
    return alignment_heatmap([[1.0]], [source], ["x"], title=title)


def test_every_token_labels_the_centre_of_its_own_row_or_column():
    grid = alignment_heatmap(uniform(5, 7), SOURCE, TARGET).axes[0]
    assert shown(grid.get_xticklabels()) == [*SOURCE[:-1], "</s>"]
    assert shown(grid.get_yticklabels()) == TARGET
    assert (grid.get_xticks().tolist(), grid.get_yticks().tolist()) == ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4])


@pytest.mark.parametrize("token", ["$x^2$", r"$\notacommand{$", "a_b"])
def test_tokens_and_titles_are_drawn_literally(token):
    figure = one_by_one(token, title=token)
    (label,), title = figure.axes[0].get_xticklabels(), figure.axes[0].title
    assert (label.get_text(), label.get_parse_math()) == (token, False)
    assert (title.get_text(), title.get_parse_math()) == (token, False)
    FigureCanvasAgg(figure).draw()


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("", "</s>"),
        (" ", "␣"),
        ("a\nb", r"a\nb"),
        ("\t", r"\t"),
        ("\ud800", r"\ud800"),
        ("\u2028", r"\u2028"),
        ("e\u0301l", "\u00e9l"),
        ("▁casa", "▁casa"),
        ("New York", "New York"),
        ("x" * 32, "x" * 32),
        ("x" * 33, "x" * 31 + "…"),
    ],
)
def test_tokens_that_cannot_be_seen_are_escaped(token, label):
    figure = one_by_one(token)
    assert shown(figure.axes[0].get_xticklabels()) == [label]
    FigureCanvasAgg(figure).draw()  # a missing glyph would give a warning, which is an error


def test_missing_characters_give_one_warning_that_names_them():
    with pytest.warns(UserWarning, match="U\\+3FFFE.*U\\+E0041.*Noto Sans CJK") as caught:
        figure = alignment_heatmap(uniform(2, 3), ["\U000e0041", "\U0003fffe", "ok"], ["a", "b\U0003fffe"])
    assert len(caught) == 1
    assert shown(figure.axes[0].get_xticklabels()) == ["\ufffd", "\ufffd", "ok"]
    assert shown(figure.axes[0].get_yticklabels()) == ["a", "b\ufffd"]
    with pytest.warns(UserWarning, match="U\\+E0041"):
        compared = compare_training({"run \U000e0041": LOG, "run \U000e0042": LOG})
    assert shown(compared.legends[0].get_texts()) == ["run \ufffd"] * 2
    FigureCanvasAgg(figure).draw()  # a warning would be an error


def test_characters_that_the_first_font_lacks_are_drawn_in_another_installed_font():
    bold_script_a = "\U0001d4d0"  # not in DejaVu Sans, but in a mathematical font that matplotlib contains
    figure = one_by_one(bold_script_a, title=bold_script_a)
    assert shown(figure.axes[0].get_xticklabels()) == [bold_script_a]
    FigureCanvasAgg(figure).draw()


@pytest.mark.parametrize(
    ("alignment", "source", "message"),
    [
        (uniform(7, 5), SOURCE, r"alignment.*\(5, 7\).*\(7, 5\)"),
        (uniform(5, 8), SOURCE, r"alignment.*\(5, 7\).*\(5, 8\)"),
        (uniform(5, 7)[None], SOURCE, r"alignment.*\(1, 5, 7\)"),
        (np.zeros(7), SOURCE, r"alignment.*\(7,\)"),
        (np.where(np.eye(5, 7) > 0, np.nan, 0.0), SOURCE, r"alignment.*nan.*masked"),
        (-uniform(5, 7), SOURCE, r"alignment.*-0.142857"),
        (2.0 * np.eye(5, 7), SOURCE, r"alignment.* 2'"),
        (uniform(5, 8), "how much", r"source_tokens.*how much"),
        (uniform(5, 1), [b"how"], r"source_tokens.*b'how'"),
        (np.zeros((5, 0)), [], r"source_tokens.*received 0"),
        (uniform(5, 301), ["a"] * 301, r"source_tokens.*received 301"),
    ],
)
def test_wrong_weights_and_tokens_are_refused(alignment, source, message):
    with pytest.raises(ValueError, match=message):
        alignment_heatmap(alignment, source, TARGET)


LOG = [
    {"step": 100, "loss": 3.2, "tokens_per_s": 5000.0},
    {"step": 300, "loss": 2.1, "tokens_per_s": 5000.0},
    {"step": 200, "loss": 2.6, "tokens_per_s": 5000.0},
    {"step": 300, "valid_loss": 2.4, "valid_bleu": 30.2},
    {"step": 400, "valid_loss": None, "valid_bleu": None},  # not finite, in strict JSON
]


def lines(figure: Figure, panel: int) -> dict[str, list[list[float]]]:
    return {line.get_label(): line.get_xydata().tolist() for line in figure.axes[panel].get_lines()}


def test_curves_show_the_losses_above_and_bleu_below_against_steps():
    figure = training_curves(LOG)
    assert lines(figure, 0) == {"training": [[100, 3.2], [200, 2.6], [300, 2.1]], "validation": [[300, 2.4]]}
    assert lines(figure, 1) == {"validation": [[300, 30.2]]}
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss (nats per token)", "BLEU"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "step"]


def test_a_panel_without_values_is_not_drawn():
    assert [axes.get_ylabel() for axes in training_curves(LOG[:3]).axes] == ["loss (nats per token)"]
    assert [axes.get_ylabel() for axes in training_curves([{"step": 5, "valid_bleu": 1.0}]).axes] == ["BLEU"]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([], "log.*'valid_bleu'"),
        ([{"step": 1, "tokens_per_s": 5.0}], "log.*'valid_bleu'"),
        ([{"step": 1, "loss": float("nan")}], "log.*'valid_bleu'"),
        ([{"step": 1, "loss": 3.0}, {"loss": 2.0}], r"log\[1\].*step.*2.0"),
    ],
)
def test_a_log_with_nothing_to_draw_and_a_row_without_its_step_are_refused(log, message):
    with pytest.raises(ValueError, match=message):
        training_curves(log)


def test_sentences_of_a_grid_do_not_touch_and_share_one_scale():
    panels = [
        Panel(uniform(5, 7), SOURCE, TARGET, "first"),
        Panel(uniform(3, 2), ["extraordinariamente", ""], ["a", "b", "c"], "second"),
        Panel(uniform(1, 4), ["w", "x", "y", "z"], ["internationalisation"], None),
    ]
    figure = alignment_grid(panels)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    everything = Bbox.union(boxes)
    assert min(everything.p0) >= 0
    assert (everything.p1 <= figure.bbox.p1).all()
    assert not any(box.overlaps(other) for number, box in enumerate(boxes) for other in boxes[number + 1 :])
    *grids, bar = figure.axes
    assert [grid.get_title() for grid in grids] == ["first", "second", ""]
    assert bar.get_ylim() == (0.0, 1.0)
    first, second, third = (grid.get_window_extent() for grid in grids)
    assert second.x0 > first.x1  # two panels in a row
    assert third.y1 < min(first.y0, second.y0)


def test_runs_are_compared_by_validation_loss_and_bleu():
    other = [{"step": 100, "valid_loss": 3.0}, {"step": 200, "valid_loss": 2.0}]
    figure = compare_training({"first": LOG, "other": other})
    assert lines(figure, 0) == {"first": [[300, 2.4]], "other": [[100, 3.0], [200, 2.0]]}
    assert lines(figure, 1) == {"first": [[300, 30.2]]}
    with pytest.raises(ValueError, match="logs"):
        compare_training({})
    with pytest.raises(ValueError, match=r"logs\['x'\].*valid_bleu"):
        compare_training({"x": LOG[:3]})


def test_bleu_by_length_has_a_line_and_a_band_for_each_system():
    scores = {"a": [(50, 45, 55), (30, 20, 40)], "b_1": [(40, 35, 45), (10, 5, 15)]}
    figure = bleu_by_length(["1-5", "6-10"], [1200, 30], scores)
    (axes,) = figure.axes
    assert lines(figure, 0) == {"a": [[0, 50], [1, 30]], "b_1": [[0, 40], [1, 10]]}
    band = axes.collections[0].get_paths()[0].vertices
    assert {tuple(point) for point in band.tolist()} >= {(0, 45), (0, 55), (1, 20), (1, 40)}
    assert shown(axes.get_xticklabels()) == ["1-5\n1,200", "6-10\n30"]
    assert axes.get_ylim()[0] == 0


def test_scores_are_drawn_side_by_side_with_their_intervals():
    systems = {"a": (50, 45, 55), "b": (40, 35, 45)}
    first, second = score_intervals({"BLEU": systems, "chrF": systems}).axes
    assert shown(first.get_yticklabels()) == ["a", "b"]
    bars = [line.get_xydata().tolist() for line in first.get_lines()]
    assert bars == [[[45, 0], [55, 0]], [[50, 0]], [[35, 1], [45, 1]], [[40, 1]]]
    assert shown(second.texts) == ["50.0", "40.0"]


@pytest.mark.parametrize(("name", "signature"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")])
def test_equal_figures_give_equal_files(tmp_path, name, signature):
    paths = [tmp_path / f"{number}-{name}" for number in range(2)]
    for path in paths:
        save_figure(alignment_heatmap(uniform(5, 7), SOURCE, TARGET), path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert first.startswith(signature)
    assert b"matplotlib.org/" not in first.replace(b"www.w3.org", b"")
    assert b"CreationDate" not in first


@pytest.mark.parametrize("name", ["a.eps", "a", ".png"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"path.*\.png.*\.svg"):
        save_figure(Figure(), tmp_path / name)
    assert not any(tmp_path.iterdir())
