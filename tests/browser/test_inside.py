"""The view "Look inside" in Chromium: its numbers, its controls, and its accessibility."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import reference
import tensorflow as tf
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect
from tiny import randomise, shrunk

from nmt_keras.browser.weights import by_outputs, to_safetensors
from nmt_keras.config import ModelConfig, SearchConfig
from nmt_keras.export.assets import named_variables
from nmt_keras.models.seq2seq import Seq2Seq, build_model

pytestmark = pytest.mark.browser

SENTENCE = "Mi casa es roja."
TRACE = """
async ([config, search, weights, ids, options]) => {
  const [{ Model }, { readWeights }, { inspect }] = await Promise.all(
    ["model", "weights", "inspect"].map((name) => import(`/${name}.js`)),
  );
  const model = new Model(config, readWeights(Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0)).buffer));
  const decode = (ids) => ({ text: ids.join(" "), surfaces: ids.map(String) });
  const found = inspect(model, search, { ids, surfaces: ids.map(String), truncated: false }, decode, options);
  const plain = (key, value) => (value instanceof Float32Array ? [...value].map(String) : value);
  return JSON.stringify(found, plain);
}
"""


@pytest.fixture(scope="module")
def traced(engine) -> Callable[..., dict[str, Any]]:
    """A function that traces a translation with the engine's modules."""

    def trace(model: Seq2Seq, config: ModelConfig, source: list[int], **options: list[int]) -> dict[str, Any]:
        weights = by_outputs({name: variable.numpy() for name, variable in named_variables(model)})
        content = base64.b64encode(to_safetensors(weights)).decode()
        found = engine.evaluate(TRACE, [asdict(config), asdict(SearchConfig(max_tokens=7)), content, source, options])
        return json.loads(found)

    return trace


def numbers(values: list[str]) -> np.ndarray:
    return np.array(values, float)


@pytest.mark.parametrize("name", ["conditional-gru", "small-corpus", "rnnsearch-small", "rnnsearch-base"])
def test_each_symbol_has_the_value_of_the_paper_s_equations(traced, monkeypatch, name):
    """rnnsearch-base has the cell whose update gate keeps the state."""
    config = shrunk(name)
    model = build_model(config, 19, 23)
    randomise(model, 5)
    ids, forced = [7, 11, 5, 3], [13, 17]
    found = traced(model, config, ids, ids=forced)
    gates: list[np.ndarray] = []
    sigma = reference.sigma
    monkeypatch.setattr(reference, "sigma", lambda x: (gates.append(sigma(x)), gates[-1])[1])
    p = reference.weights_of(model)
    encoded = reference.encode(p.encoder, ids)
    state, last = reference.begin(p.decoder, encoded), reference.START
    score = model.decoder.attention.score
    keys = score.keys(tf.constant([encoded.h], tf.float32))
    assert [step["id"] for step in found["steps"][:2]] == forced
    for step in found["steps"]:
        values, cells = step["values"], step["values"]["cells"]
        query = numbers(cells[0]["next" if config.decoder.order == "conditional" else "previous"])
        gates.clear()
        logits, alpha, state = reference.next_logits(p.decoder, last, 0, state, encoded)
        expected = {
            "embedded": p.decoder.embedding[last],
            "scores": score.scores(tf.constant([[query]], tf.float32), keys)[0, 0],
            "alignment": alpha,
            "context": reference.attend(alpha, encoded.h),
        }
        for symbol, value in expected.items():
            np.testing.assert_allclose(numbers(values[symbol]), value, atol=1e-5, err_msg=symbol)
        recorded = [numbers(cell[gate]) for cell in cells for gate in ("update", "reset")]
        np.testing.assert_allclose(recorded, gates, atol=1e-5)
        np.testing.assert_allclose(numbers(cells[-1]["next"]), state[-1], atol=1e-5)
        for cell in cells:
            previous, z, proposal = (numbers(cell[part]) for part in ("previous", "update", "proposal"))
            taken = 1 - z if config.decoder.cell == "gru-reset-after" else z
            np.testing.assert_allclose(numbers(cell["next"]), previous + taken * (proposal - previous), atol=1e-5)
        log_probs = np.log(reference.softmax(logits))
        assert [each["logProb"] for each in step["next"]] == pytest.approx(
            sorted(np.delete(log_probs, [reference.PAD, reference.START]), reverse=True)[:10], abs=1e-5
        )
        assert step["logProb"] == pytest.approx(log_probs[step["id"]], abs=1e-5)
        last = step["id"]


