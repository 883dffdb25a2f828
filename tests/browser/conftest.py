"""HTML files of translators with random weights, and a page that can import the modules of the engine."""

import functools

import pytest
from servers import ROOT
from tiny import randomise, shrunk

from nmt_keras.browser import write_html
from nmt_keras.config import SearchConfig, TokenizerConfig
from nmt_keras.export.rebuilding import Parts
from nmt_keras.models.seq2seq import build_model
from nmt_keras.text import fit_tokenizer
from nmt_keras.translation.model_translator import ModelTranslator

ENGINE = ROOT / "nmt_keras" / "browser" / "engine"


@pytest.fixture(scope="session")
def facts():
    """Facts about the models of the files."""
    return {
        "languages": {"source": "es", "target": "en"},
        "export": {"data_licence": "Tatoeba <CC BY>", "limitations": ["Dates are <b>garbled</b>."]},
        "scores": {"test": {"bleu": 59.0, "search": "beam 5"}},
    }


@pytest.fixture(scope="session")
def translator_of(pairs):
    """A function that returns a translator with the model of a recipe, and the configuration of the model."""
    config = TokenizerConfig("subword", 400, max_tokens=31)
    tokenizers = [fit_tokenizer(config, side, placeholders=True) for side in zip(*pairs, strict=True)]

    @functools.cache
    def make(recipe):
        model = build_model(shrunk(recipe), *(each.vocabulary_size for each in tokenizers))
        randomise(model, 11)
        search = SearchConfig(beam_size=3, length_normalisation="gnmt", max_tokens=17)
        return ModelTranslator(*tokenizers, model, search=search), shrunk(recipe)

    return make


@pytest.fixture(scope="session")
def written(translator_of, facts, tmp_path_factory):
    """A function that returns the file of a translator."""
    folder = tmp_path_factory.mktemp("files")

    def write(recipe, float16=False):
        translator, model = translator_of(recipe)
        path, web = folder / f"{recipe}-{float16}.html", ROOT / "serve" / "web"
        if not path.exists():
            write_html(path, "tiny", Parts.of(translator, model), facts, translator.search, web, float16=float16)
        return path

    return write


@pytest.fixture(scope="module")
def engine(chromium):
    """A page that can import the modules of the engine."""

    def answer(route):
        path = ENGINE / route.request.url.removeprefix("http://engine/")
        route.fulfill(path=path) if path.is_file() else route.fulfill(body="", content_type="text/html")

    page = chromium.new_page()
    page.route("**/*", answer)
    page.goto("http://engine/")
    yield page
    page.close()
