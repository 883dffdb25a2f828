"""Whole texts: sentences are translated one by one, and line breaks are kept."""

import numpy as np
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
    return [
        (text.decode(), bool(cut), int(n))
        for text, cut, n in zip(*(each.numpy() for each in found.values()), strict=True)
    ]


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


def test_each_sentence_of_a_text_has_its_places_tokens_and_score(translator):
    texts = [*TEXTS, "No. ¿Dónde está 😀 mi hermana?\n" * 40]
    found = translator.decode_sentences(tf.constant(texts))
    whole = translator.decode_texts(tf.constant(texts))
    for name in ("translation", "truncated", "sentences"):
        assert (found[name].numpy() == whole[name].numpy()).all()
    values = {name: output.numpy() for name, output in found.items()}
    for row, text in enumerate(texts):
        pieces = [piece.sentence for piece in split(text) if piece.sentence][:MAX_SENTENCES]
        alone = translator.translate(pieces)
        assert values["sentences"][row] == len(pieces)
        for at, (piece, one) in enumerate(zip(pieces, alone, strict=True)):
            spans = [
                slice(values[f"{side}_begins"][row, at], values[f"{side}_ends"][row, at])
                for side in ("source", "target")
            ]
            assert text[spans[0]] == piece
            assert values["translation"][row].decode()[spans[1]] == one.text
            S, T = (values[f"{side}_lengths"][row, at] for side in ("source", "target"))
            assert [token.decode() for token in values["source_tokens"][row, at, :S]] == one.source_tokens
            assert [token.decode() for token in values["target_tokens"][row, at, :T]] == one.tokens
            assert values["scores"][row, at] == pytest.approx(one.score, abs=1e-4)
            np.testing.assert_allclose(values["alignment"][row, at, :T, :S], one.alignment, atol=1e-5)
    assert translator.decode_sentences(tf.constant([], tf.string))["alignment"].shape[0] == 0
