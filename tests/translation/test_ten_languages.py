"""Sentences of ten languages: all ways to translate agree, whatever characters decorate a sentence."""

import functools
import sys

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
from nmt_keras.text import fit_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator

pytestmark = [pytest.mark.long, pytest.mark.slow]


ALL = [source for pairs in PAIRS.values() for source, _ in pairs]
ENGLISH = [target for pairs in PAIRS.values() for _, target in pairs]


@pytest.fixture
def translator():
    """A translator of random weights between all languages."""
    config = TokenizerConfig("subword", 1200)
    sides = [fit_tokenizer(config, ALL + ENGLISH, placeholders=True) for _ in range(2)]
    model = build_model(TINY_MODEL, *(side.vocabulary_size for side in sides))
    randomise(model, 7)
    return ModelTranslator(*sides, model, search=SearchConfig(max_tokens=8))


def test_all_ways_to_translate_agree(translator, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nmt_keras, "load", functools.cache(nmt_keras.load))
    version = str(export(translator, tmp_path / "models" / "ten"))
    sentences = [*ALL, *map(decorated, ALL)]
    (tmp_path / "in").write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    expected = [one_line(found.text) for found in translator.translate(ALL, batch_size=len(ALL))] * 2
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
