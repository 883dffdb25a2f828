"""The results: the pairs for training and testing, and the page of results."""

import json
import re
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial

import pytest

from benchmarks.results import (
    AS_PUBLISHED,
    LADDER,
    ORDERS,
    RESULTS,
    SAMPLING,
    UNITS,
    Group,
    corpus_of,
    fits,
    groups,
    joined_up_to,
    long_pairs,
    run_group,
    with_alignments,
    with_fields,
    words,
)
from benchmarks.results_page import (
    LADDER_LEGEND,
    LEGEND,
    PUBLISHED,
    combined_section,
    draw,
    group_section,
    lengths_section,
    page,
    run,
    table_1,
)
from nmt_keras.corpus import Pair
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.evaluation.metrics import all_baselines
from nmt_keras.models.seq2seq import build_model
from nmt_keras.recipes import find_recipe
from nmt_keras.runs.protocol import Study

PAIRS = sample_pairs()[:400]
SYSTEMS = [system for name, group in groups().items() if name != "small-corpus" for system in group.systems]


RECIPE_OF = {
    **{f"{kind}-8": f"{kind}-30" for kind in ("rnnencdec", "rnnsearch")},
    **{f"{kind}-16": f"{kind}-50" for kind in ("rnnencdec", "rnnsearch")},
    "rnnsearch-16-longer": "rnnsearch-50",
    **{f"{name}-sample": name for name in ("rnnsearch-50", *(f"luong-{rung}" for rung in LADDER))},
    **dict.fromkeys(("luong-general-0.006", "luong-general-longer"), "luong-general"),
    **dict.fromkeys(("rnnsearch", *SAMPLING, *(f"{kind}s" for kind in UNITS)), "rnnsearch-50"),
    **dict.fromkeys(("rnnencdec-last", "rnnencdec-mean"), "rnnencdec-50"),
    **dict.fromkeys((*ORDERS, "attend-then-update-guided"), "rnnsearch-small"),
    **{f"{name}-as-published": name for name in AS_PUBLISHED},
}
"""The recipe of a system, if it has another name."""
SUBJECT = {
    "rnnencdec-mean": {"kind", "initial_state"},
    "conditional": {"order"},
    "update-then-attend": {"order", "output", "input_feeding"},
}
"""Fields of the model that a group is about, by system."""


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_system_differs_from_its_recipe_in_size_and_in_what_its_group_is_about(system):
    paper, model = find_recipe(RECIPE_OF.get(system.name, system.name)).model, system.model
    allowed = {"units", "layers", "output_units", "window", "position_logit"} | SUBJECT.get(system.name, set())
    for part in ("encoder", "attention", "decoder"):
        here, there = asdict(getattr(model, part)), asdict(getattr(paper, part))
        assert {name for name in here if here[name] != there[name]} <= allowed
    assert model.dropout == (0.0 if system.name == "self-attention" else paper.dropout)  # as attend-then-update


def test_the_systems_of_a_group_differ_in_model_alone_or_in_what_the_group_is_about():
    unused = {"halve_from": 0.5, "halve_every": 0.1}  # settings of another schedule
    for name, group in groups().items():
        first = group.systems[0]
        sampling = {"sampling_from": 0.0, "sampling_to": 0.0} if name == "sampling" else {}
        rate = {"learning_rate": 0.1} if name in ("self-attention", "order") else {}  # the pilots choose it
        subject = {"units": ("source", "target", "search"), "small-corpus": ("source", "target")}.get(name, ())
        same = {field: getattr(first, field) for field in subject}
        limit = {"max_tokens": 40} if name == "units" else {}
        changes = {**unused, **sampling, **rate, **limit}
        alike = {
            replace(system, name="", model=first.model, train=replace(system.train, **changes), **same)
            for system in group.systems
        }
        assert len(alike) == 1, name
    assert [system.train.learning_rate for system in groups()["order"].systems] == [6e-3, 6e-3, 3e-3]


def test_a_system_of_the_small_corpus_has_the_options_of_the_recipe_except_layer_normalisation():
    systems = {system.name: system for system in groups()["small-corpus"].systems}
    cells = {f"model.{part}.cell": "gru-layer-norm" for part in ("encoder", "decoder")}
    system, recipe = with_fields(systems["small-corpus-recurrent-dropout"], cells), find_recipe("small-corpus")
    assert (system.source, system.target, system.model) == (recipe.source, recipe.target, recipe.model)
    assert system.train.learning_rate == recipe.train.learning_rate


