"""The results: the pairs for training and testing, and the page of results."""

import json
import re
from concurrent.futures import Future
from dataclasses import replace

import pytest

from benchmarks.results import (
    LADDER,
    RESULTS,
    corpus_of,
    groups,
    run_group,
    with_alignments,
)
from benchmarks.results_page import (
    LEGEND,
    PUBLISHED,
    draw,
    group_section,
    lengths_section,
    page,
    run,
)
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.runs.protocol import Study

PAIRS = sample_pairs()[:400]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sampling", "units", "self-attention", "order", "guided-alignment", "fixed-context", "small-corpus"]
)
def test_a_group_trains_and_scores_each_of_its_systems(name, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt_keras.runs.protocol.Processes", Here)
    group = groups()[name]
    group = replace(group, systems=tuple(map(tiny, group.systems)), pairs=group.pairs and 100)
    corpus = corpus_of(group, PAIRS)
    if group.guided:
        corpus = with_alignments(corpus, PAIRS, ["0-0"] * len(PAIRS))
    options = {"rates": (1.0,), "seeds": (1,), "language": "en", "baselines": group.baselines}
    run_group(group, Study(tmp_path / name, group.systems, corpus, updates=2, **options), 1)
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in (tmp_path / name).glob("*-*.json")}
    assert set(found) == {f"{system.name}-1" for system in group.systems}
    assert {result["steps"] for result in found.values()} == {2}
    written = group_section(tmp_path / name)
    assert ("| against |" in written) == (name in ("sampling", "units", "order", "small-corpus"))
    assert all(f"| {system.name} |" in written for system in group.systems)
    lengths = json.loads((tmp_path / name / "lengths.json").read_text("utf-8"))
    counts = {result["test_pairs"] for result in found.values()}
    assert {sum(one["sentences"] for one in lengths.values())} == counts
    assert lengths_section(tmp_path / name).count("\n| ") == 1 + len(found)


def test_the_page_holds_the_results_of_the_files():
    assert page() == (RESULTS.parent / "results.md").read_text("utf-8"), "python -m benchmarks.results_page writes it"


def test_the_figures_of_the_page_are_drawn_from_the_results(tmp_path):
    draw({name: run(f"{name}-1") for name in (*PUBLISHED, *(f"luong-{rung}" for rung in LADDER))}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {path.name for path in RESULTS.parent.iterdir()}
    labels = "".join(re.findall("<!-- (.*?) -->", (tmp_path / "results-by-length.svg").read_text("utf-8")))
    assert all(title in labels for title in LEGEND.values())
    assert "16-20" in labels  # 26 sentences
    assert "21-25" not in labels  # 5 sentences, too few for a point
