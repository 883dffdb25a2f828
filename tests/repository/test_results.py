"""The results: the pairs for training and testing, the page of results, and its findings."""

import json
import re
from dataclasses import asdict, replace

import pytest

from benchmarks.findings import PROSE, findings
from benchmarks.results import LADDER, RESULTS, Group, corpus_of, fits, groups, joined_up_to, long_pairs, words
from benchmarks.results_page import LADDER_LEGEND, LEGEND, PUBLISHED, page
from nmt_keras.corpus import Pair
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.recipes import find_recipe

PAIRS = sample_pairs()[:400]
SYSTEMS = [system for group in groups().values() for system in group.systems]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_system_differs_from_its_recipe_in_size_alone(system):
    short = {"rnnencdec-8": "rnnencdec-30", "rnnsearch-8": "rnnsearch-30"}
    long = {"rnnencdec-16": "rnnencdec-50", "rnnsearch-16": "rnnsearch-50"}
    paper, model = find_recipe({**short, **long}.get(system.name, system.name)).model, system.model
    for part in ("encoder", "attention", "decoder"):
        here, there = asdict(getattr(model, part)), asdict(getattr(paper, part))
        assert {name for name in here if here[name] != there[name]} <= {"units", "layers", "output_units", "window"}
    assert model.dropout == paper.dropout


def test_the_systems_of_a_group_differ_in_model_alone():
    for group in groups().values():
        unused = {"halve_from": 0.5, "halve_every": 0.1}  # settings of another schedule
        alike = {
            replace(system, name="", model=group.systems[0].model, train=replace(system.train, **unused))
            for system in group.systems
        }
        assert len(alike) == 1


def test_concatenations_fit_the_limit_and_join_at_least_two_pairs():
    found = joined_up_to(PAIRS, 16)
    assert found
    singles = {pair.source for pair in PAIRS}
    assert all(fits(pair, 16) and pair.source not in singles for pair in found)
    assert joined_up_to([Pair("a b", "c"), Pair("d e", "f")], 3) == []


def test_a_limited_group_trains_on_short_pairs_and_their_concatenations_and_is_tested_on_the_whole_part():
    group = Group((find_recipe("rnnsearch-30"),))
    whole, short, joined = (
        corpus_of(each, PAIRS) for each in (group, replace(group, words=4), replace(group, words=4, joined=True))
    )
    assert 0 < len(short.train) < len(whole.train)
    assert all(fits(pair, 4) for pair in joined.train)
    assert joined.train[: len(short.train)] == short.train
    assert whole.test == short.test == joined.test


def test_the_long_test_set_joins_two_to_six_pairs():
    found = long_pairs(PAIRS, each=3)
    assert len(found) == 15
    assert words(found[-1].source) > words(found[0].source)


def test_the_page_holds_the_results_of_the_files(tmp_path):
    written = page(RESULTS, tmp_path)
    assert written == (RESULTS.parent / "results.md").read_text("utf-8"), "python -m benchmarks.results_page writes it"
    assert all((RESULTS.parent / path.name).exists() for path in tmp_path.iterdir())


def test_the_figures_name_systems_not_runs(tmp_path):
    page(RESULTS, tmp_path)
    named = {path.stem: set(re.findall("<!-- (.*?) -->", path.read_text("utf-8"))) for path in tmp_path.glob("*.svg")}
    assert set(LEGEND.values()) <= named["results-by-length"]
    assert set(LEGEND) == set(PUBLISHED)
    assert set(LADDER_LEGEND) == set(LADDER)
    systems = json.loads((RESULTS / "reports" / "hour.json").read_text("utf-8"))["bleu_by_length"]
    assert set(systems) <= named["report-scores"] & named["report-bleu-by-length"]


def test_a_page_without_results_says_so_and_has_no_picture(tmp_path):
    assert "no system has been run" in page(tmp_path / "none", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_every_finding_holds():
    found = findings(PROSE.read_text("utf-8"))
    assert found
    assert [finding.text for finding in found if not finding.holds] == []


@pytest.mark.parametrize(
    ("item", "holds"),
    [
        ('- True. <!-- run("luong-feed").bleu > run("luong-base").bleu -->', True),
        ('- False. <!-- run("luong-feed").bleu < run("luong-base").bleu -->', False),
        ('- No comparison. <!-- run("luong-feed").bleu -->', False),
        ("- No expression.", False),
    ],
)
def test_a_finding_holds_only_if_its_expression_is_true(item, holds):
    (finding,) = findings(f"Introduction.\n\n{item}\n")
    assert finding.holds is holds
