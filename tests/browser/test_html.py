"""The translator in an HTML file, opened from disk in Chromium: equal to Python's, offline, and honest about limits."""

import json
import re
from dataclasses import asdict, replace

import pytest
import tensorflow as tf
from playwright.sync_api import expect
from servers import ROOT
from tiny import TINY_MODEL, TINY_RECIPE, save_variables

from nmt_keras import cli
from nmt_keras.browser import write_html, writing
from nmt_keras.browser.bundling import bundle
from nmt_keras.browser.support import require_supported, unsupported
from nmt_keras.config import TokenizerConfig
from nmt_keras.export import export, read_manifest
from nmt_keras.export.rebuilding import Parts
from nmt_keras.manifest import MANIFEST
from nmt_keras.recipes import RECIPES

WEB = ROOT / "serve" / "web"
COMPUTED = ("conditional-gru", "small-corpus", "rnnsearch-small", "sample")
"""Recipes whose models the documentation promises. The tokenizers of ``sample`` are word tokenizers."""


@pytest.fixture
def opened(chromium):
    """A function that opens a file. Errors and requests, also those that the page's policy stops, fail the test."""
    faults, requests = [], []
    page = chromium.new_page(viewport={"width": 360, "height": 800})
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)

    def open_file(path):
        page.goto(path.as_uri())
        expect(page.locator("#check")).not_to_be_empty(timeout=30_000)
        return page

    yield open_file
    page.close()
    assert [url.partition(":")[0] for url in requests] == ["file", "blob"]
    assert faults == []


@pytest.mark.browser
@pytest.mark.parametrize(("name", "float16"), [("small-corpus", False), ("sample", False), ("conditional-gru", True)])
def test_the_page_of_a_recipe_translates_as_python_does_and_fetches_nothing(written, opened, name, float16):
    page = opened(written(name, float16))
    expect(page.locator("#check")).to_contain_text("8 of 8")
    page.locator("#sentence").fill("Mi casa es roja.")
    expect(page.locator("#target .word").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.browser
def test_the_page_shows_licence_limits_and_languages(written, opened):
    page = opened(written("sample"))
    expect(page).to_have_title("Translate Spanish to English")
    page.get_by_text("About this translator").click()
    for text in ("Tatoeba <CC BY>", "59.0 (beam 5, before rounding to int8)", "Apache License"):
        expect(page.locator("#about")).to_contain_text(text)
    page.get_by_text("Limits").click()
    expect(page.get_by_text("Dates are <b>garbled</b>.")).to_be_visible()


@pytest.mark.browser
def test_a_text_in_the_language_of_the_translations_is_told(written, opened):
    page = opened(written("sample"))
    sentence = page.locator("#sentence")
    notice = page.get_by_text("The text seems to be English. The model translates from Spanish.")
    for text, is_told in (
        ("The big house is red.", True),
        ("THE BIG HOUSE IS RED.", True),
        ("Mi casa es roja.", False),
        ("no", False),
        ("Mi casa es The Big House.", False),
        ("New York Times", False),
    ):
        sentence.fill("")  # hides the result of the last text
        sentence.fill(text)
        expect(page.locator("#result")).to_be_visible()
        expect(notice, text).to_be_visible(visible=is_told)


DAMAGED = ('class="weights">H4s', 'class="weights">AAA', "This browser cannot run the translator", "^$")
DIFFERENT = ('"score": -', '"score": -1', "of 8 example translations differ", "^tiny")  # for example -10.5 for -0.5


@pytest.mark.browser
@pytest.mark.parametrize(
    ("fragment", "old", "new", "told", "model"),
    [("", *DAMAGED), ("#inside", *DAMAGED), ("#view=inside&text=Hola.", *DAMAGED), ("", *DIFFERENT)],
    ids=["damaged", "damaged inside", "damaged inside with a text", "different"],
)
def test_a_damaged_file_or_a_browser_that_computes_something_else_is_reported(
    written, chromium, tmp_path, fragment, old, new, told, model
):
    path = tmp_path / "x.html"
    path.write_text(written("sample").read_text("utf-8").replace(old, new))
    page = chromium.new_page()
    page.goto(path.as_uri() + fragment)
    expect(page.get_by_role("alert").filter(has_text=told)).to_be_visible()
    expect(page.locator("#model")).to_have_text(re.compile(model))
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)


