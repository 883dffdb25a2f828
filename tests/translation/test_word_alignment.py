"""Words from pieces, links from words: the same cases as the page's JavaScript answers, and a few of its own."""

import json
from pathlib import Path

import numpy as np
import pytest

from nmt_keras.corpus.alignments import GoldLinks, from_pharaoh, to_pharaoh
from nmt_keras.translation.word_alignment import (
    WordAlignment,
    align_words,
    links,
    written_words,
)

CASES = json.loads((Path(__file__).parent / "word_alignments.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_words_are_aligned_as_the_page_aligns_them(case):
    found = align_words(case["source_tokens"], case["target_tokens"], case["alignment"])
    assert (found.source, found.target) == (case["source_words"], case["target_words"])
    np.testing.assert_allclose(found.weights, case["word_alignment"], atol=1e-7)


def test_rows_still_sum_to_1_and_keep_their_precision():
    random = np.random.default_rng(5)
    weights = random.dirichlet(np.ones(7), size=5).astype(np.float32)
    source = ["▁un", "▁hos", "pi", "tal", "▁", "▁sí", ""]
    found = align_words(source, ["▁a", "▁hos", "pital", ".", ""], weights)
    assert found.weights.dtype == np.float32
    assert found.weights.shape == (3, 4)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, atol=1e-6)


def test_an_alignment_of_other_tokens_is_refused():
    with pytest.raises(ValueError, match=r"alignment: .*\(2, 1\)"):
        align_words(["a", ""], ["b"], [[1.0], [0.0]])


def aligned(source: list[str], target: list[str]) -> WordAlignment:
    """Each target word looks at the source word of its own position alone."""
    return WordAlignment(source, target, np.eye(len(target), len(source)))


def test_words_that_no_space_separates_count_as_one():
    #        La   casa  ,    Tom  END
    pieces = WordAlignment(
        ["La", "casa", ",", "Tom", ""],
        ["The", "house", ",", "Tom", ""],
        np.array(
            [
                [1.0, 0.0, 0.0, 0.0, 0.0],
                [0.0, 0.5, 0.25, 0.25, 0.0],
                [0.0, 0.0, 0.5, 0.5, 0.0],
                [0.0, 0.0, 0.0, 1.0, 0.0],
                [0.0, 0.0, 0.0, 0.0, 1.0],
            ]
        ),
    )
    found = written_words(pieces, "La casa, Tom", "The house, Tom")
    assert found.source == ["La", "casa,", "Tom", ""]
    assert found.target == ["The", "house,", "Tom", ""]
    # "house" gives 0.5 + 0.25 to "casa,", "," gives 0 + 0.5: their mean is 0.625
    np.testing.assert_allclose(
        found.weights,
        [[1.0, 0.0, 0.0, 0.0], [0.0, 0.625, 0.375, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]],
    )


def test_a_word_that_was_cut_off_looks_nowhere_and_keeps_its_place():
    found = written_words(aligned(["uno", ""], ["one", ""]), "uno dos", "one two")
    assert found.source == ["uno", "dos", ""]
    np.testing.assert_allclose(found.weights, [[1, 0, 0], [0, 0, 0], [0, 0, 1]])
    assert links(found) == [(0, 0)]


def test_decomposed_accents_are_found_again():
    found = written_words(aligned(["¿", "Está", "?", ""], ["Is", "it", "?", ""]), "¿Esta\u0301?", "Is it?")
    assert found.source == ["¿Está?", ""]


def test_words_that_the_sentence_does_not_have_stay_as_they_are():
    found = written_words(aligned(["la", "casa", ""], ["x", "y", ""]), "La casa", "x y")
    assert found.source == ["la", "casa", ""]
    np.testing.assert_array_equal(found.weights, np.eye(3))


def test_a_target_word_is_linked_with_the_source_word_it_looked_at_most():
    weights = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0]])
    found = WordAlignment(["a", "b", ""], ["x", "y", "z", ""], weights)
    assert links(found) == [(0, 1), (1, 0)]  # z looked at the end, and the end is no word
    assert to_pharaoh(links(found)) == "0-1 1-0"


def test_a_translation_without_an_end_is_linked_to_its_last_word():
    assert links(aligned(["a", "b", ""], ["x", "y"])) == [(0, 0), (1, 1)]


def test_an_empty_sentence_has_no_links():
    assert links(align_words([""], [""], [[1.0]])) == []
    assert to_pharaoh([]) == ""


def test_gold_links_are_sure_or_possible_and_the_sure_are_possible_too():
    assert from_pharaoh("0-0 1p2 3-1\n") == GoldLinks(
        sure=frozenset({(0, 0), (3, 1)}), possible=frozenset({(0, 0), (3, 1), (1, 2)})
    )
    assert from_pharaoh("") == GoldLinks(frozenset(), frozenset())


@pytest.mark.parametrize("line", ["0:0", "a-b", "0-", "1-2-3"])
def test_what_is_no_link_is_named_with_its_line(line):
    with pytest.raises(ValueError, match=rf"gold\.txt:7: expected links such as 0-0 .* received '{line}'"):
        from_pharaoh(line, "gold.txt:7")
