"""The results: which pairs a run is trained and tested on, and a page that holds what the files say."""

from dataclasses import asdict, replace

import pytest

from benchmarks.results import RESULTS, Run, all_runs, corpus_of, fits, joined_up_to, long_pairs, words
from benchmarks.results_page import PROSE, page, results
from nmt_keras.corpus import Pair
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.recipes import find_recipe

PAIRS = sample_pairs()[:400]


@pytest.mark.parametrize("run", all_runs(), ids=lambda run: run.name)
def test_a_run_differs_from_its_recipe_in_size_alone(run):
    short = {"rnnencdec-8": "rnnencdec-30", "rnnsearch-8": "rnnsearch-30"}
    long = {"rnnencdec-16": "rnnencdec-50", "rnnsearch-16": "rnnsearch-50"}
    paper, model = find_recipe({**short, **long}.get(run.name, run.name)).model, run.recipe.model
    for part in ("encoder", "attention", "decoder"):
        here, there = asdict(getattr(model, part)), asdict(getattr(paper, part))
        assert {name for name in here if here[name] != there[name]} <= {"units", "layers", "output_units", "window"}
    assert model.dropout == paper.dropout


def test_concatenations_fit_the_limit_and_join_at_least_two_pairs():
    found = joined_up_to(PAIRS, 16)
    assert found
    singles = {pair.source for pair in PAIRS}
    assert all(fits(pair, 16) and pair.source not in singles for pair in found)
    assert joined_up_to([Pair("a b", "c"), Pair("d e", "f")], 3) == []


def test_a_limited_run_trains_on_short_pairs_and_their_concatenations_and_is_tested_on_the_whole_part():
    run = Run("x", find_recipe("rnnsearch-30"))
    whole, short, joined = (
        corpus_of(each, PAIRS) for each in (run, replace(run, words=4), replace(run, words=4, joined=True))
    )
    assert 0 < len(short.train) < len(whole.train)
    assert all(fits(pair, 4) for pair in joined.train)
    assert joined.train[: len(short.train)] == short.train
    assert whole.test == short.test == joined.test


def test_the_long_test_set_joins_two_to_six_pairs():
    found = long_pairs(PAIRS, each=3)
    assert len(found) == 15
    assert words(found[-1].source) > words(found[0].source)


def test_the_page_holds_the_figures_of_the_files(tmp_path):
    written = page(results(RESULTS), tmp_path, RESULTS / PROSE)
    assert written == (RESULTS.parent / "results.md").read_text("utf-8"), "python -m benchmarks.results_page writes it"
    assert {path.name for path in tmp_path.iterdir()} == {"results-by-length.svg", "results-alignments.png"}


def test_a_page_without_results_says_so_and_has_no_picture(tmp_path):
    assert "not run yet" in page({}, tmp_path, tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
