"""Heatmaps label every token in its own place and literally, whatever its characters; files are whole or absent."""

from __future__ import annotations

from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

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
from nmt_keras.plotting.style import COLOURS, MARKERS

SOURCE = ["¿", "cuánto", "cuesta", "el", "piñón", "?", ""]  # S = 7
TARGET = ["how", "much", "is", "it", "?"]  # T = 5
FORTY = [f"{word}-{n}" for n in range(10) for word in ("Ágil", "gypsum", "o", "extraordinariamente")]


def uniform(target_length: int, source_length: int) -> np.ndarray:
    return np.full((target_length, source_length), 1.0 / source_length)


def source_labels(figure: Figure) -> list[Text]:
    return figure.axes[0].get_xticklabels()


def target_labels(figure: Figure) -> list[Text]:
    return figure.axes[0].get_yticklabels()


def shown(labels: list[Text]) -> list[str]:
    return [label.get_text() for label in labels]


def one_by_one(source: str, title: str | None = None) -> Figure:
    return alignment_heatmap([[1.0]], [source], ["x"], title=title)


def test_every_token_labels_the_centre_of_its_own_row_or_column():
    figure = alignment_heatmap(uniform(5, 7), SOURCE, TARGET)
    grid = figure.axes[0]
    assert isinstance(grid.xaxis.get_major_locator(), FixedLocator)
    assert isinstance(grid.yaxis.get_major_locator(), FixedLocator)
    figure.draw_without_rendering()
    assert shown(source_labels(figure)) == ["¿", "cuánto", "cuesta", "el", "piñón", "?", "</s>"]
    assert shown(target_labels(figure)) == TARGET
    assert [label.get_position()[0] for label in source_labels(figure)] == [0, 1, 2, 3, 4, 5, 6]
    assert [label.get_position()[1] for label in target_labels(figure)] == [0, 1, 2, 3, 4]
    assert grid.images[0].get_extent() == [-0.5, 6.5, 4.5, -0.5]  # so the integers are the cells' centres


def test_the_first_target_token_is_at_the_top_and_the_first_source_token_at_the_left():
    weights = np.zeros((5, 7))
    weights[0, 6] = 1.0
    figure = alignment_heatmap(weights, SOURCE, TARGET)
    pixels = drawn(figure)
    grid = figure.axes[0]
    height = pixels.shape[0]

    def colour_at(target: int, source: int) -> list[int]:
        x, y = grid.transData.transform((source, target))
        return pixels[height - 1 - int(y), int(x), :3].tolist()

    dark, yellow = [68, 1, 84], [253, 231, 36]  # the two ends of viridis
    assert colour_at(0, 6) == yellow
    assert colour_at(4, 6) == colour_at(0, 0) == dark
    first_row, last_row = (grid.transData.transform((0, row))[1] for row in (0, 4))
    assert first_row > last_row
    assert source_labels(figure)[0].get_window_extent().y0 > grid.get_window_extent().y1


def test_the_colour_bar_goes_from_0_to_1_whatever_the_weights():
    figure = alignment_heatmap(uniform(5, 7), SOURCE, TARGET)
    bar = figure.axes[1]
    assert bar.get_ylim() == (0.0, 1.0)
    assert bar.get_ylabel() == "attention weight"
    assert figure.axes[0].images[0].get_cmap().name == "viridis"


