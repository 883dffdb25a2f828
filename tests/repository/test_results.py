"""The results: the pairs for training and testing, and the page of results."""

import re

from benchmarks.results import RESULTS, normalized
from benchmarks.results_page import LEGEND, draw, error_rates, p_values, page


def test_the_page_holds_the_results_of_the_files():
    assert page() == (RESULTS.parent / "results.md").read_text("utf-8"), "python -m benchmarks.results_page writes it"


def test_p_values_are_corrected_for_the_number_of_tests(monkeypatch):
    monkeypatch.setattr("benchmarks.results_page.welch", lambda score, p, other: float(p))
    found = p_values("{welch[0.01 b]} {welch[0.04 b]} {aer_welch[0.02 b]} {welch[0.2 b]} {welch[0.021 b]} {bleu[b]}")
    assert list(found.items()) == [
        (("bleu", "0.01", "b"), "Welch p = 0.010, corrected 0.050"),  # 5 * 0.01
        (("error_rate", "0.02", "b"), "Welch p = 0.020, corrected 0.080"),  # 4 * 0.02
        (("bleu", "0.021", "b"), "Welch p = 0.021, corrected 0.080"),  # 3 * 0.021 is below its predecessor's
        (("bleu", "0.04", "b"), "Welch p = 0.040, corrected 0.080"),
        (("bleu", "0.2", "b"), "Welch p = 0.200"),
    ]


def test_a_system_of_several_groups_has_the_row_of_a_group_with_links():
    (row,) = re.findall(r"\| `rnnsearch` \|.*", error_rates())
    assert "–" not in row


def test_case_and_accents_do_not_count_in_the_normalized_score():
    texts = ["Él come en el café.", "No."], ["el Come en el cafe.", "no."]
    assert [normalized(*sides)["bleu"] for sides in (texts, texts[::-1])] == [100.0, 100.0]


def test_the_figures_of_the_page_are_drawn_from_the_results(tmp_path):
    draw(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {path.name for path in RESULTS.parent.iterdir()}
    labels = "".join(re.findall("<!-- (.*?) -->", (tmp_path / "results-by-length.svg").read_text("utf-8")))
    assert all(title in labels for title in LEGEND.values())
    assert "16-20" in labels  # 26 sentences
    assert "21-25" not in labels  # 5 sentences, too few for a point
