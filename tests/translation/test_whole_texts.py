"""Whole texts: sentences are translated one by one, and line breaks are kept."""

import pytest
import tensorflow as tf

from nmt_keras.io.sentences import MAX_SENTENCES, rejoin, split
from nmt_keras.translation.records import MAX_BYTES
from nmt_keras.translation.whole_texts import SENTENCES_AT_ONCE

pytestmark = pytest.mark.long


TEXTS = [
    "Hola.\n\nEstoy en casa. Tengo hambre.\nAdiós.",
    "  ¿Dónde está mi hermana? \r\n\r\n 😀 !\n",
    "",
    " \n ",
    "...",
    "我来了。你呢？",
    "El Sr. Pérez tiene 3.5 casas",
    "Uno.\n" + "palabra " * 1250 + ".\nDos.",
]


def decoded(translator, texts):
    found = translator.decode_texts(tf.constant([text.encode("utf-8", "surrogateescape") for text in texts], tf.string))
    return [(text.decode(), bool(cut), int(n)) for text, cut, n in zip(*(each.numpy() for each in found), strict=True)]


def sentence_by_sentence(translator, text):
    """Returns the text translated by the splitter of the client and a batch of sentences."""
    pieces = split(text)
    found = translator.translate([piece.sentence for piece in pieces if piece.sentence])
    return rejoin(pieces, [each.text for each in found]), any(each.truncated for each in found), len(found)


def test_a_text_is_translated_like_its_sentences_alone_or_among_others(translator):
    expected = [sentence_by_sentence(translator, text) for text in TEXTS]
    assert decoded(translator, TEXTS) == expected
    assert [one for text in TEXTS for one in decoded(translator, [text])] == expected
    assert [(text.count("\n"), cut) for text, cut, _ in expected] == [
        (text.count("\n"), len(text) > 999) for text in TEXTS
    ]
    assert [expected[row][0] for row in (2, 3, 4)] == ["", " \n ", "..."]


def test_more_sentences_than_are_translated_at_once_are_translated_alike(translator):
    texts = [f"No. ¿Dónde está {number}?\n" * 16 for number in range(SENTENCES_AT_ONCE // 16 + 1)]
    assert decoded(translator, texts) == [sentence_by_sentence(translator, text) for text in texts]
    assert decoded(translator, []) == []


@pytest.mark.parametrize("end", ["", "\n"])
def test_sentences_beyond_the_limit_are_cut_and_reported(translator, end):
    fits = "No. " * (MAX_SENTENCES - 1) + "Sí." + end
    (whole,) = decoded(translator, [fits])
    assert whole == sentence_by_sentence(translator, fits)
    assert decoded(translator, [fits + " ¿Qué? Ya."]) == [(whole[0].rstrip(), True, MAX_SENTENCES)]


def test_bytes_beyond_the_limit_are_cut_and_reported(translator):
    text = "!" * (MAX_BYTES - 1) + "ñ"
    assert decoded(translator, [text[:-1]])[0][1:] == (True, 1)  # one sentence beyond its own limit
    assert decoded(translator, [" " * MAX_BYTES, " " * MAX_BYTES + "\n", "\udcff"]) == [
        (" " * MAX_BYTES, False, 0),
        (" " * MAX_BYTES, True, 0),
        ("\ufffd", False, 1),
    ]
