"""The lexicon: learning from alignments, and its file."""

import numpy as np
import pytest

from nmt_keras.translation.records import AlignedPair
from nmt_keras.translation.unknown_words import learn_lexicon, load_lexicon, save_lexicon


def aligned(source, target, best):
    """Returns a pair whose target words have their largest weights at the source positions ``best``."""
    source, target = source.split(" "), target.split(" ")
    return AlignedPair(source, target, 0.1 + 0.8 * np.eye(len(source))[best])


def test_a_word_is_translated_by_the_word_that_was_aligned_with_it_most_often():
    pairs = [
        aligned("la casa", "the house", [0, 1]),
        aligned("casa roja", "red house", [1, 0]),
        aligned("casa", "home", [0]),
        aligned("roja", "red", [0]),
    ]
    assert learn_lexicon(pairs) == {"casa": "house", "roja": "red"}
    assert learn_lexicon(pairs, min_count=1)["la"] == "the"


def test_a_word_without_a_usual_translation_has_none():
    pairs = [aligned("se", word, [0]) for word in ["a", "b", "c", "d"]]
    assert learn_lexicon(pairs, min_share=0.3) == {}
    assert learn_lexicon(pairs, min_share=0.25) == {"se": "a"}


def test_a_lexicon_is_loaded_as_it_was_saved(tmp_path):
    lexicon = {"niño": "child", "¿": "?", "casa": "house"}
    save_lexicon(lexicon, tmp_path / "lexicon.tsv")
    assert load_lexicon(tmp_path / "lexicon.tsv") == lexicon
    assert (tmp_path / "lexicon.tsv").read_text(encoding="utf-8").startswith("casa\thouse\n")


@pytest.mark.parametrize("line", ["casa", "\thouse", "casa\t", "a\tb\tc"])
def test_a_damaged_line_is_named(tmp_path, line):
    (tmp_path / "lexicon.tsv").write_text(f"la\tthe\n{line}\n")
    with pytest.raises(ValueError, match=r"lexicon\.tsv:2: "):
        load_lexicon(tmp_path / "lexicon.tsv")
