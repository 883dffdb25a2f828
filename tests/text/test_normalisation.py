"""Normalisation: what is dropped, replaced, cut and kept, and the order of the steps."""

import pytest
import tensorflow as tf

from nmt_keras.config import TokenizerConfig
from nmt_keras.text import WordTokenizer
from nmt_keras.text.normalisation import BYTES_PER_TOKEN, MAX_MARKS, normalise, normalise_lines

ACUTE = "\u0301"


def normalised(sentence, max_tokens=80):
    """Returns a sentence normalised, and whether bytes were cut."""
    found = normalise(tf.constant([sentence]), max_tokens)
    return found.text.numpy()[0].decode("utf-8"), bool(found.cut.numpy()[0])


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("Yo estoy feliz.", "Yo estoy feliz."),
        ("co\u00adope\u200brate\u2060 \ufeffnow", "cooperate now"),  # soft hyphen, zero-width space, joiner, mark
        ("\u200eabc\u200f \u202adef\u202c \u2067ghi\u2069", "abc def ghi"),  # directions
        ("a\x00b\x1bc\x7fd\x9fe", "abcde"),  # controls
        ("\u00a0a\u2003b\u202fc\u3000d\te\x0bf\x0cg\x85h\u2028i\u2029j\r\nk ", "a b c d e f g h i j k"),
        (
            "می\u200cخواهم \U0001f468\u200d\U0001f469 \u2764\ufe0f",
            "می\u200cخواهم \U0001f468\u200d\U0001f469 \u2764\ufe0f",
        ),
        ("ca\u034fs\u200cá\u200d. a\u0301\u200d\ufe0f b.\U000e007f", "casá. á b."),  # joiners without a meaning
        ("\u034f\u200c\u00a0\u034f\u200c\u00a0Hola\u3164", "Hola"),  # as at the beginning of e-mails
        ("1\ufe0f\u20e3 ന\u0d4d\u200d 葛\U000e0100", "1\ufe0f\u20e3 ന\u0d4d\u200d 葛\U000e0100"),
        ("Mari" + ACUTE + "a", "Mar\u00eda"),
        ("a\u00ad" + ACUTE, "\u00e1"),  # NFC comes after an invisible character is dropped
        (" \u200b\u00a0\ufeff ", ""),
        ("", ""),
    ],
)
def test_invisible_differences_disappear_and_the_rest_stays(sentence, wanted):
    assert normalised(sentence) == (wanted, False)


@pytest.mark.parametrize("between", ["", "\u00ad", "\u200b", "\u2060", "\ufeff", "\x00", "\u200e"])
def test_a_run_of_marks_is_cut_also_if_invisible_characters_divide_it(between):
    run = (between + "\u0338") * 2 * MAX_MARKS
    assert normalised("x" + run + "y")[0] == "x" + "\u0338" * MAX_MARKS + "y"
    assert normalised("x" + "\u0338" * MAX_MARKS + "y")[0] == "x" + "\u0338" * MAX_MARKS + "y"


def test_bytes_beyond_the_limit_are_cut_between_characters_and_reported():
    limit = BYTES_PER_TOKEN * 5
    assert normalised("x" * limit, 5) == ("x" * limit, False)
    assert normalised("x" * (limit + 1), 5) == ("x" * limit, True)
    assert normalised("x" + "é" * limit, 5) == ("x" + "é" * (limit // 2 - 1), True)


def test_lines_of_a_corpus_are_normalised_whole():
    lines = ["a\u00a0b" * 10_000, "", "Mari" + ACUTE + "a"]
    assert list(normalise_lines(lines)) == ["a b" * 10_000, "", "Mar\u00eda"]


def test_a_vocabulary_is_learnt_from_normalised_lines():
    assert WordTokenizer.fit(["ca\u00adsa casa"], TokenizerConfig("word", 10)).vocabulary_size == 5
