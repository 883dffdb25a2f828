"""The page: typed at, pointed at and cut off in headless Chromium; its server's model reverses a sentence's words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Page, Request, Route, expect, sync_playwright
from servers import CHROMIUM

from benchmarks.page_pictures import VIEWS, take

ROOT = Path(__file__).parents[2]
CASES = json.loads((ROOT / "tests" / "translation/word_alignments.json").read_text("utf-8"))

pytestmark = [pytest.mark.browser, pytest.mark.server]

PREDICT = re.compile(r":predict$")
STATUS = re.compile(r"/v1/models/[^/]+$")
METADATA = re.compile(r"/metadata$")


class Opened(NamedTuple):
    """The page in a browser, and what it asked its server for a translation of."""

    page: Page
    open: Callable[..., None]
    asked: list[dict[str, Any]]

    def type(self, text: str) -> None:
        """Adds to the sentence, key by key."""
        self.page.locator("#sentence").press_sequentially(text)

    def ask(self, text: str) -> None:
        """Replaces the sentence, and asks for its translation at once."""
        self.page.locator("#sentence").fill(text)
        self.page.locator("#sentence").press("Enter")

    def word(self, side: str, text: str):
        return self.page.locator(f"#{side} .word", has_text=re.compile(f"^{re.escape(text)}$"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def loaded(chromium, served) -> Iterator[Page]:
    """The page, to import its modules from; no test may change it."""
    page = chromium.new_page()
    page.goto(served)
    yield page
    page.close()


@pytest.fixture
def web(chromium, served) -> Iterator[Opened]:
    """The page, which may fail no script, break no policy of its own, and ask no other server."""
    context = chromium.new_context(viewport={"width": 1024, "height": 900}, has_touch=True)
    page = context.new_page()
    faults: list[str] = []
    asked: list[dict[str, Any]] = []

    def watch(request: Request) -> None:
        if not request.url.startswith(f"{served}/"):
            faults.append(f"asked {request.url}")
        if request.url.endswith(":predict"):
            asked.append(request.post_data_json)

    page.on("request", watch)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if "Security Policy" in said.text else None)
    yield Opened(page, lambda query="": page.goto(f"{served}/{query}"), asked)
    context.close()
    assert faults == []


def aligned(source: list[str], target: list[str], alignment: list[list[float]], text: str, **other: Any) -> dict:
    """What ``align`` answers for one sentence."""
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


def refusing(status: int, message: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(status=status, json={"error": message})


# Words and pieces


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_alignment_of_tokens_becomes_one_of_words(loaded, case):
    found = loaded.evaluate(
        "async (tokens) => (await import('/words.js')).alignWords(...tokens)",
        [case["source_tokens"], case["target_tokens"], case["alignment"]],
    )
    assert found == {
        "source": case["source_words"],
        "target": case["target_words"],
        "weights": case["word_alignment"],
    }


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("Hi, Tom!", ["Hi", ",", "Tom", "!", ""], [["Hi", 0], [",", 1], [" ", None], ["Tom", 2], ["!", 3]]),
        ("no no", ["no", "no", ""], [["no", 0], [" ", None], ["no", 1]]),
        ("uno dos tres", ["uno", ""], [["uno", 0], [" dos tres", None]]),
        ("Hi Tom", ["hi", "tom", ""], [["hi", 0], [" ", None], ["tom", 1]]),  # not as it is written
        ("", [""], []),
    ],
)
def test_words_are_found_again_where_their_text_has_them(loaded, text, words, expected):
    found = loaded.evaluate("async (given) => (await import('/words.js')).segments(...given)", [text, words])
    assert [[segment["text"], segment["word"]] for segment in found] == expected


# Typing


def test_a_sentence_is_translated_once_its_typing_pauses(web):
    web.open()
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    web.type("uno dos")
    expect(web.page.locator("#target")).to_have_text("dos uno")
    expect(web.page.locator("#spoken")).to_have_text("dos uno")
    expect(web.page.locator("#spoken")).to_have_attribute("role", "status")
    expect(web.page.locator("#facts")).to_have_text(re.compile(r"^\d+ ms · score −0\.67 · log-probability −2\.00$"))
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
    expect(web.page.locator("#target")).to_have_text("dos uno")


def test_enter_translates_at_once_and_breaks_no_line(web):
    web.open()
    web.page.clock.install()  # no pause of typing ever ends
    web.page.clock.pause_at("2100-01-01")
    web.type("uno dos")
    web.page.keyboard.press("Enter")
    web.page.clock.run_for(1)
    expect(web.page.locator("#target")).to_have_text("dos uno")
    expect(web.page.locator("#sentence")).to_have_value("uno dos")


def test_nothing_is_shown_for_an_empty_sentence(web):
    web.open()
    result = web.page.locator("#result")
    expect(result).to_be_hidden()
    web.type("uno")
    expect(result).to_be_visible()
    web.page.locator("#sentence").fill(" \n ")
    expect(result).to_be_hidden()
    expect(web.page.locator("#spoken")).to_be_empty()
    assert len(web.asked) == 1


def test_the_model_gets_composed_characters_and_single_spaces(web):
    web.open()
    web.ask(" un  cafe\N{COMBINING ACUTE ACCENT}\nsolo ")
    expect(web.page.locator("#source")).to_have_text("un café solo")
    assert web.asked[-1]["inputs"] == {"text": ["un café solo"]}


def test_markup_is_text(web):
    web.open()
    web.ask("<b>uno</b> <img/src='x'/onerror='alert(1)'>")
    expect(web.page.locator("#target")).to_have_text("<img/src='x'/onerror='alert(1)'> <b>uno</b>")
    expect(web.page.locator("#target img, #source b")).to_have_count(0)


# What a word attended to


def test_pointing_at_a_word_shows_what_it_attended_to_and_what_attended_to_it(web):
    web.open()
    web.ask("uno dos tres")
    attended = web.page.locator("#attended")

    web.word("target", "tres").hover()
    expect(attended).to_have_text("“tres” attended to “tres” 100 %")
    expect(web.word("source", "tres")).to_have_attribute("style", "--weight: 1.000;")
    expect(web.page.locator(".attended")).to_have_count(1)
    expect(web.page.locator(".chosen")).to_have_text("tres")

    web.word("source", "uno").hover()
    expect(attended).to_have_text("“uno” was attended to by “uno” 100 %")
    expect(web.word("target", "uno")).to_have_attribute("style", "--weight: 1.000;")
    expect(web.page.locator(".chosen")).to_have_text("uno")

    web.page.mouse.move(0, 0)
    expect(web.page.locator(".chosen, .attended")).to_have_count(0)


def test_pieces_are_shown_as_words_and_the_end_as_words_too(web):
    answer = aligned(
        ["▁Un", "▁hos", "pital", ""],
        ["▁A", "▁hos", "pit", "al", ""],
        [[0.9, 0.1, 0, 0], [0, 0.5, 0.5, 0], [0.1, 0.4, 0.4, 0.1], [0, 0, 0.4, 0.6], [0, 0, 0.5, 0.5]],
        "A hospital",
    )
    web.open()
    web.page.route(PREDICT, lambda route: route.fulfill(json=answer))
    web.ask("Un hospital")
    expect(web.page.locator("#target .word")).to_have_text(["A", "hospital"])
    web.word("target", "hospital").hover()
    expect(web.page.locator("#attended")).to_have_text(
        "“hospital” attended to “hospital” 73 %, the sentence’s end 23 %"
    )
    web.word("source", "hospital").hover()
    expect(web.page.locator("#attended")).to_have_text(
        "“hospital” was attended to by “hospital” 73 %, the sentence’s end 50 %, “A” 10 %"
    )


def test_words_are_reached_walked_and_left_by_keyboard(web):
    web.open()
    web.ask("uno dos tres")
    expect(web.page.locator("#target")).to_have_text("tres dos uno")
    press, focused = web.page.keyboard.press, web.page.locator(":focus")
    for _ in ("search", "heatmap", "translation"):
        press("Tab")
    expect(focused).to_have_text("tres")
    expect(focused).to_have_attribute("aria-selected", "true")
    expect(focused).to_have_attribute("aria-description", "“tres” attended to “tres” 100 %")
    press("ArrowRight")
    expect(focused).to_have_text("dos")
    press("End")
    expect(focused).to_have_text("uno")
    press("ArrowRight")  # the edge
    expect(focused).to_have_text("uno")
    press("ArrowDown")
    expect(focused).to_have_text("uno")
    assert focused.evaluate("word => word.parentElement.id") == "source"
    expect(web.page.locator("#attended")).to_have_text("“uno” was attended to by “uno” 100 %")
    press("ArrowRight")
    press("ArrowUp")
    expect(focused).to_have_text("dos")
    assert focused.evaluate("word => word.parentElement.id") == "target"
    press("Shift+Tab")
    press("Tab")  # comes back to the word that was left
    expect(focused).to_have_text("dos")
    press("Escape")
    expect(web.page.locator("#sentence")).to_be_focused()
    expect(web.page.locator(".chosen")).to_have_count(0)


def test_a_tap_on_a_word_is_as_good(web):
    web.open()
    web.ask("uno dos tres")
    web.word("target", "tres").tap()
    expect(web.word("target", "tres")).to_be_focused()
    expect(web.page.locator("#attended")).to_have_text("“tres” attended to “tres” 100 %")
    web.page.locator("h1").tap()
    expect(web.page.locator(".chosen, .attended")).to_have_count(0)


def test_a_sentence_from_right_to_left_is_walked_from_right_to_left(web):
    web.open()
    web.ask("שלום עולם")
    expect(web.page.locator("#target")).to_have_text("עולם שלום")
    assert web.page.locator("#target").evaluate("box => getComputedStyle(box).direction") == "rtl"
    first, second = (web.page.locator("#target .word").nth(n) for n in (0, 1))
    assert first.bounding_box()["x"] > second.bounding_box()["x"]
    first.focus()
    web.page.keyboard.press("ArrowLeft")
    expect(second).to_be_focused()


def test_what_the_model_did_not_read_is_struck_out_and_said(web):
    web.open()
    web.ask("a b c d")  # more than three words are "truncated"
    expect(web.page.locator("#truncated")).to_be_visible()
    answer = aligned(["uno", ""], ["one", ""], [[1, 0], [0, 1]], "one", truncated=True)
    web.page.route(PREDICT, lambda route: route.fulfill(json=answer))
    web.ask("uno dos tres")
    expect(web.page.locator("#source .unread")).to_have_text(" dos tres")
    web.page.unroute(PREDICT)
    web.ask("uno")
    expect(web.page.locator("#target")).to_have_text("uno")
    expect(web.page.locator("#truncated")).to_be_hidden()


def test_the_heatmap_is_a_table_that_is_shown_when_wanted(web):
    answer = aligned(["uno", "dos", ""], ["two", ""], [[0.254, 0.7, 0.046], [0, 0, 1]], "two")
    web.open()
    web.page.route(PREDICT, lambda route: route.fulfill(json=answer))
    web.ask("uno dos")
    expect(web.page.locator("#target")).to_have_text("two")
    table = web.page.locator("#heatmap table")
    expect(table).to_be_hidden()
    web.page.get_by_role("checkbox", name="Heatmap").check()
    expect(table).to_be_visible()
    expect(table.get_by_role("columnheader")).to_have_text(["uno", "dos", "end"])
    expect(table.get_by_role("rowheader")).to_have_text(["two", "end"])
    expect(table.locator("tbody td")).to_have_text(["25", "70", "5", "0", "0", "100"])


# Beam search


def test_beam_search_lists_the_best_with_their_scores_and_shows_the_one_that_is_chosen(web):
    web.open()
    web.ask("uno dos")
    web.page.get_by_text("Beam").click()
    rows = web.page.locator("#hypotheses tbody tr")
    expect(rows).to_have_count(2)
    assert [row.locator("td").all_inner_texts() for row in rows.all()] == [
        ["dos uno", "−0.67", "−2.00"],
        ["uno dos", "−1.67", "−3.00"],
    ]
    expect(web.page.locator("#target")).to_have_text("dos uno")
    rows.nth(1).get_by_role("button").click()
    expect(web.page.locator("#target")).to_have_text("uno dos")
    expect(web.page.locator("#spoken")).to_have_text("uno dos")
    expect(rows.get_by_role("button", pressed=True)).to_have_text("uno dos")
    web.word("target", "uno").hover()
    expect(web.page.locator("#attended")).to_have_text("“uno” attended to “uno” 100 %")
    assert [request["signature_name"] for request in web.asked][-1] == "beam"
    web.page.get_by_text("Greedy").click()
    expect(rows).to_have_count(0)


def test_a_beam_is_not_offered_where_the_model_has_none(web):
    def without_beam(route: Route) -> None:
        metadata = route.fetch().json()
        del metadata["metadata"]["signature_def"]["signature_def"]["beam"]
        route.fulfill(json=metadata)

    web.page.route(METADATA, without_beam)
    web.open()
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    expect(web.page.locator("#searches")).to_be_hidden()
    web.page.unroute(METADATA)
    web.open()
    expect(web.page.locator("#searches")).to_be_visible()


def test_hypotheses_that_do_not_exist_are_left_out(web):
    answer = {
        "translations": [["one", ""]],
        "scores": [[-0.5, float("-inf")]],  # as TensorFlow Serving writes it, which is no JSON
        "log_probs": [[float("nan"), float("-inf")]],
        "lengths": [[2, 0]],
        "tokens": [[["one", ""], ["", ""]]],
        "source_tokens": [["Infinity", ""]],
        "source_lengths": [2],
        "alignment": [[[[1, 0], [0, 1]], [[0, 0], [0, 0]]]],
        "truncated": [False],
    }
    body = json.dumps({"outputs": answer})
    assert "-Infinity" in body
    web.open()
    web.page.route(PREDICT, lambda route: route.fulfill(body=body, content_type="application/json"))
    web.page.get_by_text("Beam").click()
    web.ask("Infinity")
    expect(web.page.locator("#hypotheses tbody td")).to_have_text(["one", "−0.50", "–"])
    expect(web.page.locator("#source")).to_have_text("Infinity")


# Trouble


def test_offline_says_so_and_translates_as_soon_as_the_connection_is_back(web):
    web.page.clock.install()
    web.open()
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    web.page.evaluate("addEventListener('online', () => (document.title = 'Online'))")
    web.page.context.set_offline(True)
    web.ask("uno dos")
    problem = web.page.get_by_role("alert")
    expect(problem).to_contain_text("You are offline")
    expect(web.page.locator("#result")).to_be_hidden()
    web.page.clock.pause_at("2100-01-01")  # so that it does not try by itself
    web.page.context.set_offline(False)
    expect(web.page).to_have_title("Online")
    web.page.clock.run_for(1)
    expect(web.page.locator("#target")).to_have_text("dos uno")
    expect(problem).to_be_empty()


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (lambda route: route.abort("connectionrefused"), "The server does not answer"),
        (lambda route: route.fulfill(status=502, body="<html>Bad Gateway</html>"), "The server does not answer"),
        (refusing(503, "Unavailable"), "The server is busy"),
        (lambda route: route.fulfill(status=429, body="<html>nginx</html>"), "The server is busy"),
    ],
)
def test_a_trouble_that_passes_is_waited_for(web, trouble, said):
    web.page.clock.install()
    web.open()
    web.page.route(PREDICT, trouble)
    web.ask("uno dos")
    expect(web.page.get_by_role("alert")).to_contain_text(said)
    web.page.unroute(PREDICT)
    web.page.clock.fast_forward("00:01")
    expect(web.page.locator("#target")).to_have_text("dos uno")


def test_a_model_that_is_being_loaded_is_waited_for(web):
    loading = {"version": "3", "state": "LOADING", "status": {"error_code": "OK", "error_message": ""}}
    web.page.route(STATUS, lambda route: route.fulfill(json={"model_version_status": [loading]}))
    web.page.clock.install()
    web.open()
    expect(web.page.get_by_role("alert")).to_contain_text("The model is still being loaded")
    web.page.unroute(STATUS)
    web.page.clock.fast_forward("00:01")
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    expect(web.page.get_by_role("alert")).to_be_empty()


def test_a_model_that_could_not_be_loaded_says_why(web):
    status = {"error_code": "NOT_FOUND", "error_message": "Could not find saved_model.pb"}
    ended = {"version": "3", "state": "END", "status": status}
    web.page.route(STATUS, lambda route: route.fulfill(json={"model_version_status": [ended]}))
    web.open()
    expect(web.page.get_by_role("alert")).to_contain_text("Could not find saved_model.pb")


def test_an_answer_that_does_not_come_is_not_waited_for_forever(web):
    web.page.route("**/config.json", lambda route: route.fulfill(json={"model": "spa-eng", "timeout_seconds": 0.3}))
    web.open()
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    web.page.route(PREDICT, lambda route: None)
    web.ask("uno dos")
    expect(web.page.get_by_role("alert")).to_contain_text("There was no answer within 0.3 seconds")
    web.page.unroute(PREDICT)
    web.page.get_by_role("button", name="Try again").click()
    expect(web.page.locator("#target")).to_have_text("dos uno")
    expect(web.page.locator("#sentence")).to_be_focused()


@pytest.mark.parametrize(
    ("status", "said"),
    [(400, "The server could not read the sentence"), (500, "Something went wrong on the server")],
)
def test_what_the_server_says_of_an_error_is_passed_on_as_text(web, status, said):
    web.open()
    web.page.route(PREDICT, refusing(status, "expected <b>text</b>"))
    web.ask("uno")
    expect(web.page.get_by_role("alert")).to_contain_text(said)
    expect(web.page.get_by_role("alert")).to_contain_text("It says: expected <b>text</b>")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (STATUS, {"models": ["spa-eng"]}),
        (STATUS, {"model_version_status": [{"state": "AVAILABLE"}]}),
        (METADATA, {"model_spec": {"name": "spa-eng"}}),
        (METADATA, {"metadata": {"signature_def": {}}}),
        (PREDICT, {"predictions": ["dos uno"]}),
        (PREDICT, aligned(["uno", ""], ["uno", ""], None, "uno")),
        (PREDICT, ["dos uno"]),
        (PREDICT, None),
    ],
)
def test_an_answer_that_is_not_built_as_it_should_be_is_said_and_waited_for_no_longer(web, asked, answer):
    web.page.route(asked, lambda route: route.fulfill(json=answer))
    web.open()
    web.ask("uno dos")
    expect(web.page.get_by_role("alert")).to_contain_text("The server’s answer cannot be read")
    expect(web.page.locator("#result")).to_have_attribute("aria-busy", "false")
    web.page.unroute(asked)
    web.page.get_by_role("button", name="Try again").click()
    expect(web.page.locator("#target")).to_have_text("dos uno")
    expect(web.page.get_by_role("alert")).to_be_empty()


def test_a_page_that_is_no_json_is_no_answer(web):
    web.open()
    web.page.route(PREDICT, lambda route: route.fulfill(body="<html>Log in to this network</html>"))
    web.ask("uno")
    expect(web.page.get_by_role("alert")).to_contain_text("The server’s answer cannot be read")


def test_what_the_page_itself_cannot_show_is_said_too(chromium, served):
    page = chromium.new_page()
    page.add_init_script("HTMLTableElement.prototype.createCaption = () => { throw new Error('no captions'); }")
    page.goto(served)
    with page.expect_event("pageerror") as thrown:  # where a developer looks
        page.locator("#sentence").fill("uno")
    assert "no captions" in str(thrown.value)
    expect(page.get_by_role("alert")).to_contain_text("The server’s answer cannot be read")
    expect(page.locator("#result")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#result")).to_be_hidden()
    page.close()


def test_a_browser_that_cannot_join_signals_translates_waits_and_aborts_too(web):
    web.page.add_init_script("delete AbortSignal.any; delete AbortSignal.timeout")
    web.page.route("**/config.json", lambda route: route.fulfill(json={"model": "spa-eng", "timeout_seconds": 0.3}))
    web.open()
    web.ask("uno dos")
    expect(web.page.locator("#target")).to_have_text("dos uno")
    web.page.route(PREDICT, lambda route: None)
    with web.page.expect_event("requestfailed", timeout=5000) as failed:
        web.ask("dos")
    assert failed.value.failure == "net::ERR_ABORTED"
    expect(web.page.get_by_role("alert")).to_contain_text("There was no answer within 0.3 seconds")


def test_what_waited_for_the_model_while_the_typing_went_on_is_never_asked(web):
    held: list[Route] = []
    web.page.route(STATUS, lambda route: held.append(route))
    with web.page.expect_request(STATUS):
        web.open()
    with web.page.expect_request(STATUS):
        web.ask("uno")
    with web.page.expect_request(STATUS):
        web.ask("uno dos")
    for route in held:
        route.continue_()
    expect(web.page.locator("#target")).to_have_text("dos uno")
    assert [request["inputs"]["text"] for request in web.asked] == [["uno dos"]]


def test_the_address_names_the_model_before_the_configuration_does(web):
    web.page.route("**/config.json", lambda route: route.fulfill(json={"model": "eng-spa"}))
    web.open("?model=spa-eng")
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    web.ask("uno dos")
    expect(web.page.locator("#target")).to_have_text("dos uno")


IN_LANGUAGES = {"model": "spa-eng", "source_language": "es", "target_language": "en"}


@pytest.mark.parametrize(
    ("config", "source", "target"),
    [
        (IN_LANGUAGES, "es", "en"),
        ({**IN_LANGUAGES, "model": "eng-spa"}, "", ""),  # whose languages are not those of the model that is asked
        ({"model": "spa-eng"}, "", ""),
    ],
    ids=["its own", "another model's", "unknown"],
)
def test_each_sentence_says_in_which_language_it_is(web, config, source, target):
    web.page.route("**/config.json", lambda route: route.fulfill(json=config))
    web.open("?model=spa-eng")
    shown_in_full(web)
    for selector in ("#sentence", "#source", "#heatmap thead th span"):
        expect(web.page.locator(selector).first).to_have_attribute("lang", source)
    for selector in ("#target", "#spoken", "#hypotheses button", "#heatmap tbody th span"):
        expect(web.page.locator(selector).first).to_have_attribute("lang", target)


def test_a_model_that_is_missing_is_asked_for_by_name(web):
    web.open("?model=eng-spa")
    expect(web.page.get_by_role("alert")).to_contain_text("There is no model “eng-spa” on this server")
    web.page.get_by_label("Model").fill("spa-eng")
    web.page.keyboard.press("Enter")
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")
    assert web.page.url.endswith("?model=spa-eng")


def test_without_a_configuration_the_page_asks_for_a_model(web):
    web.page.route("**/config.json", lambda route: route.fulfill(status=404))
    web.open()
    expect(web.page.get_by_role("alert")).to_contain_text("Which model shall translate?")
    expect(web.page.get_by_label("Model")).to_be_visible()


def test_a_model_that_does_not_align_is_no_model_for_the_page(web):
    definitions = {"serving_default": {"outputs": {"translation": {}}}}
    metadata = {"metadata": {"signature_def": {"signature_def": definitions}}}
    web.page.route(METADATA, lambda route: route.fulfill(json=metadata))
    web.open()
    expect(web.page.get_by_role("alert")).to_contain_text("The model “spa-eng” does not align")


def test_when_a_version_is_unloaded_the_newest_takes_its_place(web):
    old = {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    web.page.route(STATUS, lambda route: route.fulfill(json={"model_version_status": [old]}))
    web.page.route(
        METADATA, lambda route: route.fulfill(response=route.fetch(url=route.request.url.replace("/2/", "/3/")))
    )
    web.open()
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 2")
    web.page.unroute(STATUS)
    web.ask("uno dos")  # the server has version 3 alone
    expect(web.page.locator("#target")).to_have_text("dos uno")
    expect(web.page.locator("#model")).to_have_text("spa-eng · version 3")


# For everybody


def shown_in_full(web: Opened) -> None:
    """Fills the page: a long sentence, an n-best list, the heatmap."""
    web.page.locator("#sentence").fill(
        "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, vivía un hidalgo."
    )
    web.page.get_by_text("Beam").click()
    web.page.locator("#with-heatmap").check()
    expect(web.page.locator("#heatmap table")).to_be_visible()


def test_a_phone_never_scrolls_sideways(web):
    web.page.set_viewport_size({"width": 375, "height": 667})
    web.open()
    shown_in_full(web)
    assert web.page.evaluate("document.documentElement.scrollWidth") == 375
    web.ask("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2)
    expect(web.page.locator("#source .word")).to_have_count(1)
    assert web.page.evaluate("document.documentElement.scrollWidth") == 375


def test_the_heatmap_s_caption_stays_in_sight_where_the_table_is_wider_than_the_screen(web):
    web.page.set_viewport_size({"width": 375, "height": 667})
    web.open()
    shown_in_full(web)
    region, caption = web.page.locator("#heatmap"), web.page.locator("#heatmap caption span")
    assert region.evaluate("region => region.scrollWidth > region.clientWidth")
    for left in (0, 100):
        region.evaluate("(region, left) => (region.scrollLeft = left)", left)
        assert region.evaluate("region => region.scrollLeft") == left
        box = caption.bounding_box()
        assert 0 <= box["x"] < box["x"] + box["width"] <= 375


def test_the_frame_of_a_word_cuts_into_no_letter_beside_it(web):
    beyond = """word => {
        const { outlineOffset, outlineWidth } = getComputedStyle(word);
        return parseFloat(outlineOffset) + parseFloat(outlineWidth);
    }"""
    answer = aligned(["libros", "?", ""], ["books", "?", ""], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "books?")
    web.open()
    web.page.route(PREDICT, lambda route: route.fulfill(json=answer))
    web.ask("libros?")
    mark = web.word("target", "?")
    mark.hover()
    expect(mark).to_have_css("outline-style", "solid")
    assert mark.evaluate(beyond) <= 0
    mark.focus()
    expect(mark).to_have_css("outline-width", "2px")
    assert mark.evaluate(beyond) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_shuts_somebody_out(web, scheme):
    web.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    web.open()
    shown_in_full(web)
    web.page.locator("#target .word").first.focus()
    found = Axe().run(web.page)
    assert found.violations_count == 0, found.generate_report()
    web.open("?model=nobody")
    expect(web.page.get_by_role("alert")).to_contain_text("There is no model")
    found = Axe().run(web.page)
    assert found.violations_count == 0, found.generate_report()


# Its pictures


def test_every_picture_in_the_documentation_can_be_taken_again():
    assert {f"page-{view.name}.png" for view in VIEWS} == {path.name for path in (ROOT / "docs").glob("page-*.png")}


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_picture_shows_what_its_view_says(chromium, served, tmp_path, view):
    shown = {
        "light": ("#target .chosen", "#heatmap table"),
        "dark": ("#heatmap table", "#hypotheses table"),
        "phone": ("#hypotheses table", "#heatmap table"),
        "offline": ("#problem strong", "#result"),
    }
    seen: list[bool] = []

    def show(page: Page) -> None:
        view.show(page)
        seen.extend(page.locator(selector).is_visible() for selector in shown[view.name])

    path = tmp_path / "page.png"
    take(chromium, f"{served}/?model=spa-eng", "uno dos tres", view._replace(show=show), path)
    assert seen == [True, False]
    with Image.open(path) as picture:
        width, height = picture.size
        darkness = picture.convert("L").getpixel((0, 0))
    scale = 2 if view.phone else 1.5
    assert width == view.width * scale
    assert (height > view.height * scale) if view.whole else (height == view.height * scale)
    assert (darkness < 128) == (view.scheme == "dark")
