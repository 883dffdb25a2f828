"""The results: which pairs a run is trained and tested on, and a page that holds what the files say."""

import json
from dataclasses import replace

import pytest

from benchmarks.results import Run, all_runs, corpus_of, fits, joined_up_to, long_pairs, words
from benchmarks.results_page import LADDER, PUBLISHED, page, results
from nmt_keras.corpus import Pair
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.recipes import RECIPES, find_recipe

PAIRS = sample_pairs()[:400]


def test_every_recipe_of_a_paper_has_its_run():
    from_papers = {name for name in RECIPES if name not in ("sample", "luong-replace")}
    runs = {run.name for run in all_runs()}
    stands_for = {"-8": "-30", "-16": "-50"}
    for run in list(runs):
        for small, whole in stands_for.items():
            if run.startswith("rnn") and run.endswith(small):
                runs = runs - {run} | {run.replace(small, whole)}
    assert runs == from_papers


def test_runs_keep_what_tells_the_systems_apart():
    sizes = {"units": 1, "layers": 1, "output_units": 1, "window": 1}

    def without_sizes(record):
        return replace(record, **{name: value for name, value in sizes.items() if hasattr(record, name)})

    for run in all_runs():
        name = run.name.replace("-8", "-30").replace("-16", "-50") if run.name.startswith("rnn") else run.name
        paper, model = find_recipe(name).model, run.recipe.model
        for part in ("encoder", "attention", "decoder"):
            assert without_sizes(getattr(model, part)) == without_sizes(getattr(paper, part)), run.name
        assert model.dropout == paper.dropout
        if paper.decoder.layers > 1:
            assert model.encoder.layers == model.decoder.layers == 2
        if paper.attention.span != "global":
            assert model.attention.window < paper.attention.window


def test_concatenations_are_as_long_as_the_limit_allows_and_of_two_pairs_at_the_least():
    found = joined_up_to(PAIRS, 16)
    assert found
    singles = {pair.source for pair in PAIRS}
    assert all(fits(pair, 16) and pair.source not in singles for pair in found)
    assert found == joined_up_to(PAIRS, 16)
    assert joined_up_to([Pair("a b", "c"), Pair("d e", "f")], 3) == []


def test_a_limited_run_trains_on_short_pairs_and_their_concatenations_and_is_tested_on_the_whole_part():
    recipe = find_recipe("rnnsearch-30")
    whole = corpus_of(Run("x", recipe), PAIRS)
    short = corpus_of(Run("x", recipe, words=4), PAIRS)
    joined = corpus_of(Run("x", recipe, words=4, joined=True), PAIRS)
    assert 0 < len(short.train) < len(whole.train)
    assert all(fits(pair, 4) for pair in joined.train)
    assert joined.train[: len(short.train)] == short.train
    assert whole.test == short.test == joined.test


def test_the_long_test_set_joins_two_to_six_pairs():
    found = long_pairs(PAIRS, each=3)
    assert len(found) == 15
    assert found == long_pairs(PAIRS, each=3)
    assert words(found[-1].source) > words(found[0].source)


def result(name, bleu, **more):
    return {
        "name": name, "bleu": bleu, "chrf": 30.0, "loss": 2.5, "exact": 1.0, "parameters": 2_500_000, "steps": 700,
        "minutes": 6.5,
        "circumstances": {"date": "2026-01-01", "machine": "2 cores"}, **more,
    }  # fmt: skip


def by_length(bleu):
    bins = [
        {"label": label, "sentences": 30, "bleu": [value, value - 1, value + 1]}
        for label, value in (("1-5", bleu), ("6-10", bleu - 1), ("16-20", bleu - 3.5))
    ]
    table = {part: {"all": bleu, "no_unk": bleu + 1, "pairs": 30, "pairs_no_unk": 20} for part in ("test", "long")}
    shown = {"source": ["hola", ""], "target": ["hello", ""], "alignment": [[0.9, 0.1], [0.2, 0.8]]}
    return {"by_length": bins, "table": table, "alignments": [shown] * 4}


@pytest.fixture
def folder(tmp_path):
    found = [result(name, 5.0 + i) for i, name in enumerate(LADDER)]
    found += [result(name, 7.25 + i, **by_length(7.25 + i)) for i, name in enumerate(PUBLISHED)]
    for one in found:
        (tmp_path / f"{one['name']}.json").write_text(json.dumps(one))
    return tmp_path


def test_the_page_shows_what_the_files_say_and_says_what_has_not_run(folder):
    (folder / "words.md").write_text("What a reader says.\n")
    written = page(results(folder), folder, folder / "words.md")
    for row in (
        "| `luong-ensemble` | 12.00 ",
        "| 6.00 | +1.0 | 12.6 | +1.3 |",
        "| `rnnsearch-16` | 10.25 (30) | 11.25 (20) ",
    ):
        assert row in written
    assert "`rnnencdec-8` loses 3.5 BLEU" in written
    assert "What a reader says." in written
    assert (folder / "results-by-length.svg").exists()
    assert (folder / "results-alignments.png").exists()


def test_a_page_without_results_has_no_picture(tmp_path):
    written = page({}, tmp_path, tmp_path / "none")
    assert "results-by-length" not in written
    assert "findings" not in written
    assert list(tmp_path.iterdir()) == []