def test_hidden_words_get_no_attention_and_the_others_share_it(traced):
    config = shrunk("rnnsearch-small")
    model = build_model(config, 19, 23)
    randomise(model, 5)
    before, after = (
        numbers(traced(model, config, [7, 11, 5, 3], hidden=hidden)["steps"][0]["values"]["alignment"])
        for hidden in ([], [1, 3])
    )
    visible = before * [1, 0, 1, 0]
    np.testing.assert_allclose(after, visible / visible.sum(), atol=1e-6)


def test_the_memory_of_a_matrix_does_not_add_up_over_longer_and_longer_sentences(engine):
    script = """async () => {
      const [{ Matrix }, { memory }] = await Promise.all([import("/matrix.js"), import("/simd.js")]);
      const [matrix, before] = [new Matrix(new Float32Array(256 * 256), [256, 256]), memory.buffer.byteLength];
      for (let count = 1; count <= 320; count++) matrix.times(new Float32Array(count * 256));
      return memory.buffer.byteLength - before;
    }"""
    assert engine.evaluate(script) < 4e6  # the last one needs 0.7 MB


# The view


class Inside:
    """The view of a tiny translator, opened from disk."""

    def __init__(self, page: Page) -> None:
        self.page, self.panel = page, page.get_by_role("tabpanel", name="Look inside")
        self.words = page.get_by_role("listbox", name="Translation").get_by_role("option")
        self.source = page.get_by_role("group", name="Source", exact=True).get_by_role("button")
        self.next_words = page.locator(".next button")

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True)

    def texts(self) -> list[str]:
        return self.words.all_inner_texts()

    def expect_step(self, number: int) -> None:
        """Waits until a step, counted from 1, is selected, drawn and reported to screen readers."""
        expect(self.words.nth(number - 1)).to_have_attribute("aria-selected", "true")
        expect(self.panel.get_by_role("status")).to_contain_text(f"Step {number} of")
        expect(self.panel.locator(".steps")).to_contain_text(f"Step i = {number} of")


@pytest.fixture
def inside(chromium, written) -> Iterator[Inside]:
    """The view of a sentence. Errors of the page, and violations of its security policy, fail the test."""
    page = chromium.new_page(viewport={"width": 1024, "height": 900}, reduced_motion="reduce")
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.goto(f"{written('conditional-gru').as_uri()}#inside")
    page.locator("#sentence").fill(SENTENCE)
    view = Inside(page)
    view.expect_step(1)
    yield view
    page.close()
    assert faults == []


def test_tabs_show_the_same_sentence_translated_and_from_inside(inside):
    page = inside.page
    expect(page.locator("#result")).to_be_hidden()
    inside_tab = page.get_by_role("tab", name="Look inside")
    inside_tab.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Translate")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Translate")).to_be_visible()
    expect(page).to_have_url(re.compile(r"#text=Mi\+casa\+es\+roja\.$"))
    expect(inside.panel).to_be_hidden()
    inside_tab.click()
    expect(page).to_have_url(re.compile("text=.*view=inside$"))
    page.reload()
    inside.expect_step(1)
    expect(page.locator("#sentence")).to_have_value(SENTENCE)


def test_steps_are_reached_by_buttons_by_the_mouse_and_by_keys(inside):
    inside.button("Next").click()
    inside.expect_step(2)
    expect(inside.button("Next")).to_be_focused()
    inside.words.nth(4).click()
    inside.expect_step(5)
    for key, step in {"ArrowLeft": 4, "ArrowRight": 5, "End": len(inside.texts()), "Home": 1}.items():
        inside.page.keyboard.press(key)
        inside.expect_step(step)
        expect(inside.words.nth(step - 1)).to_be_focused()
    expect(inside.button("Previous")).to_be_disabled()
    inside.words.nth(len(inside.texts()) - 2).click()
    inside.button("Next").click()
    expect(inside.button("Next")).to_be_disabled()
    expect(inside.button("Next")).to_be_focused()


