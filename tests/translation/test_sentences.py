"""Sentences of texts: the graph splits as the client and the command line do, without losing a character."""

import random
import tomllib
from pathlib import Path

import tensorflow as tf

from nmt_keras.io import sentences
from nmt_keras.io.sentences import Piece, split
from nmt_keras.translation.whole_texts import split_sentences

TEXTS = [
    "",
    " \n\t ",
    "Hola.\n\nEstoy en casa. Tengo hambre.\nAdiós.",
    "  El Sr. Pérez vive en EE. UU. Paga 3.5 €. «¿Sí?» J.R.R. Tolkien.\r\n",
    "Éste no. Ñandúes. ǅ. Ωμέγα. ΩΣ; Я. я. ა. ბ",
    "我来了。你呢？好！ 走…\u200b 行く！？「行く。」と言った。終わり",
    "वह आया। वह गया। وہ آیا۔ وہ گیا؟\u200f \u200fد. أحمد 3.5",
    "\x01\x02\x03a. \x04B",
]


def expect_alike(texts):
    found = split_sentences(tf.constant([text.encode() for text in texts])).to_list()
    for text, parts in zip(texts, found, strict=True):
        parts = [*(part.decode() for part in parts), ""]
        assert [Piece(*pair) for pair in zip(parts[::2], parts[1::2], strict=True) if any(pair)] == split(text)


def test_the_graph_splits_texts_like_the_client():
    expect_alike(TEXTS)


def test_the_graph_splits_strings_of_random_characters_like_the_client():
    choose = random.Random(7).choices
    alphabet = [*' \n\r\t.!?…ASrd¿1")—।。！」語ñÑ%,-ა😀\v\x1c\x85\xa0\u2028\u200b\u3000', "Sr.", ". ", "。", "\n\n"]
    alphabet += ["\n- ", "# ", "[ ] "]
    expect_alike(["".join(choose(alphabet, k=20)) for _ in range(5000)])


def test_the_graph_knows_the_abbreviations_and_ordinals_of_the_client():
    table = tomllib.loads(Path(sentences.__file__).with_suffix(".toml").read_text("utf-8"))
    entries = [each.replace("_", " ") for rows in table.values() for row in rows.values() for each in row.split()]
    expect_alike([f"Uno {case}. Dos {case}. 5 kg, 3. {case}." for entry in entries for case in (entry, entry.upper())])
