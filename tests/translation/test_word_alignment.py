"""Alignments of words and links between words. The page's JavaScript is tested on the same cases."""

import json
from pathlib import Path

import numpy as np
import pytest

from nmt_keras.corpus.alignments import GoldLinks, from_pharaoh, normalised_words, to_pharaoh
from nmt_keras.translation.records import AlignedPair
from nmt_keras.translation.word_alignment import align_words, links, written_words

CASES = json.loads((Path(__file__).parent / "word_alignments.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_words_are_aligned_as_on_the_page(case):
    found = align_words(case["source_tokens"], case["target_tokens"], case["alignment"])
    assert (found.source, found.target) == (case["source_words"], case["target_words"])
    np.testing.assert_allclose(found.alignment, case["word_alignment"], atol=1e-7)


def test_an_alignment_of_other_tokens_is_refused():
    with pytest.raises(ValueError, match=r"alignment: .*\(2, 1\)"):
        align_words(["a", ""], ["b"], [[1.0], [0.0]])


def aligned(source: list[str], target: list[str]) -> AlignedPair:
    """Returns a pair in which each target word attends only to the source word at its position."""
    return AlignedPair(source, target, np.eye(len(target), len(source)))


def test_a_word_of_invisible_characters_has_no_part():
    assert normalised_words("hola b", "\u200e\ufe0f hola b") == [[], ["hola"], ["b"]]


def test_tokens_that_no_space_separates_are_one_word():
    weights = [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.5, 0.25, 0.25, 0.0],
        [0.0, 0.0, 0.5, 0.5, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
    tokens = AlignedPair(["La", "casa", ",", "Tom", ""], ["The", "house", ",", "Tom", ""], np.array(weights))
    found = written_words(tokens, "La casa, Tom", "The house, Tom")
    assert found.source == ["La", "casa,", "Tom", ""]
    assert found.target == ["The", "house,", "Tom", ""]
    # "house" gives 0.5 + 0.25 to "casa,", "," gives 0 + 0.5: their mean is 0.625
    wanted = [[1.0, 0.0, 0.0, 0.0], [0.0, 0.625, 0.375, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(found.alignment, wanted)


def test_a_word_that_was_cut_off_has_no_weights_and_no_links():
    found = written_words(aligned(["uno", ""], ["one", ""]), "uno dos", "one two")
    assert found.source == ["uno", "dos", ""]
    np.testing.assert_allclose(found.alignment, [[1, 0, 0], [0, 0, 0], [0, 0, 1]])
    assert links(found) == [(0, 0)]


@pytest.mark.parametrize(
    ("source", "sentence", "words"),
    [
        (["¿", "Está", "?", ""], "¿Esta\u0301?", ["¿Está?", ""]),
        # white space other than spaces and tabs is inside a word
        (["10", "km", "\u00e9.", ""], "10\xa0km e\u0301.\u202f", ["10 km", "é.", ""]),
    ],
)
def test_words_are_found_despite_decomposed_accents_and_kept_if_the_sentence_lacks_them(source, sentence, words):
    found = written_words(aligned(source, ["x", ""]), sentence, "y")
    assert (found.source, found.target) == (words, ["x", ""])


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        # y attends to a; z attends to END, which is not a word
        (
            AlignedPair(["a", "b", ""], ["x", "y", "z", ""], np.array([[2, 5, 3], [6, 4, 0], [1, 2, 7], [0, 9, 0]])),
            "0-1 1-0",
        ),
        (aligned(["a", "b", ""], ["x", "y"]), "0-0 1-1"),  # a translation without END
        (aligned([""], [""]), ""),
    ],
)
def test_each_target_word_is_linked_with_the_source_word_of_its_largest_weight(pair, expected):
    assert to_pharaoh(links(pair)) == expected


def test_gold_links_are_sure_or_possible_and_the_sure_are_possible_too():
    sure = frozenset({(0, 0), (3, 1)})
    assert from_pharaoh("0-0 1p2 3-1\n") == GoldLinks(sure, sure | {(1, 2)})
    assert from_pharaoh("") == GoldLinks(frozenset(), frozenset())


@pytest.mark.parametrize("line", ["0:0", "a-b", "0-", "1-2-3"])
def test_a_malformed_link_is_named_with_its_line(line):
    with pytest.raises(ValueError, match=rf"gold\.txt:7: .*{line}"):
        from_pharaoh(line, "gold.txt:7")