def test_another_next_word_changes_the_translation_from_there(inside):
    original = inside.texts()
    inside.words.nth(2).click()
    other = inside.next_words.nth(3)
    name = other.inner_text()
    other.click()
    expect(inside.words.nth(2)).to_have_text(name)
    expect(other).to_have_attribute("aria-pressed", "true")
    expect(other).to_be_focused()
    inside.expect_step(3)
    changed = inside.texts()
    assert changed[:2] == original[:2]
    assert changed != original
    expect(inside.words.nth(2)).to_have_class(re.compile("changed"))
    expect(inside.words.nth(1)).not_to_have_class(re.compile("changed"))
    inside.button("Back to the model’s choice").click()
    expect(inside.words).to_have_text(original)
    expect(inside.words.nth(2)).to_be_focused()
    expect(inside.panel.locator(".changed")).to_have_count(0)


def test_source_words_except_for_the_last_can_be_switched_off_and_are_marked_in_the_table(inside):
    word = inside.source.nth(1)
    word.click()
    expect(word).to_have_attribute("aria-pressed", "false")
    row = inside.panel.get_by_role("row").filter(has_text="off")
    expect(row.first).to_contain_text("0.0 %")
    expect(inside.panel.locator(".head")).to_contain_text("The encoder still reads such words")
    word.press("Space")
    expect(word).to_have_attribute("aria-pressed", "true")
    expect(row).to_have_count(0)
    *others, last = inside.source.all()
    for other in others:
        other.click()
        expect(other).to_have_attribute("aria-pressed", "false")
    expect(last).to_be_disabled()


def test_numbers_of_a_unit_are_shown_to_the_mouse_and_to_the_keyboard(inside):
    units = inside.page.get_by_role("slider", name="Units of s′i", exact=True)
    readout = inside.panel.locator(".strips", has=units).locator(".readout")
    expect(readout).to_contain_text("on average")
    units.hover()
    expect(readout).to_contain_text("Unit 6:")  # the middle one of eleven
    inside.page.mouse.move(0, 0)
    units.focus()
    units.press("Home")
    units.press("ArrowRight")
    expect(readout).to_contain_text("Unit 2:")
    kept, old, taken, proposal, state = map(float, re.findall(r"-?\d\.\d\d", readout.inner_text().replace("−", "-")))
    assert kept + taken == pytest.approx(1, abs=0.011)
    assert state == pytest.approx(kept * old + taken * proposal, abs=0.02)


def test_the_table_and_the_next_words_show_shares_of_100_percent(inside):
    for locator in (".picture td:last-child", ".next .number"):
        shares = [float(text.replace("%", "")) for text in inside.panel.locator(locator).all_inner_texts()]
        assert sum(shares) == pytest.approx(100, abs=1.5)


def test_another_sentence_is_shown_without_the_former_choices(inside):
    inside.source.nth(0).click()
    expect(inside.source.nth(0)).to_have_attribute("aria-pressed", "false")
    inside.page.locator("#sentence").fill("Mi perro duerme.")
    expect(inside.source.nth(1)).to_have_text("perro")
    expect(inside.source.nth(0)).to_have_attribute("aria-pressed", "true")
    inside.expect_step(1)
    for text in ("Mi perro duerme. Mi casa es roja.", "Mi perro duerme.", "Mi perro duerme.\nmi casa es roja"):
        inside.page.locator("#sentence").fill(text)
        note = inside.panel.get_by_text("The first of 2 sentences is shown.")
        expect(note).to_have_count(text.count("casa"))
    expect(inside.source.nth(2)).to_have_text("duerme.")
    inside.page.locator("#sentence").fill("# Perro ❤️")
    expect(inside.source.first).to_have_text("Perro")
    inside.page.locator("#sentence").fill("")
    expect(inside.words.first).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_view_is_accessible_and_fits_a_telephone(inside, scheme):
    inside.page.emulate_media(color_scheme=scheme)
    inside.source.nth(1).click()
    expect(inside.source.nth(1)).to_have_attribute("aria-pressed", "false")
    inside.page.set_viewport_size({"width": 360, "height": 740})
    assert inside.page.evaluate("document.documentElement.scrollWidth") == 360
    report = Axe().run(inside.page)
    assert report.violations_count == 0, report.generate_report()
