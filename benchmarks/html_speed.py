"""Measures a translator in an HTML file: time of sentences and of its start, memory, and tasks of the main thread.

    nmt export saved_models/spa-eng/1 --to translator.html
    python -m benchmarks.html_speed --corpus spa-eng.zip --html translator.html > docs/measured/html-speed.json

Chromium, which must be installed, opens the file from disk. The page's worker translates 200 sentences of the test set,
one after another. DevTools slows pages down, but not workers, so the slow times are those of the worker's script in the
main thread of an empty page whose CPU is slowed four times. Prints JSON.
"""

import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import tyro
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from benchmarks.machine import field, machine, print_result, spanish_english

CHROMIUM = shutil.which("chromium") or "chromium"
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
IN_MAIN_THREAD = """async (elements) => {
    const script = new Map(elements).get("worker");
    const answers = new Map();
    const answer = ({ id, result, error }) => error ? answers.get(id)[1](Error(error)) : answers.get(id)[0](result);
    const worker = new Function("postMessage", "onmessage", script + "; return onmessage;")(answer);
    const ask = (method, ...args) => new Promise((...settle) => {
        answers.set(answers.size, settle);
        worker({ data: { id: answers.size - 1, method, args } });
    });
    for (const [asset, piece] of elements) if (asset !== "worker") worker({ data: { asset, piece } });
    await ask("load");
    globalThis.page_service_js = { ask };
}"""
WATCH = """
    globalThis.shown = new Promise((resolve) => addEventListener("DOMContentLoaded", () => {
        new MutationObserver(() => resolve(performance.now()))
            .observe(document.getElementById("result"), { attributeFilter: ["hidden"] });
        const field = document.getElementById("sentence");
        field.value = "¿Dónde está la biblioteca?";
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    }));
"""
"""Types a sentence as soon as the page has been read. ``shown`` is the time at which its translation is shown."""
LONG_TASKS = """() => new Promise((resolve) => {
    const tasks = [0];
    const watch = (list) => tasks.push(...list.getEntries().map(({ duration }) => duration));
    new PerformanceObserver(watch).observe({ type: "longtask", buffered: true });
    setTimeout(() => resolve(Math.max(...tasks)), 500);
})"""
"""Longest task of the main thread, in milliseconds; 0 if all are below 50."""


def main(corpus: Path, html: Path) -> None:
    """Measures and prints.

    Args:
        corpus: Path of the Spanish-English corpus file.
        html: File that ``nmt export --to`` wrote.
    """
    before = machine()
    pairs = spanish_english(corpus)["test"]
    sentences = random.Random(1).sample([pair.source for pair in pairs], 200)
    with sync_playwright() as playwright:
        starts = [start(playwright, html) for _ in range(STARTS)]
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        answers = [first_answer(browser, html) for _ in range(STARTS)]
        pages = {"": browser.new_page(), ", slowed four times": slowed(browser, html)}
        pages[""].goto(html.absolute().as_uri())
        times = {
            search + speed: translate(page, signature, sentences)
            for speed, page in pages.items()
            for search, signature in SEARCHES.items()
        }
        version = browser.version
        browser.close()
    quantiles = {name: [round(float(np.quantile(each, q)), 1) for q in (0.5, 0.95)] for name, each in times.items()}
    tasks, megabytes = (median(each) for each in zip(*starts, strict=True))
    found = {
        "chromium": version,
        "bytes": html.stat().st_size,
        "milliseconds_p50_p95": quantiles,
        "first_answer_ms": round(median(answers)),
        "longest_task_ms": round(tasks),
        "renderer_mb": round(megabytes),
    }
    rows = [{"search": name, "p50, ms": p50, "p95, ms": p95} for name, (p50, p95) in quantiles.items()]
    told = (
        f"First translation {found['first_answer_ms']} ms after opening; longest task of the main thread "
        f"{found['longest_task_ms']} ms (0: below 50); {found['renderer_mb']} MB. Medians of {STARTS} starts."
    )
    print_result(before, found, rows, told)


def translate(page: Page, signature: str, sentences: Sequence[str]) -> list[float]:
    """Returns the milliseconds of each sentence, after ten that warm up the compiler."""
    page.evaluate(TRANSLATE, [signature, sentences[:10]])
    return page.evaluate(TRANSLATE, [signature, sentences])


def slowed(browser: Browser, path: Path) -> Page:
    """Returns an empty page that translates in its main thread, with a CPU that is slowed four times."""
    page, element = browser.new_page(), r'<script type="text/plain" class="(\w+)">(.*?)</script>'
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.evaluate(IN_MAIN_THREAD, re.findall(element, path.read_text("utf-8"), re.DOTALL))
    return page


def first_answer(browser: Browser, path: Path) -> float:
    """Returns the time from opening a file to the first translation, in milliseconds."""
    with browser.new_page() as page:
        page.add_init_script(WATCH)
        page.goto(path.absolute().as_uri())
        return float(page.evaluate("shown"))


def start(playwright: Playwright, path: Path) -> tuple[float, float]:
    """Returns the longest task of the main thread, and the renderer's memory in MB.

    DevTools connects after the start, because it decodes the whole file in one task while it watches the network.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ("--headless=new", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={profile}")
        command = [CHROMIUM, *options, path.absolute().as_uri()]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(8)  # the self-check, and the collection of garbage
            port = (Path(profile) / "DevToolsActivePort").read_text().split()[0]
            browser = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
            processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
            megabytes = max(proportional_size(each["id"]) for each in processes if each["type"] == "renderer")
            longest = browser.contexts[0].pages[0].evaluate(LONG_TASKS)
            process.terminate()
    return float(longest), megabytes


def proportional_size(pid: int) -> float:
    """Returns the memory of a process in MB. Pages that processes share count in part."""
    return int(field(f"/proc/{pid}/smaps_rollup", r"^Pss: +(\d+) kB")) / 1000


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
