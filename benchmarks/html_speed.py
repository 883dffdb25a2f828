"""Measures a translator in an HTML file: time of sentences and of its start, memory, and tasks of the main thread.

    nmt export saved_models/spa-eng/1 --to translator.html
    python -m benchmarks.html_speed --corpus spa-eng.zip --html translator.html > docs/measured/html-speed.json

Chromium, which must be installed, opens the file from disk. The page's worker translates 200 sentences of the test set,
one after another. DevTools slows pages down, but not workers, so the slow times are those of the worker's script in the
main thread of an empty page whose CPU is slowed four times. Prints JSON.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro

from benchmarks.machine import machine, print_result
from nmt_keras.corpus import evaluation_pairs, read_pairs, split_pairs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

STARTS = 5
SEARCHES = {"greedy": "align", "beam 5": "beam"}
TRANSLATE = """async ([signature, sentences]) => {
    const times = [];
    for (const sentence of sentences) {
        const began = performance.now();
        await page_service_js.ask("translate", signature, sentence);
        times.push(performance.now() - began);
    }
    return times;
}"""
"""Times of the page's worker, in milliseconds."""
IN_MAIN_THREAD = """async ([script, sizes, assets]) => {
    const answers = new Map();
    const answer = ({ id, result, error }) => error ? answers.get(id)[1](Error(error)) : answers.get(id)[0](result);
    const worker = new Function("postMessage", "onmessage", script + "; return onmessage;")(answer);
    const ask = (method, ...args) => new Promise((...settle) => {
        answers.set(answers.size, settle);
        worker({ data: { id: answers.size - 1, method, args } });
    });
    const done = ask("load", sizes);
    for (const [asset, piece] of assets) worker({ data: { asset, piece } });
    await done;
    globalThis.page_service_js = { ask };
}"""
WATCH = """
    globalThis.tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)))
        .observe({ type: "longtask", buffered: true });
    addEventListener("DOMContentLoaded", () => {
        new MutationObserver(() => { globalThis.shown ??= performance.now(); })
            .observe(document.getElementById("result"), { attributeFilter: ["hidden"] });
        const field = document.getElementById("sentence");
        field.value = "¿Dónde está la biblioteca?";
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    });
"""
"""Types a sentence as soon as the page has been read, and notes when its translation is shown."""


@dataclass(frozen=True)
class Settings:
    """Options of the benchmark."""

    corpus: str
    """Path of the Spanish-English corpus file."""
    html: Path
    """File that ``nmt export --to`` wrote."""


def main(settings: Settings) -> None:
    """Measures and prints."""
    before = machine()
    everything = read_pairs(Path(settings.corpus), source_column=1, target_column=0).pairs
    pairs = evaluation_pairs(split_pairs(everything, key_side="target")["test"], key_side="target")
    sentences = random.Random(1).sample([pair.source for pair in pairs], 200)
    with chromium() as browser:
        starts = [start(browser, settings.html) for _ in range(STARTS)]
        page = opened(browser, settings.html)
        times = {name: translate(page, signature, sentences) for name, signature in SEARCHES.items()}
        page.close()
        page = browser.new_page()
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
        content = settings.html.read_text("utf-8")
        (script,) = re.findall(r'<script type="text/plain" class="worker">(.*?)</script>', content, re.DOTALL)
        assets = re.findall(r'<script type="text/plain" class="(\w+)">([\w+/=]+)</script>', content)
        (sizes,) = re.findall(r'"sizes": (\{[^}]*\})', content)
        page.evaluate(f"([script, assets]) => ({IN_MAIN_THREAD})([script, {sizes}, assets])", [script, assets])
        slow = {f"{name}, slowed four times": translate(page, each, sentences) for name, each in SEARCHES.items()}
    quantiles = {
        name: [round(float(np.quantile(found, q)), 1) for q in (0.5, 0.95)] for name, found in (times | slow).items()
    }
    found = {
        "chromium": browser.version,
        "bytes": settings.html.stat().st_size,
        "milliseconds_p50_p95": quantiles,
        **{name: median(each[name] for each in starts) for name in starts[0]},
    }
    rows = [{"search": name, "p50, ms": p50, "p95, ms": p95} for name, (p50, p95) in quantiles.items()]
    told = (
        f"First translation {found['first_answer_ms']:.0f} ms after opening; longest task of the main thread "
        f"{found['longest_task_ms']:.0f} ms (0: below 50); {found['renderer_mb']:.0f} MB. Medians of {STARTS} starts."
    )
    print_result(before, found, rows, told)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yields a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


def opened(browser: Browser, path: Path) -> Page:
    """Returns the page of a file after its self-check."""
    page = browser.new_page()
    page.goto(path.absolute().as_uri())
    while not page.locator("#check").text_content():
        page.wait_for_timeout(100)
    return page


def translate(page: Page, signature: str, sentences: Sequence[str]) -> list[float]:
    """Returns the milliseconds of each sentence, after ten that warm up the compiler."""
    page.evaluate(TRANSLATE, [signature, sentences[:10]])
    return page.evaluate(TRANSLATE, [signature, sentences])


def start(browser: Browser, path: Path) -> dict[str, Any]:
    """Returns the time of the first translation, the longest task of the main thread, and the renderer's memory."""
    page = browser.new_page()
    page.add_init_script(WATCH)
    page.goto(path.absolute().as_uri())
    while (shown := page.evaluate("globalThis.shown")) is None:
        page.wait_for_timeout(50)
    page.wait_for_timeout(3000)  # the self-check, and the collection of garbage
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    sizes = [proportional_megabytes(each["id"]) for each in processes if each["type"] == "renderer"]
    longest = max([0, *page.evaluate("tasks")])
    page.close()
    return {"first_answer_ms": shown, "longest_task_ms": longest, "renderer_mb": max(sizes)}


def proportional_megabytes(pid: int) -> float:
    """Returns the memory of a process. Shared pages count in part."""
    found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