def drawn(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


@pytest.mark.parametrize(
    "token", ["$5$", "$x^2$", "a_b", "10%", r"\frac", r"$\alpha$", r"$\notacommand{$", "#", "~", "&amp;"]
)
def test_tokens_and_titles_are_drawn_literally(token):
    figure = one_by_one(token, title=f"{token} costs $5 or $6")
    label, title = source_labels(figure)[0], figure.axes[0].title
    assert (label.get_text(), label.get_parse_math()) == (token, False)
    assert (title.get_text(), title.get_parse_math()) == (f"{token} costs $5 or $6", False)
    drawn(figure)


def test_a_dollar_takes_its_room_in_the_picture():
    figure = one_by_one("$x^2$", title="$x^2$")

    def width(parse_math: bool) -> float:
        page = Figure(dpi=figure.dpi)
        text = page.text(0, 0, "$x^2$", fontsize=11, parse_math=parse_math)
        return text.get_window_extent(FigureCanvasAgg(page).get_renderer()).width

    assert figure.axes[0].title.get_window_extent().width == pytest.approx(width(parse_math=False))
    assert width(parse_math=False) > 2 * width(parse_math=True)
    label = source_labels(figure)[0].get_window_extent()
    assert label.height == pytest.approx(width(parse_math=False), abs=1)  # rotated: its length stands upright


def test_a_style_that_typesets_with_tex_leaves_tokens_and_titles_alone(monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    # The colour bar's numbers follow the style; measuring them would need an installed TeX.
    monkeypatch.setattr("nmt_keras.plotting.heatmaps._arrange", lambda *_: None)
    figure = one_by_one("a_b", title="a_b")
    assert not source_labels(figure)[0].get_usetex()
    assert not figure.axes[0].title.get_usetex()


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
def test_what_has_no_picture_gets_one(token, label):
    figure = one_by_one(token)
    assert shown(source_labels(figure)) == [label]
    drawn(figure)  # warnings are errors here: no glyph is missing


@pytest.mark.parametrize("dpi", [72, 150])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (FORTY, FORTY[1:]),
        (["Ágil"] * 80, ["gÁ"] * 3),
        (SOURCE[:5], TARGET),
        (["W" * 200, "ÅÅÅ", "gjpq"], ["M" * 200, "ÅÅÅ", "gjpq"]),
        (["a"], ["b"]),
    ],
    ids=["forty", "eighty", "five", "long", "one"],
)
def test_labels_neither_overlap_nor_leave_the_canvas(source, target, dpi):
    figure = alignment_heatmap(uniform(len(target), len(source)), source, target, title="Título: " + "palabras " * 20)
    figure.set_dpi(dpi)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    for labels in (source_labels(figure), target_labels(figure)):
        boxes = [label.get_window_extent() for label in labels]
        assert not any(box.overlaps(following) for box, following in pairwise(boxes))
    assert len(source_labels(figure)) == len(source)
    assert len(target_labels(figure)) == len(target)
    everything = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert everything.x0 >= 0
    assert everything.y0 >= 0
    assert everything.x1 <= width
    assert everything.y1 <= height
    title = figure.axes[0].title.get_window_extent()
    assert all(title.y0 > label.get_window_extent().y1 for label in source_labels(figure))


@pytest.mark.parametrize(("target_length", "source_length"), [(1, 1), (2, 37), (37, 2)])
def test_a_short_sentence_leaves_room_for_the_colour_bar_and_its_numbers(target_length, source_length):
    figure = alignment_heatmap(uniform(target_length, source_length), ["a"] * source_length, ["b"] * target_length)
    grid, bar = (axes.get_window_extent() for axes in figure.axes)
    assert min(grid.width, grid.height) == pytest.approx(1.5 * figure.dpi)
    assert bar.y1 == pytest.approx(grid.y1)
    assert 1.5 * figure.dpi - 0.5 < bar.height < grid.height + 0.5
    numbers = [number.get_window_extent() for number in figure.axes[1].get_yticklabels()]
    assert not any(number.overlaps(following) for number, following in pairwise(numbers))


@pytest.mark.parametrize("tokens", [1, 5, 40, 80, 300])
def test_fonts_stay_legible_at_every_length(tokens):
    figure = alignment_heatmap(uniform(2, tokens), ["y"] * tokens, ["x", "z"])
    assert 7.5 <= source_labels(figure)[0].get_fontsize() <= 11.0