def test_alternatives_are_compared_with_the_system_that_they_replace():
    found = {
        name: all_baselines([system.name for system in group.systems], group.baselines)
        for name, group in groups().items()
    }
    assert [*found["lecture"].items()] == [
        ("lecture-rnn", None),
        ("lecture-separate", "lecture-rnn"),
        ("lecture-fed", "lecture-separate"),
        ("lecture-deep", "lecture-fed"),
        ("lecture-bidirectional", "lecture-deep"),
        ("lecture-reversed", "lecture-deep"),
    ]
    assert found["sampling"] == {"rnnsearch": None, "scheduled-sampling": "rnnsearch", "free-running": "rnnsearch"}
    assert found["units"] == {"rnnsearch": None, "subwords": "rnnsearch", "characters": "rnnsearch"}
    base = "attend-then-update"
    assert found["order"] == {base: None, "conditional": base, "update-then-attend": base}
    named = {name for name, group in groups().items() if group.baselines}
    assert named == {"ladder", "sample", "lecture", "sampling", "units", "order", "small-corpus"}


def test_recurrence_and_self_attention_are_compared_at_equal_size():
    recurrent, attentive = (
        build_model(system.model, system.source.vocabulary_size, system.target.vocabulary_size).count_params()
        for system in groups()["self-attention"].systems
    )
    assert attentive == pytest.approx(recurrent, rel=0.05)


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


class Here:
    """Runs the functions of a study in this process, one after another."""

    def __init__(self, jobs):
        self.threads = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, function, *arguments):
        done = Future()
        done.set_result(function(*arguments))
        return done

    def run(self, function, *arguments):
        function(*arguments)


def tiny(system):
    """Returns a system that trains in seconds: a narrow model, few words and small batches."""
    sides = {
        side: replace(getattr(system, side), vocabulary_size=min(500, getattr(system, side).vocabulary_size))
        for side in ("source", "target")
    }
    train = replace(system.train, batch_size=8, length_buckets=1, validations=1, validation_sentences=4, xla=False)
    search = replace(system.search, max_tokens=min(20, system.search.max_tokens))
    return replace(system, model=system.model.scaled(0.05), train=train, search=search, **sides)


def dry_run(name, folder, monkeypatch, keep=lambda system: True):
    """Trains a group's tiny systems for two updates with at most two seeds. Returns the results by file name."""
    monkeypatch.setattr("nmt_keras.runs.protocol.Processes", Here)
    group = groups()[name]
    systems = tuple(tiny(system) for system in group.systems if keep(system))
    pairs = None if group.pairs is None else 100
    group = replace(group, systems=systems, seeds=group.seeds[: 2 if group.combined else 1], pairs=pairs)
    corpus = corpus_of(group, PAIRS)
    if group.guided:
        corpus = with_alignments(corpus, PAIRS, ["0-0"] * len(PAIRS))
    options = {"rates": (1.0,), "seeds": group.seeds, "language": "en", "baselines": group.baselines}
    study = Study(folder, systems, corpus, updates=2, **options)
    run_group(group, study, 1)
    return {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*-*.json")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sampling", "units", "self-attention", "order", "guided-alignment", "fixed-context", "small-corpus"]
)
def test_a_group_trains_and_scores_each_of_its_systems(name, tmp_path, monkeypatch):
    found = dry_run(name, tmp_path / name, monkeypatch)
    assert set(found) == {f"{system.name}-1" for system in groups()[name].systems}
    assert {result["steps"] for result in found.values()} == {2}
    written = group_section(tmp_path / name)
    assert ("| against |" in written) == (name in ("sampling", "units", "order", "small-corpus"))
    assert all(f"| {system.name} |" in written for system in groups()[name].systems)
    lengths = json.loads((tmp_path / name / "lengths.json").read_text("utf-8"))
    counts = {result["test_pairs"] for result in found.values()}
    assert {sum(one["sentences"] for one in lengths.values())} == counts
    assert lengths_section(tmp_path / name).count("\n| ") == 1 + len(found)