@pytest.mark.long
def test_an_exported_version_gives_the_file_of_its_translator_and_an_older_one_a_line(
    translator_of, facts, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(tf.saved_model, "save", save_variables)
    monkeypatch.setattr(writing, "_checks", lambda _: ())  # no search is traced
    translator, model = translator_of("sample")
    recipe = replace(RECIPES["sample"], model=model, search=translator.search)
    version = export(translator, tmp_path / "tiny", {**facts, "recipe": asdict(recipe)})
    manifest, page = read_manifest(version), tmp_path / "page.html"
    cli.main(["export", str(version.parent), "--to", str(page)])
    assert capsys.readouterr().out == f"{page}\n"
    other, known = tmp_path / "other.html", manifest | {"version": "1"}
    write_html(other, "tiny", Parts.of(translator, model), known, translator.search, WEB)
    assert page.read_bytes() == other.read_bytes()
    page.unlink()
    (version / MANIFEST).write_text(json.dumps(manifest | {"format": 2}))
    with pytest.raises(SystemExit):
        cli.main(["export", str(version), "--to", str(page)])
    told = capsys.readouterr().err
    assert re.fullmatch(r"nmt: .*manifest\.json: expected format 3, .* received 2\. .* nmt export RUN\.\n", told)
    assert not page.exists()


def test_the_recipes_that_a_page_computes_are_those_of_the_documentation():
    missing = {name: unsupported(r.model, r.search, r.source, r.target) for name, r in RECIPES.items()}
    assert [missing[name] for name in COMPUTED] == [[], [], [], ["--source.kind word", "--target.kind word"]]
    assert "--model.encoder.kind self-attention" in missing["self-attention"]
    small, own = RECIPES["small-corpus"], TokenizerConfig(sentencepiece_model="own.model")
    assert unsupported(small.model, small.search, small.source, own) == ["--target.sentencepiece-model"]


def test_each_part_that_a_page_lacks_is_named_before_the_file_is_written(translator, tmp_path):
    model = replace(TINY_MODEL, decoder=replace(TINY_MODEL.decoder, cell="lstm"))
    search = replace(TINY_RECIPE.search, repetition_penalty=1.2, precision="bfloat16")
    parts = Parts(model, translator.source_tokenizer, translator.target_tokenizer, {})
    options = ("model.decoder.cell lstm", "search.repetition-penalty 1.2", "search.precision bfloat16")
    expected = ", ".join(f"--{option}" for option in (*options, "source.kind word", "target.kind word"))
    with pytest.raises(ValueError, match=f"--to: .* cannot have {expected}"):
        write_html(tmp_path / "x.html", "tiny", parts, {}, search, WEB)
    model, character = RECIPES["small-corpus"].model, TokenizerConfig("character")
    with pytest.raises(ValueError, match=r"repetition-penalty 1.2, .*bfloat16\. Remove the options, or pass their def"):
        require_supported(model, search, character, character)
    assert list(tmp_path.iterdir()) == []


def test_a_weight_too_large_for_float16_is_named(translator_of, tmp_path):
    translator, model = translator_of("sample")
    parts = Parts.of(translator, model)
    parts.weights["encoder/embedding/embeddings"][0, 0] = 7e4
    with pytest.raises(ValueError, match=r"--float16: .*encoder/embedding/embeddings"):
        write_html(tmp_path / "x.html", "tiny", parts, {}, translator.search, WEB, float16=True)


@pytest.mark.parametrize("statement", ["export default 3;", "export { a };", 'import a from "./a.js";', "await a();"])
def test_a_module_against_the_convention_is_named(statement):
    with pytest.raises(ValueError, match=r"main\.js: expected imports"):
        bundle({"main.js": statement, "a.js": ""}.__getitem__, "main.js", {})