def test_missing_characters_give_one_warning_that_names_them(caplog):
    with pytest.warns(UserWarning, match="Neither DejaVu Sans nor") as caught:
        figure = alignment_heatmap(uniform(2, 3), ["\U000e0041", "\U0003fffe", "ok"], ["a", "b\U0003fffe"])
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "U+E0041" in message
    assert "U+3FFFE" in message
    assert "Noto Sans CJK" in message
    assert "addfont" in message
    assert caught[0].filename == __file__
    assert shown(source_labels(figure)) == ["\ufffd", "\ufffd", "ok"]
    assert shown(target_labels(figure)) == ["a", "b\ufffd"]
    drawn(figure)  # warnings are errors here: none is left for the drawing
    assert not caplog.records


ALEF_BET = "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET}"
BEH = "\N{ARABIC LETTER BEH}"


@pytest.mark.parametrize("written", [ALEF_BET, BEH, f"Tom {BEH}"])
def test_a_matplotlib_that_mirrors_what_is_written_from_right_to_left_is_told_of_once(written, monkeypatch):
    monkeypatch.setattr(matplotlib, "__version_info__", (3, 10, 9, "final", 0))
    monkeypatch.setattr(matplotlib, "__version__", "3.10.9")
    with pytest.warns(UserWarning, match=r"matplotlib 3\.10\.9 draws .* right to left.*matplotlib>=3\.11") as caught:
        alignment_heatmap(uniform(2, 3), [written, written, "ok"], ["a", "b"])
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="right to left") as caught:
        compare_training({written: LOG})
    assert [warning.filename for warning in caught] == [__file__]
    alignment_heatmap(uniform(1, 3), ["¿Cómo?", "1", "-"], ["a"])  # warnings are errors here


def test_a_matplotlib_that_orders_letters_as_their_script_does_is_not_told_of(monkeypatch):
    monkeypatch.setattr(matplotlib, "__version_info__", (3, 11, 0, "final", 0))
    alignment_heatmap(uniform(1, 2), [ALEF_BET, BEH], ["a"])


def test_characters_are_taken_from_another_installed_font_when_the_first_lacks_them():
    bold_script_a = "\U0001d4d0"  # not in DejaVu Sans; in a mathematical font that matplotlib brings along
    figure = one_by_one(bold_script_a, title=bold_script_a)
    assert shown(source_labels(figure)) == [bold_script_a]
    drawn(figure)


@pytest.mark.parametrize(
    ("alignment", "message"),
    [
        (uniform(7, 5), r"alignment.*\(5, 7\).*\(7, 5\)"),
        (uniform(5, 8), r"alignment.*\(5, 7\).*\(5, 8\)"),
        (uniform(5, 7)[None], r"alignment.*\(1, 5, 7\)"),
        (np.zeros(7), r"alignment.*\(7,\)"),
        (np.where(np.eye(5, 7) > 0, np.nan, 0.0), r"alignment.*5 NaN"),
        (-uniform(5, 7), r"alignment.*-0.142857"),
        (2.0 * np.eye(5, 7), r"alignment.* 2'"),
    ],
)
def test_weights_that_are_no_alignment_of_these_tokens_are_refused(alignment, message):
    with pytest.raises(ValueError, match=message):
        alignment_heatmap(alignment, SOURCE, TARGET)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ("how much", r"source_tokens.*how much"),
        ([b"how"], r"source_tokens.*b'how'"),
        ([], r"source_tokens.*received 0"),
        (["a"] * 301, r"source_tokens.*received 301"),
    ],
)
def test_what_is_no_sentence_of_tokens_is_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        alignment_heatmap(uniform(1, len(tokens)) if tokens else np.zeros((1, 0)), tokens, ["x"])


LOG = [
    {"step": 100, "loss": 3.2, "tokens_per_s": 5000.0},
    {"step": 300, "loss": 2.1, "tokens_per_s": 5000.0},
    {"step": 200, "loss": 2.6, "tokens_per_s": 5000.0},
    {"step": 300, "valid_loss": 2.4, "valid_bleu": 30.2},
]