@pytest.mark.slow
def test_the_ensemble_s_runs_are_scored_alone_and_together_and_with_unknown_words_replaced(tmp_path, monkeypatch):
    folder = tmp_path / "ensemble"
    found = dry_run("ensemble", folder, monkeypatch)
    assert set(found) == {"rnnsearch-1", "rnnsearch-2", "rnnsearch-ensemble-2-1", "rnnsearch-replace-1"}
    together, replaced = found["rnnsearch-ensemble-2-1"], found["rnnsearch-replace-1"]
    assert together["runs"] == ["rnnsearch-1", "rnnsearch-2"]
    assert together["parameters"] == 2 * found["rnnsearch-1"]["parameters"]
    assert (together["search"], replaced["search"]) == ("greedy", "greedy, unknown words replaced")
    score = r"[\d.]+ \([\d.]+ to [\d.]+\)"
    row = rf"^\| `(\S+)` \| {score} \| {score} \| [\d.]+ \| ([\d.]+) \|$"
    rows = re.findall(row, combined_section(folder), re.M)
    assert dict(rows) == {
        "rnnsearch-1": f"{found['rnnsearch-1']['unknown']:.2f}",
        "rnnsearch-2": f"{found['rnnsearch-2']['unknown']:.2f}",
        "rnnsearch-ensemble-2": f"{together['unknown']:.2f}",
        "rnnsearch-replace": f"{replaced['unknown']:.2f}",
    }


@pytest.mark.slow
def test_table_1_and_figure_2_have_test_pairs_and_their_concatenations(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.results.long_pairs", partial(long_pairs, each=1))
    monkeypatch.setattr("benchmarks.results.has_unknown", lambda translator, pair: False)  # all have, in so few pairs
    found = dry_run("bahdanau-16-longer", tmp_path / "bahdanau-16-longer", monkeypatch)["rnnsearch-16-longer-1"]
    assert (found["table"]["test"]["pairs"], found["table"]["long"]["pairs"]) == (found["test_pairs"], 5)
    assert found["table"]["test"]["perplexity"] == pytest.approx(found["perplexity"], abs=0.01)
    assert sum(each["sentences"] for each in found["by_length"]["long"]) == 5
    assert f"| {found['table']['long']['all']:.2f} (5) |" in table_1({"rnnsearch-16-longer": found})


def test_the_page_holds_the_results_of_the_files():
    assert page() == (RESULTS.parent / "results.md").read_text("utf-8"), "python -m benchmarks.results_page writes it"


def test_the_page_has_each_group():
    template = (RESULTS / "results.template").read_text("utf-8")
    assert all(f"{{group[{name}]}}" in template for name in groups())


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The folder of the page's figures, drawn anew."""
    folder = tmp_path_factory.mktemp("figures")
    draw({name: run(f"{name}-1") for name in (*PUBLISHED, *(f"luong-{rung}" for rung in LADDER))}, folder)
    return folder


def test_the_figures_name_systems_not_runs(figures):
    named = {path.stem: set(re.findall("<!-- (.*?) -->", path.read_text("utf-8"))) for path in figures.glob("*.svg")}
    assert set(LEGEND.values()) <= named["results-by-length"]
    assert set(LEGEND) == set(PUBLISHED)
    assert set(LADDER_LEGEND) == set(LADDER)
    systems = json.loads((RESULTS / "reports" / "hour.json").read_text("utf-8"))["bleu_by_length"]
    assert set(systems) <= named["report-scores"] & named["report-bleu-by-length"]
    assert all((RESULTS.parent / path.name).exists() for path in figures.iterdir())


def test_figure_2_leaves_out_lengths_of_few_sentences(figures):
    labels = re.findall("<!-- (.*?) -->", (figures / "results-by-length.svg").read_text("utf-8"))
    assert "16-20" in "".join(labels)  # 26 sentences
    assert "21-25" not in "".join(labels)  # 5 sentences


def test_a_system_of_several_groups_has_the_alignment_error_of_the_most_runs():
    rows = re.findall(r"^\| `rnnsearch` \| additive \| (?:[^|]+\| ){3}(\d+) \|$", page(), re.MULTILINE)
    assert rows == ["8"]
