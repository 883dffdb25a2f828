"""The page in headless Chromium: keyboard, mouse and network errors. The served model reverses a sentence's words."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, LocatorAssertions, Page, Request, Route, expect
from servers import ROOT

from nmt_keras.corpus.alignments import SPACE
from nmt_keras.languages import is_apart

CASES = json.loads((ROOT / "tests" / "translation/word_alignments.json").read_text("utf-8"))

pytestmark = pytest.mark.browser

PREDICT = re.compile(r":predict$")
STATUS = re.compile(r"/v1/models/[^/]+$")
METADATA = re.compile(r"/metadata$")


def configured(*others: str, timeout_seconds: float = 20.0, **settings: str | None) -> dict[str, Any]:
    """Returns a config.json with the model ``spa-eng``, its settings, and other models."""
    return {
        "models": [{"name": "spa-eng", **settings}, *({"name": name} for name in others)],
        "timeout_seconds": timeout_seconds,
    }


class Opened(NamedTuple):
    """The page in a browser, and its requests for translations."""

    page: Page
    open: Callable[..., None]
    asked: list[dict[str, Any]]

    def sentence(self) -> Locator:
        """Returns the text box of the sentence. Opens the page if it is not open."""
        if self.page.url == "about:blank":
            self.open()
        return self.page.locator("#sentence")

    def type(self, text: str) -> None:
        """Types text at the end of the sentence, key by key."""
        self.sentence().press_sequentially(text)

    def ask(self, text: str) -> None:
        """Replaces the sentence and presses Enter to translate it at once."""
        self.sentence().fill(text)
        self.sentence().press("Enter")

    def translate(self, text: str, translation: str) -> None:
        """Asks for a translation and waits until the page shows it."""
        self.ask(text)
        self.expect("#target").to_have_text(translation)

    def answer(self, path: re.Pattern[str] | str, **answer: Any) -> None:
        """Answers requests for a path instead of the server."""
        self.page.route(path, lambda route: route.fulfill(**answer))

    def expect(self, selector: str) -> LocatorAssertions:
        return expect(self.page.locator(selector))

    def expect_problem(self, text: str) -> None:
        expect(self.page.get_by_role("alert")).to_contain_text(text)

    def retry(self) -> None:
        """Presses "Try again" and waits for a translation without a problem. The server must answer again."""
        self.page.get_by_role("button", name="Try again").click()
        self.expect("#target").to_have_text("dos uno")
        expect(self.page.get_by_role("alert")).to_be_empty()

    def word(self, side: str, text: str):
        return self.page.locator(f"#{side} .word", has_text=re.compile(f"^{re.escape(text)}$"))


@pytest.fixture(scope="module")
def loaded(chromium, served) -> Iterator[Page]:
    """The page, for imports of its modules. Tests must not change it."""
    page = chromium.new_page()
    page.goto(served)
    yield page
    page.close()


@pytest.fixture
def web(chromium, served) -> Iterator[Opened]:
    """The page. Script errors, violations of its security policy and requests to other servers fail the test."""
    context = chromium.new_context(viewport={"width": 1024, "height": 900}, has_touch=True)
    page = context.new_page()
    faults: list[str] = []
    asked: list[dict[str, Any]] = []

    def watch(request: Request) -> None:
        if not request.url.startswith(f"{served}/"):
            faults.append(f"asked {request.url}")
        if request.url.endswith(":predict"):
            asked.append(request.post_data_json)

    page.route("**/config.json", lambda route: route.fulfill(json=configured(search="align")))
    page.on("request", watch)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if "Security Policy" in said.text else None)
    yield Opened(page, lambda query="": page.goto(f"{served}/{query}"), asked)
    context.close()
    assert faults == []


def aligned(source: list[str], target: list[str], alignment: list[list[float]], text: str, **other: Any) -> dict:
    """Returns the answer of the signature ``align`` for one sentence."""
    outputs = {
        "translation": text,
        "score": -0.5,
        "log_prob": -1.5,
        "truncated": False,
        "source_tokens": source,
        "source_lengths": len(source),
        "target_tokens": target,
        "target_lengths": len(target),
        "alignment": alignment,
        **other,
    }
    return {"outputs": {name: [value] for name, value in outputs.items()}}


# Words and pieces


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_alignment_of_tokens_becomes_one_of_words(loaded, case):
    found = loaded.evaluate(
        "async (tokens) => (await import('/words.js')).alignWords(...tokens)",
        [case["source_tokens"], case["target_tokens"], case["alignment"]],
    )
    assert (found["source"], found["target"]) == (case["source_words"], case["target_words"])
    np.testing.assert_allclose(found["weights"], case["word_alignment"], rtol=1e-6)


def test_the_letters_of_scripts_without_spaces_are_those_of_python(loaded):
    signs = [sign for sign in map(chr, range(0x110000)) if unicodedata.name(sign, "") and sign != SPACE]
    found = loaded.evaluate(
        "async (signs) => { const { group } = await import('/words.js'); "
        "return signs.filter((sign) => group(['▁a', sign]).length > 1); }",
        signs,
    )
    assert found == [sign for sign in signs if is_apart("a", sign)]


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("Hi, Tom!", ["Hi", ",", "Tom", "!", ""], [["Hi", 0], [",", 1], [" ", None], ["Tom", 2], ["!", 3]]),
        ("no no", ["no", "no", ""], [["no", 0], [" ", None], ["no", 1]]),
        ("uno dos tres", ["uno", ""], [["uno", 0], [" dos tres", None]]),
        ("Hi Tom", ["hi", "tom", ""], [["hi", 0], [" ", None], ["tom", 1]]),  # the model's words are in lower case
        ("", [""], []),
    ],
)
def test_words_are_found_again_where_their_text_has_them(loaded, text, words, expected):
    found = loaded.evaluate("async (given) => (await import('/words.js')).segments(...given)", [text, words])
    assert [[segment["text"], segment["word"]] for segment in found] == expected


# Typing


def test_a_sentence_is_translated_once_its_typing_pauses_and_nothing_is_shown_once_it_is_erased(web):
    web.open()
    web.expect("#model").to_have_text("spa-eng · version 3")
    web.expect("#result").to_be_hidden()
    web.type("uno dos")
    web.expect("#target").to_have_text("dos uno")
    web.expect("#spoken").to_have_text("dos uno")
    web.expect("#spoken").to_have_attribute("role", "status")
    web.expect("#facts").to_have_text(re.compile(r"^\d+ ms · score −0\.67 · log-probability −2\.00$"))
    web.sentence().fill(" \n ")
    web.expect("#result").to_be_hidden()
    web.expect("#spoken").to_be_empty()
    assert web.asked == [{"signature_name": "align", "inputs": {"text": ["uno dos"]}}]


def test_typing_on_aborts_the_request_that_is_under_way(web):
    held: list[Route] = []
    web.open()
    web.page.route(PREDICT, lambda route: held.append(route) if not held else route.continue_())
    with web.page.expect_event("requestfailed", timeout=5000) as failed:
        with web.page.expect_request(PREDICT):
            web.type("uno")
        web.type(" dos")
    assert failed.value.failure == "net::ERR_ABORTED"
    web.expect("#target").to_have_text("dos uno")


def test_enter_translates_at_once_and_breaks_no_line(web):
    web.open()
    web.page.clock.install()  # time stands still, so no pause in typing ends
    web.page.clock.pause_at("2100-01-01")
    web.type("uno dos")
    web.page.keyboard.press("Enter")
    web.page.clock.run_for(1)
    web.expect("#target").to_have_text("dos uno")
    web.expect("#sentence").to_have_value("uno dos")


def test_the_model_gets_composed_characters_and_the_page_shows_single_spaces(web):
    web.ask(" un  cafe\N{COMBINING ACUTE ACCENT}\nsolo ")
    web.expect("#source").to_have_text("un café solo")
    assert web.asked[-1]["inputs"] == {"text": ["un  café\nsolo"]}


def test_several_sentences_are_translated_as_a_text_with_its_line_breaks(web):
    found = {"translation": ["uno.\n\ndos."], "truncated": [True], "sentences": [2]}
    signatures = {"align": aligned([], [], [], ""), "text": {"outputs": found}}
    web.answer(METADATA, json={"metadata": {"signature_def": {"signature_def": signatures}}})
    web.answer(PREDICT, json={"outputs": found})
    web.ask("Uno.\n\nDos.")
    web.expect("#whole").to_have_text("uno.\n\ndos.", use_inner_text=True)
    web.expect("#facts").to_have_text(re.compile(r"^\d+ ms · 2 sentences"))
    web.expect("#controls").to_have_attribute("disabled", "")
    web.expect("#truncated").to_be_visible()
    web.expect("#target").to_be_hidden()
    assert [request["inputs"]["text"] for request in web.asked] == [["Uno.\n\nDos."]]
    web.page.unroute(PREDICT)
    web.translate("uno dos.", "dos. uno")  # one sentence: only its attention is requested
    web.expect("#whole").to_be_hidden()
    web.expect("#controls").not_to_have_attribute("disabled", "")
    assert [request["signature_name"] for request in web.asked] == ["text", "align"]
    web.page.get_by_role("checkbox", name="Heatmap").check()
    web.answer(PREDICT, json={"outputs": found})
    web.ask("Uno.\n\nDos.")
    web.expect("#heatmap").to_have_attribute("hidden", "")  # an empty part would still take the focus


def test_a_mark_and_a_picture_beside_a_sentence_are_kept_but_the_model_does_not_get_them(web):
    found = {
        "translation": ["- uno ❤️"],
        "truncated": [False],
        "sentences": [1],
        "target_begins": [[2]],
        "target_ends": [[5]],
    }
    signatures = {"align": aligned([], [], [], ""), "sentences": {"outputs": found}}
    web.answer(METADATA, json={"metadata": {"signature_def": {"signature_def": signatures}}})

    def answer(route: Route) -> None:
        if route.request.post_data_json["signature_name"] == "align":
            route.continue_()
        else:
            route.fulfill(json={"outputs": found})

    web.page.route(PREDICT, answer)
    web.translate("-\u200b uno ❤️", "- uno ❤️")
    assert [request["inputs"]["text"] for request in web.asked] == [["-\u200b uno ❤️"], ["uno"]]


def test_markup_is_text(web):
    web.translate("<b>uno</b> <img/src='x'/onerror='alert(1)'>", "<img/src='x'/onerror='alert(1)'> <b>uno</b>")
    web.expect("#target img, #source b").to_have_count(0)


# Attention of words


def test_pointing_at_a_word_shows_its_attention_in_words_of_several_pieces_and_in_the_end(web):
    answer = aligned(
        ["▁Un", "▁hos", "pital", ""],
        ["▁A", "▁hos", "pit", "al", ""],
        [[0.9, 0.1, 0, 0], [0, 0.5, 0.5, 0], [0.1, 0.4, 0.4, 0.1], [0, 0, 0.4, 0.6], [0, 0, 0.5, 0.5]],
        "A hospital",
    )
    web.answer(PREDICT, json=answer)
    web.ask("Un hospital")
    web.expect("#target .word").to_have_text(["A", "hospital"])
    for side, other, attended, told in (
        ("target", "source", ["hospital"], "attended to “hospital” 73 %, the sentence’s end 23 %"),
        (
            "source",
            "target",
            ["A", "hospital"],
            "was attended to by “hospital” 73 %, the sentence’s end 50 %, “A” 10 %",
        ),
    ):
        web.word(side, "hospital").hover()
        web.expect("#attended").to_have_text(f"“hospital” {told}")
        web.expect(".chosen").to_have_text("hospital")
        web.expect(".attended").to_have_text(attended)
        expect(web.word(other, "hospital")).to_have_attribute("style", "--weight: 0.733;")
    web.page.mouse.move(0, 0)
    web.expect(".chosen, .attended").to_have_count(0)


def test_the_keyboard_reaches_every_word(web):
    web.translate("uno dos tres", "tres dos uno")
    for keys, side, word in (
        ("Tab Tab Tab", "target", "tres"),  # past the options of search and heatmap
        ("ArrowRight", "target", "dos"),
        ("End ArrowRight", "target", "uno"),  # the focus stays on the last word
        ("ArrowDown", "source", "uno"),
        ("ArrowRight ArrowUp", "target", "dos"),
        ("Shift+Tab Tab", "target", "dos"),  # the focus returns to the last focused word
    ):
        for key in keys.split():
            web.page.keyboard.press(key)
        web.expect(f"#{side} :focus").to_have_text(word)
        web.expect(":focus").to_have_attribute("aria-selected", "true")
        web.expect(":focus").to_have_attribute("aria-description", re.compile(rf"^“{word}” .*“{word}” 100\s%"))
    web.page.keyboard.press("Escape")
    web.expect("#sentence").to_be_focused()
    web.expect(".chosen").to_have_count(0)


def test_a_sentence_from_right_to_left_is_walked_from_right_to_left(web):
    web.translate("שלום עולם", "עולם שלום")
    assert web.page.locator("#target").evaluate("box => getComputedStyle(box).direction") == "rtl"
    first, second = (web.page.locator("#target .word").nth(n) for n in (0, 1))
    assert first.bounding_box()["x"] > second.bounding_box()["x"]
    first.focus()
    web.page.keyboard.press("ArrowLeft")
    expect(second).to_be_focused()


@pytest.mark.parametrize(
    ("config", "source", "target"),
    [
        (configured(source_language="en", target_language="ar"), ("en", "ltr"), ("ar", "rtl")),
        (configured(source_language="he", target_language="en"), ("he", "rtl"), ("en", "ltr")),
        (configured(source_language="pa-PK", target_language="pa"), ("pa-PK", "rtl"), ("pa", "ltr")),
        (
            {"models": [{"name": "eng-spa", "source_language": "he", "target_language": "ar"}]},
            ("", "ltr"),
            ("", "ltr"),
        ),
        (configured(), ("", "ltr"), ("", "ltr")),
    ],
    ids=["en-ar", "he-en", "pa-PK-pa", "another model's", "unknown"],
)
def test_a_sentence_has_its_language_and_its_direction_whatever_it_begins_with(web, config, source, target):
    """For example, an Arabic sentence may begin with "LibreOffice". This word stands on the right."""
    web.answer("**/config.json", json=config)
    web.open("?model=spa-eng")
    shown_in_full(web)
    for selectors, expected in (
        (("#sentence", "#source", "#heatmap thead th span"), source),
        (("#target", "#spoken", "#hypotheses button", "#heatmap tbody th span"), target),
    ):
        for selector in selectors:
            box = web.page.locator(selector).first
            found = box.get_attribute("lang"), box.evaluate("box => getComputedStyle(box).direction")
            assert (selector, found) == (selector, expected)


def test_what_the_model_did_not_read_is_struck_out_and_said(web):
    web.ask("a b c d")  # more than three words are "truncated"
    web.expect("#truncated").to_be_visible()
    web.answer(PREDICT, json=aligned(["uno", ""], ["one", ""], [[1, 0], [0, 1]], "one", truncated=True))
    web.ask("uno dos tres")
    web.expect("#source .unread").to_have_text(" dos tres")
    web.ask("uno \u200b")
    web.expect("#source").to_have_text("uno")
    web.expect("#source .unread").to_have_count(0)  # white space and invisible characters
    web.page.unroute(PREDICT)
    web.translate("uno", "uno")
    web.expect("#truncated").to_be_hidden()


def test_the_heatmap_is_a_table_that_is_shown_when_wanted(web):
    web.answer(PREDICT, json=aligned(["uno", "dos", ""], ["two", ""], [[0.254, 0.7, 0.046], [0, 0, 1]], "two"))
    web.translate("uno dos", "two")
    table = web.page.locator("#heatmap table")
    expect(table).to_be_hidden()
    web.page.get_by_role("checkbox", name="Heatmap").check()
    expect(table).to_be_visible()
    expect(table.get_by_role("columnheader")).to_have_text(["uno", "dos", "end"])
    expect(table.get_by_role("rowheader")).to_have_text(["two", "end"])
    expect(table.locator("tbody td")).to_have_text(["25", "70", "5", "0", "0", "100"])
    assert table.locator("caption").bounding_box()["height"] < 40  # one line, although the table is narrower


# Beam search


def test_beam_search_lists_the_best_with_their_scores_and_shows_the_one_that_is_chosen(web):
    web.ask("uno dos")
    web.page.get_by_text("Beam").click()
    rows = web.page.locator("#hypotheses tbody tr")
    expect(rows).to_have_count(2)
    assert [row.locator("td").all_inner_texts() for row in rows.all()] == [
        ["dos uno", "−0.67", "−2.00"],
        ["uno dos", "−1.67", "−3.00"],
    ]
    web.expect("#target").to_have_text("dos uno")
    rows.nth(1).get_by_role("button").click()
    web.expect("#target").to_have_text("uno dos")
    web.expect("#spoken").to_have_text("uno dos")
    expect(rows.get_by_role("button", pressed=True)).to_have_text("uno dos")
    web.word("target", "uno").hover()
    web.expect("#attended").to_have_text("“uno” attended to “uno” 100 %")
    assert [request["signature_name"] for request in web.asked][-1] == "beam"
    web.page.get_by_text("Greedy").click()
    expect(rows).to_have_count(0)


# Problems


def test_a_sentence_that_is_asked_for_offline_is_translated_once_the_connection_is_back(web):
    web.page.clock.install()
    web.open()
    web.expect("#model").to_have_text("spa-eng · version 3")
    web.page.evaluate("addEventListener('online', () => (document.title = 'Online'))")
    web.page.context.set_offline(True)
    web.ask("uno dos")
    web.expect_problem("You are offline")
    web.expect("#result").to_be_hidden()
    web.page.clock.pause_at("2100-01-01")  # prevents the automatic retry of the page
    web.page.context.set_offline(False)
    expect(web.page).to_have_title("Online")
    web.page.clock.run_for(1)
    web.expect("#target").to_have_text("dos uno")
    expect(web.page.get_by_role("alert")).to_be_empty()


def versions(state: str, code: str = "OK", message: str = "", also: str = "") -> dict:
    """Returns the status of a model with one version, and an older one if its state is given in ``also``."""
    found = [{"version": "3", "state": state, "status": {"error_code": code, "error_message": message}}]
    older = {"version": "2", "state": also, "status": {"error_code": "OK", "error_message": ""}}
    return {"json": {"model_version_status": found + [older] * bool(also)}}


@pytest.mark.parametrize(
    ("asked", "answer", "message"),
    [
        (PREDICT, None, "The server does not answer"),
        (PREDICT, {"status": 502, "body": "<html>Bad Gateway</html>"}, "The server does not answer"),
        (PREDICT, {"status": 503, "json": {"error": "Unavailable"}}, "The server is busy"),
        (PREDICT, {"status": 429, "body": "<html>nginx</html>"}, "The server is busy"),
        (STATUS, versions("LOADING"), "The model is still being loaded"),
        (STATUS, versions("END", "NOT_FOUND", "no", also="LOADING"), "The model is still being loaded"),
    ],
)
def test_the_page_retries_after_a_temporary_problem(web, asked, answer, message):
    web.page.clock.install()
    web.page.route(asked, lambda route: route.fulfill(**answer) if answer else route.abort("connectionrefused"))
    web.ask("uno dos")
    web.expect_problem(message)
    web.page.unroute(asked)
    web.page.clock.fast_forward("00:01")
    web.expect("#target").to_have_text("dos uno")
    expect(web.page.get_by_role("alert")).to_be_empty()


NO_ALIGNMENT = {"metadata": {"signature_def": {"signature_def": {"serving_default": {"outputs": {}}}}}}


@pytest.mark.parametrize(
    ("asked", "answer", "messages"),
    [
        (STATUS, versions("END", "NOT_FOUND", "Could not find <b>saved_model.pb</b>"), ["find <b>saved_model.pb</b>"]),
        (METADATA, {"json": NO_ALIGNMENT}, ["The model “spa-eng” has no alignments"]),
        ("**/config.json", {"status": 404}, ["No model is selected"]),
        ("**/config.json", {"json": {"models": None}}, ["No model is selected"]),
        (PREDICT, {"status": 400, "json": {"error": "<b>no</b>"}}, ["refused the sentence", "Reason: <b>no</b>"]),
        (PREDICT, {"status": 500, "json": {"error": "<b>no</b>"}}, ["The server failed", "Reason: <b>no</b>"]),
    ],
)
def test_a_lasting_problem_is_shown_in_the_words_of_the_server(web, asked, answer, messages):
    web.answer(asked, **answer)
    web.ask("uno")
    for message in messages:
        web.expect_problem(message)


def test_a_lasting_problem_is_told_once(web):
    web.answer(PREDICT, status=400, json={"error": "no"})
    web.ask("uno")
    web.expect_problem("refused the sentence")
    web.page.locator("#problem strong").evaluate("(told) => { told.id = 'told'; }")
    with web.page.expect_response(PREDICT):
        web.ask("uno dos")
    web.expect("#result").to_have_attribute("aria-busy", "false")
    web.expect("#told").to_be_visible()


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (STATUS, {"json": {"model_version_status": [{"state": "AVAILABLE"}]}}),
        (METADATA, {"json": {"metadata": {"signature_def": {}}}}),
        (PREDICT, {"json": {"predictions": ["dos uno"]}}),
        (PREDICT, {"json": aligned(["uno", ""], ["uno", ""], None, "uno")}),
        (PREDICT, {"json": None}),
        (PREDICT, {"body": "<html>Log in to this network</html>"}),
    ],
)
def test_a_malformed_answer_is_a_problem_and_the_page_stops_waiting(web, asked, answer):
    web.answer(asked, **answer)
    with web.page.expect_response(asked):
        web.open()
        web.page.locator("#sentence").fill("uno dos")
    web.expect_problem("The server’s answer cannot be read")
    web.expect("#result").to_have_attribute("aria-busy", "false")
    web.page.unroute(asked)
    web.retry()


def test_the_page_waits_no_longer_than_its_timeout(web):
    web.answer("**/config.json", json=configured(timeout_seconds=0.3, search="align"))
    web.open()
    web.expect("#model").to_have_text("spa-eng · version 3")
    web.page.route(PREDICT, lambda route: None)
    web.ask("uno dos")
    web.expect_problem("There was no answer in time")
    web.page.unroute(PREDICT)
    web.retry()
    web.expect("#sentence").to_be_focused()


# Model and languages


def test_the_page_names_its_languages_and_offers_an_example(web):
    web.answer("**/config.json", json=configured(source_language="es-MX", target_language="en"))
    web.open()
    expect(web.page).to_have_title("Translate Mexican Spanish to English")
    expect(web.page.get_by_role("heading", level=1)).to_have_text("Translate Mexican Spanish to English")
    web.expect("#sentence").to_have_attribute("placeholder", "Type a sentence or a text in Mexican Spanish")
    web.page.get_by_role("button", name="Mi hermana trabaja en un hospital.").click()
    web.expect("#target").to_have_text("hospital. un en trabaja hermana Mi")
    web.expect("#sentence").to_be_focused()
    web.expect("#example").to_be_hidden()  # it would replace the text
    web.answer("**/config.json", json=configured(source_language="zh-Hant"))
    web.open("?")
    expect(web.page.get_by_role("button", name="我姐姐在醫院工作。")).to_be_visible()


@pytest.mark.parametrize("code", ["not a code", "qq"])
def test_the_page_gives_no_example_of_an_unknown_language(web, code):
    web.answer("**/config.json", json=configured(source_language=code, target_language=code))
    web.open()
    web.expect("#model").to_have_text("spa-eng · version 3")
    expect(web.page).to_have_title("Translate")
    web.expect("#example").to_be_hidden()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"source_language": None, "target_language": None, "search": "greedy"},
        {"source_language": 3, "target_language": ["?"], "timeout_seconds": 1e7},
    ],
    ids=str,
)
def test_without_valid_settings_beam_search_is_the_default(web, settings):
    web.answer("**/config.json", json=configured(**settings))
    web.ask("uno dos")
    web.expect("#hypotheses tbody tr").to_have_count(2)
    expect(web.page.get_by_label("Beam")).to_be_checked()
    assert [request["signature_name"] for request in web.asked] == ["beam"]


@pytest.mark.parametrize(("language", "kept"), [("es", "uno dos"), ("en", "")])
def test_another_model_is_chosen_from_the_list_and_gets_the_text_if_it_is_of_its_language(web, language, kept):
    models = [{"name": "eng-spa", "source_language": "es"}, {"name": "spa-eng", "source_language": language}]
    web.answer("**/config.json", json={"models": models})
    web.ask("uno dos")
    web.expect_problem("There is no model “eng-spa” on this server")
    web.page.get_by_label("Model").select_option("spa-eng")
    web.expect("#model").to_have_text("version 3")
    assert web.page.url.partition("#")[0].endswith("?model=spa-eng")
    web.expect("#sentence").to_have_value(kept)
    web.expect("#target").to_have_text("dos uno" if kept else "")


@pytest.mark.parametrize(
    ("listed", "chosen", "named"),
    [
        ([], "", "spa-eng · version 3"),
        (["eng-spa"], "", "spa-eng · version 3"),
        (["eng-spa", "fra-eng"], "", "spa-eng · version 3"),
        (["eng-spa", "spa-eng"], "spa-eng", "version 3"),
    ],
)
def test_the_model_in_the_address_translates_and_is_named_once(web, listed, chosen, named):
    web.answer("**/config.json", json={"models": [{"name": name} for name in listed]})
    web.open("?model=spa-eng")
    web.expect("#model").to_have_text(named)
    web.expect("#models").to_be_visible(visible=bool(listed))
    web.expect("#models").to_have_value(chosen)
    web.translate("uno dos", "dos uno")


# Layout and accessibility


def shown_in_full(web: Opened) -> None:
    """Shows a long sentence, its n-best list and its heatmap."""
    web.page.locator("#sentence").fill(
        "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, vivía un hidalgo."
    )
    web.page.get_by_text("Beam").click()
    web.page.locator("#with-heatmap").check()
    web.expect("#heatmap table").to_be_visible()


def test_a_phone_never_scrolls_sideways(web):
    web.page.set_viewport_size({"width": 375, "height": 667})
    web.open()
    shown_in_full(web)
    assert web.page.evaluate("document.documentElement.scrollWidth") == 375
    web.ask("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2)
    web.expect("#source .word").to_have_count(1)
    assert web.page.evaluate("document.documentElement.scrollWidth") == 375


def test_the_address_has_the_text_and_a_button_copies_the_translation(web):
    web.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    web.open("#text=uno+%26+dos")
    web.expect("#target").to_have_text("dos & uno")
    web.page.get_by_role("button", name="Copy").click()
    web.page.get_by_role("button", name="Copied").wait_for()
    assert web.page.evaluate("navigator.clipboard.readText()") == "dos & uno"
    web.translate("tres uno", "uno tres")
    assert web.page.evaluate("location.hash") == "#text=tres+uno"
    web.page.evaluate("location.hash = 'text=cuatro+dos'")  # a link on another page, or typed
    web.expect("#target").to_have_text("dos cuatro")
    web.page.go_back()
    web.expect("#target").to_have_text("uno tres")
    web.expect("#sentence").to_have_value("tres uno")
    web.ask("")
    web.expect("#result").to_be_hidden()
    web.page.wait_for_function("location.hash === ''")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(web, scheme):
    web.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    web.open()
    shown_in_full(web)
    web.page.locator("#target .word").first.focus()
    reports = [Axe().run(web.page)]
    web.open("?model=missing")
    web.expect_problem("There is no model")
    reports.append(Axe().run(web.page))
    assert [report.generate_report() for report in reports if report.violations_count] == []