def lines(figure: Figure, panel: int) -> dict[str, list[list[float]]]:
    return {line.get_label(): line.get_xydata().tolist() for line in figure.axes[panel].get_lines()}


def test_curves_show_the_losses_above_and_bleu_below_against_steps():
    figure = training_curves(LOG)
    assert lines(figure, 0) == {"training": [[100, 3.2], [200, 2.6], [300, 2.1]], "validation": [[300, 2.4]]}
    assert lines(figure, 1) == {"validation": [[300, 30.2]]}
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss (nats per token)", "BLEU"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "step"]
    drawn(figure)


def test_a_panel_without_values_is_not_drawn():
    assert [axes.get_ylabel() for axes in training_curves(LOG[:3]).axes] == ["loss (nats per token)"]
    assert [axes.get_ylabel() for axes in training_curves([{"step": 5, "valid_bleu": 1.0}]).axes] == ["BLEU"]


def test_points_that_no_line_joins_are_seen_by_their_markers():
    training, validation = training_curves(LOG).axes[0].get_lines()
    assert (training.get_marker(), validation.get_marker()) == ("None", "o")
    assert training_curves(LOG[:1]).axes[0].get_lines()[0].get_marker() == "o"


@pytest.mark.parametrize("log", [[], [{"step": 1, "tokens_per_s": 5.0}], [{"step": 1, "loss": float("nan")}]])
def test_a_log_with_nothing_to_draw_is_refused(log):
    with pytest.raises(ValueError, match=r"log.*'valid_bleu'"):
        training_curves(log)


def test_a_row_without_its_step_is_named():
    with pytest.raises(ValueError, match=r"log\[1\].*step.*2.0"):
        training_curves([{"step": 1, "loss": 3.0}, {"loss": 2.0}])


def test_sentences_stand_beside_each_other_without_touching_and_share_one_scale():
    panels = [
        Panel(uniform(5, 7), SOURCE, TARGET, "first"),
        Panel(uniform(3, 2), ["extraordinariamente", ""], ["a", "b", "c"], "second"),
        Panel(uniform(1, 4), ["w", "x", "y", "z"], ["internationalisation"], None),
    ]
    figure = alignment_grid(panels)
    drawn(figure)
    *grids, bar = figure.axes
    assert [grid.get_title() for grid in grids] == ["first", "second", ""]
    assert bar.get_ylim() == (0.0, 1.0)
    boxes = [axes.get_tightbbox(FigureCanvasAgg(figure).get_renderer()) for axes in figure.axes]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert box.x0 >= 0
        assert box.y0 >= 0
    width, height = figure.get_size_inches() * figure.dpi
    assert max(box.x1 for box in boxes) <= width
    assert max(box.y1 for box in boxes) <= height
    first, second, third = (grid.get_window_extent() for grid in grids)
    assert second.x0 > first.x1  # two in a row
    assert third.y1 < min(first.y0, second.y0)


def test_a_grid_has_as_many_columns_as_asked_for():
    figure = alignment_grid([Panel(uniform(1, 1), ["a"], ["b"])] * 3, columns=3)
    tops = {round(grid.get_window_extent().y1) for grid in figure.axes[:-1]}
    assert len(tops) == 1
    with pytest.raises(ValueError, match=r"columns.*0"):
        alignment_grid([Panel(uniform(1, 1), ["a"], ["b"])], columns=0)
    with pytest.raises(ValueError, match="panels"):
        alignment_grid([])


def test_runs_are_told_apart_by_colour_and_marker_until_every_pair_was_used():
    count = len(COLOURS) * len(MARKERS)
    found = compare_training({f"run {number}": LOG for number in range(count)}).axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker()) for line in found}) == count
    for look in (Line2D.get_color, Line2D.get_marker):  # each alone tells the first runs apart
        assert len(set(map(look, found[: len(COLOURS)]))) == len(COLOURS)


