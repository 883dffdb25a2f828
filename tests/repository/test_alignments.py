"""The pairs with gold alignments, and the benchmark that measures alignments on them."""

import json

import numpy as np
import pytest

from benchmarks.alignment import (
    ALIGNMENTS,
    as_written,
    gold_pairs,
    hard_links,
    main,
    word_weights,
)
from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.corpus.split import split_pairs
from nmt_keras.translation.records import AlignedPair


@pytest.mark.parametrize("name", ["spa-eng", "sample"])
def test_every_link_is_between_words_and_is_sure_or_possible_only_once(name):
    lines = (ALIGNMENTS / f"{name}.tsv").read_text("utf-8").splitlines()
    for pair, line in zip(gold_pairs(name), lines, strict=True):
        sources, targets = pair.source.split(), pair.target.split()
        assert all(s < len(sources) and t < len(targets) for s, t in pair.links.possible)
        assert len(pair.links.possible) == len(line.split("\t")[2].split())


def test_the_sample_s_pairs_are_its_test_set():
    test = split_pairs(sample_pairs(), key_side="target")["test"]
    assert [tuple(map(as_written, pair[:2])) for pair in gold_pairs("sample")] == [tuple(pair) for pair in test]


def test_weights_of_pieces_are_summed_over_source_words_and_averaged_over_target_words():
    source = ["▁¿", "Qué", "▁", "li", "bro", "?", ""]
    target = ["▁What", "▁bo", "ok", "?", ""]
    weights = np.arange(35.0).reshape(5, 7)
    found = word_weights(AlignedPair(source, target, weights), "¿ Qué libro ?", "What book ?")
    summed = np.stack([weights[:, 0], weights[:, 1], weights[:, 2:5].sum(axis=1), weights[:, 5], weights[:, 6]], axis=1)
    np.testing.assert_allclose(found, [summed[0], summed[1:3].mean(axis=0), summed[3], summed[4]])


def test_a_word_that_attends_most_to_the_end_has_no_link():
    weights = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    assert hard_links(weights) == {(0, 0)}
    assert hard_links(weights[:, :-1], has_end=False) == {(0, 0), (1, 1)}


@pytest.mark.slow
def test_a_run_and_the_links_of_another_system_are_measured(run_folder, tmp_path, capsys):
    gold, links = tmp_path / "gold.tsv", tmp_path / "other.align"
    gold.write_text("Ana lee .\tAna reads .\t0-0 1-1 2-2\nNo .\tNo .\t0-0 1p1\n", "utf-8")
    links.write_text("0-0 1-1 2-2\n0-0 0-1\n", "utf-8")
    main((run_folder,), str(gold), (links,))
    found = json.loads(capsys.readouterr().out)
    assert (found["pairs"], found["sure"], found["possible"]) == (2, 4, 1)
    assert found["systems"]["other.align"] == {
        "error_rate": pytest.approx(1 - (4 + 4) / (5 + 4), abs=1e-4),
        "precision": 0.8,
        "recall": 1.0,
        "interval": [0.0, 0.3333],  # each pair drawn twice: 0 with the first, 1 - (1 + 1) / (2 + 1) with the second
        "links": 5,
        "predicted": ["0-0 1-1 2-2", "0-0 0-1"],
    }
    ours = found["systems"][str(run_folder)]
    assert 0 <= ours["error_rate"] <= 1
    assert 0 < ours["largest_weight"] <= 1
    assert ours["links"] <= 5
