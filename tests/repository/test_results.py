"""The results: the pairs for training and testing, and the page of results."""

import re

from benchmarks.results import RESULTS
from benchmarks.results_page import DRAWN, LEGEND, draw, page, run


def test_the_page_holds_the_results_of_the_files():
    assert page() == (RESULTS.parent / "results.md").read_text("utf-8"), "python -m benchmarks.results_page writes it"


def test_the_figures_of_the_page_are_drawn_from_the_results(tmp_path):
    draw({name: run(f"{name}-1") for name in DRAWN}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {path.name for path in RESULTS.parent.iterdir()}
    labels = "".join(re.findall("<!-- (.*?) -->", (tmp_path / "results-by-length.svg").read_text("utf-8")))
    assert all(title in labels for title in LEGEND.values())
    assert "16-20" in labels  # 26 sentences
    assert "21-25" not in labels  # 5 sentences, too few for a point
