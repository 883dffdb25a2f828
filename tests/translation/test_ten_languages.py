"""Sentences of ten languages: tokenizers, translations, heatmaps and splits; and all ways to translate agree."""

import functools
import sys

import numpy as np
import pytest
from nmt_keras_serve.client import Client
from servers import running_server
from ten_languages import PAIRS, decorated
from tiny import TINY_MODEL, randomise

import nmt_keras
from nmt_keras import cli
from nmt_keras.config import SearchConfig, TokenizerConfig
from nmt_keras.export import export
from nmt_keras.io.lines import one_line
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import Codec, fit_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator

pytestmark = pytest.mark.long


KINDS = ("word", "subword", "character")
SENTENCES = {language: [source for source, _ in pairs] for language, pairs in PAIRS.items()}
ALL = [sentence for sentences in SENTENCES.values() for sentence in sentences]
ENGLISH = [target for pairs in PAIRS.values() for _, target in pairs]


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


def test_neither_decoration_nor_batch_mates_change_a_translation(translator, together):
    alone = [translator.translate([sentences[-1]])[0] for sentences in SENTENCES.values()]
    found = translator.translate([*map(decorated, ALL)], batch_size=20) + alone
    for one, sentence in zip(found, ALL + [sentences[-1] for sentences in SENTENCES.values()], strict=True):
        wanted = together[sentence]
        assert (one.text, one.tokens, one.source_tokens) == (wanted.text, wanted.tokens, wanted.source_tokens)
        np.testing.assert_allclose(one.alignment, wanted.alignment, atol=1e-5)


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
        texts = [one_line(found.text) for found in client.translate_texts(sentences)]
    assert texts == printed()