def test_runs_are_compared_by_validation_loss_and_bleu():
    other = [{"step": 100, "valid_loss": 3.0}, {"step": 200, "valid_loss": 2.0}]
    figure = compare_training({"first": LOG, "other": other})
    assert lines(figure, 0) == {"first": [[300, 2.4]], "other": [[100, 3.0], [200, 2.0]]}
    assert lines(figure, 1) == {"first": [[300, 30.2]]}
    with pytest.raises(ValueError, match="logs"):
        compare_training({})
    with pytest.raises(ValueError, match=r"logs\['x'\].*valid_bleu"):
        compare_training({"x": LOG[:3]})


def test_a_name_that_no_font_can_write_is_warned_of():
    with pytest.warns(UserWarning, match="Neither DejaVu Sans nor") as caught:
        figure = compare_training({"run \U000e0041": LOG})
    assert caught[0].filename == __file__
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "run \ufffd"


def test_bleu_by_length_has_a_line_and_a_band_for_every_system():
    scores = {"a": [(50, 45, 55), (30, 20, 40)], "b_1": [(40, 35, 45), (10, 5, 15)]}
    figure = bleu_by_length(["1-5", "6-10"], [1200, 30], scores)
    drawn(figure)
    (axes,) = figure.axes
    assert lines(figure, 0) == {"a": [[0, 50], [1, 30]], "b_1": [[0, 40], [1, 10]]}
    band = axes.collections[0].get_paths()[0].vertices
    assert {tuple(point) for point in band.tolist()} >= {(0, 45), (0, 55), (1, 20), (1, 40)}
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1-5\n1,200", "6-10\n30"]
    assert axes.get_ylim()[0] == 0
    with pytest.raises(ValueError, match=r"systems\['a'\].*2.*1"):
        bleu_by_length(["1-5", "6-10"], [1, 2], {"a": [(1, 1, 1)]})


def test_scores_stand_side_by_side_with_their_intervals():
    systems = {"a": (50, 45, 55), "b": (40, 35, 45)}
    figure = score_intervals({"BLEU": systems, "chrF": systems})
    drawn(figure)
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "b"]
    bars = [line.get_xydata().tolist() for line in first.get_lines()]
    assert bars == [[[45, 0], [55, 0]], [[50, 0]], [[35, 1], [45, 1]], [[40, 1]]]
    assert [text.get_text() for text in second.texts] == ["50.0", "40.0"]
    with pytest.raises(ValueError, match="scores"):
        score_intervals({})


@pytest.mark.parametrize(("name", "signature"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_equal_figures_give_equal_files(tmp_path, name, signature):
    contents = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        save_figure(alignment_heatmap(uniform(5, 7), SOURCE, TARGET), tmp_path / folder / name)
        contents.append((tmp_path / folder / name).read_bytes())
    assert contents[0] == contents[1]
    assert contents[0].startswith(signature)
    assert b"matplotlib.org/" not in contents[0].replace(b"www.w3.org", b"")


def test_a_png_has_150_dots_per_inch(tmp_path):
    figure = Figure(figsize=(2, 1))
    save_figure(figure, tmp_path / "a.png")
    header = (tmp_path / "a.png").read_bytes()[16:24]
    assert (int.from_bytes(header[:4]), int.from_bytes(header[4:])) == (300, 150)


def test_a_failed_drawing_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def fill_the_disk(file, **_):
        file.write_bytes(b"half")
        raise OSError("No space left on device")

    figure = Figure()
    monkeypatch.setattr(figure, "savefig", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        save_figure(figure, path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("a.png", b"old")]


@pytest.mark.parametrize("name", ["a.pdf", "a", ".png"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"path.*\.png.*\.svg"):
        save_figure(Figure(), tmp_path / name)
    assert not any(tmp_path.iterdir())
