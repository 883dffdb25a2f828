"""Sentences of ten languages: tokenizers, translations, heatmaps and splits; and all ways to translate agree."""

import functools
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from nmt_keras_serve.client import Client
from nmt_keras_serve.lines import one_line
from servers import running_server
from ten_languages import PAIRS, decorated
from tiny import TINY_MODEL, randomise

import nmt_keras
from nmt_keras import cli
from nmt_keras.config import SearchConfig, TokenizerConfig
from nmt_keras.corpus import Pair, sentence_key, split_pairs
from nmt_keras.corpus.alignments import words_of_tokens
from nmt_keras.export import export
from nmt_keras.languages import has_spaces
from nmt_keras.models.seq2seq import build_model
from nmt_keras.plotting import alignment_heatmap
from nmt_keras.text import Codec, fit_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.translation.word_alignment import align_words
from nmt_keras_serve import bulk

KINDS = ("word", "subword", "character")
SENTENCES = {language: [source for source, _ in pairs] for language, pairs in PAIRS.items()}
ALL = [sentence for sentences in SENTENCES.values() for sentence in sentences]
LANGUAGE = {sentence: language for language, sentences in SENTENCES.items() for sentence in sentences}
ENGLISH = [target for pairs in PAIRS.values() for _, target in pairs]


def strings(tensor):
    return [cell.decode() for cell in tensor.numpy().tolist()]


def composed(sentence):
    return unicodedata.normalize("NFC", sentence)


@pytest.fixture(scope="module", params=KINDS)
def codec(request):
    """Tokenizers of a kind for all languages on both sides."""
    config = TokenizerConfig(request.param, 1200)
    return Codec(*(fit_tokenizer(config, ALL + ENGLISH, placeholders=True) for _ in range(2)))


@pytest.fixture(scope="module")
def translator(codec):
    """A translator of random weights between all languages."""
    sides = codec.source_tokenizer, codec.target_tokenizer
    model = build_model(TINY_MODEL, *(side.vocabulary_size for side in sides))
    randomise(model, 7)
    return ModelTranslator(*sides, model, search=SearchConfig(max_tokens=8))


@pytest.fixture(scope="module")
def together(translator):
    """Translations of all sentences, translated in large batches, by sentence."""
    return dict(zip(ALL, translator.translate(ALL, batch_size=len(ALL)), strict=True))


@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES)
def test_decoding_an_encoded_sentence_gives_the_sentence_normalised(codec, sentences):
    tokens = codec.source_tokenizer.encode(tf.constant([*sentences, *map(decorated, sentences)]))
    assert strings(codec.target_tokenizer.decode(tokens.ids)) == [*map(composed, sentences)] * 2


@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES)
def test_surfaces_are_the_sentence_as_written_also_in_capitals(codec, sentences):
    written = [composed(case) for sentence in sentences for case in (sentence, sentence.upper())]
    tokens = codec.encode_source(tf.constant(written)).tokens
    for sentence, row in zip(written, tokens.surface, strict=True):
        surfaces = strings(row)
        assert "".join(surfaces).replace("▁", "").replace(" ", "") == sentence.replace(" ", "")
        assert set(words_of_tokens(sentence, surfaces)) - {-1} == {*range(len(sentence.split()))}


def test_neither_decoration_nor_batch_mates_change_a_translation(translator, together):
    alone = [translator.translate([sentences[-1]])[0] for sentences in SENTENCES.values()]
    found = translator.translate([*map(decorated, ALL)], batch_size=20) + alone
    for one, sentence in zip(found, ALL + [sentences[-1] for sentences in SENTENCES.values()], strict=True):
        wanted = together[sentence]
        assert (one.text, one.tokens, one.source_tokens) == (wanted.text, wanted.tokens, wanted.source_tokens)
        np.testing.assert_allclose(one.alignment, wanted.alignment, atol=1e-5)


@pytest.mark.parametrize("codec", ["character"], indirect=True)
@pytest.mark.filterwarnings("ignore:Neither .* has:UserWarning", "ignore:matplotlib .* from right:UserWarning")
@pytest.mark.parametrize("sentences", SENTENCES.values(), ids=SENTENCES)
def test_a_heatmap_has_a_label_for_each_row_and_column(together, sentences):
    found = together[sentences[1]]
    words = align_words(found.source_tokens, found.tokens, found.alignment)
    assert "".join(words.source).replace(" ", "") == composed(sentences[1]).replace(" ", "")
    for source, target, weights in ((found.source_tokens, found.tokens, found.alignment), words):
        axes = alignment_heatmap(weights, source, target).axes[0]
        labels = [[label.get_text() for label in side] for side in (axes.get_yticklabels(), axes.get_xticklabels())]
        assert tuple(map(len, labels)) == weights.shape == (len(target), len(source))
        assert all(label.strip() for side in labels for label in side)
    if not has_spaces(LANGUAGE[sentences[1]]):
        assert len(words.source) > len(sentences[1].split()) + 1  # a column for each piece


@pytest.mark.parametrize("language", PAIRS)
def test_sentences_that_differ_in_decoration_or_case_are_in_one_set(language):
    pairs = [
        Pair(f"{source} {number}", f"{target} {number}") for source, target in PAIRS[language] for number in range(40)
    ]
    others = [
        Pair(change(source), f"{target} {number}")
        for number, change in enumerate((decorated, str.upper, str.lower, str.title, str.swapcase), start=100)
        for source, target in pairs
    ]
    parts = split_pairs([*pairs, *others], key_side="source")
    sets = [{sentence_key(pair.source) for pair in part} for part in parts.values()]
    assert all(sets)
    assert sum(map(len, sets)) == len(pairs)


@pytest.mark.long
@pytest.mark.parametrize("codec", ["subword"], indirect=True)
def test_all_ways_to_translate_agree(translator, together, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nmt_keras, "load", functools.cache(nmt_keras.load))
    version = str(export(translator, tmp_path / "models" / "ten"))
    sentences = [*ALL, *map(decorated, ALL)]
    (tmp_path / "in").write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    expected = [one_line(together[sentence].text) for sentence in ALL] * 2
    assert len({*expected}) > len(ALL) / 2

    def printed(*options):
        with (tmp_path / "in").open(encoding="utf-8") as file:
            monkeypatch.setattr(sys, "stdin", file)
            cli.main(["translate", version, *options])
        return capsys.readouterr().out.split("\n")[:-1]

    assert printed("--no-split") == expected
    assert [one_line(found.text) for found in nmt_keras.load(version).translate(sentences)] == expected
    with running_server(tmp_path / "models") as url, Client(url, "ten") as client:
        assert [one_line(text) for text in client.translate(sentences)] == expected
        bulk.main([str(tmp_path / "in"), str(tmp_path / "out"), "--url", url, "--model", "ten"])
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1] == printed()
