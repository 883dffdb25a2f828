"""Takes the screenshots of the web page for the documentation, docs/page-*.png.

    python -m benchmarks.page_pictures --model-dir saved_models --model spa-eng

The script serves the model itself. Any model works, because words are selected by position. Chromium takes the
screenshots with the machine's fonts. The screenshots in the repository use Noto Serif and Noto Sans.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import tyro
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from benchmarks.serve_load import started

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium", "google-chrome", "chromium-browser")


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    model_dir: Path = ROOT / "saved_models"
    """Folder with NAME/VERSION/saved_model.pb."""
    model: str = "spa-eng"
    """Name of the model."""
    sentence: str = "Mi hermana mayor trabaja en un hospital."
    """Sentence to translate."""
    to: Path = ROOT / "docs"
    """Folder for the screenshots."""


class View(NamedTuple):
    """State of the page and size of the screen in a screenshot."""

    name: str
    show: Callable[[Page], None]
    """Function that acts on the page once the translation is shown."""
    width: int = 860
    height: int = 560
    scheme: Literal["light", "dark"] = "light"
    phone: bool = False
    whole: bool = False
    """If True, includes the whole page instead of the visible part."""


def point_at_translation(page: Page) -> None:
    """Points at the word in the middle of the translation."""
    _middle(page, "target").hover()
    expect(page.locator(".chosen")).to_have_count(1)


def open_heatmap(page: Page) -> None:
    """Shows the heatmap and points at the word in the middle of the source."""
    page.locator("#with-heatmap").check()
    _middle(page, "source").hover()
    expect(page.locator("#heatmap table")).to_be_visible()


def open_n_best(page: Page) -> None:
    """Selects beam search and taps on the last word of the translation."""
    page.get_by_text("Beam").click()
    expect(page.locator("#hypotheses table")).to_be_visible()
    page.locator("#target .word").last.tap()


VIEWS = (
    View("light", point_at_translation, height=530),
    View("dark", open_heatmap, scheme="dark", whole=True),
    View("phone", open_n_best, 375, 812, phone=True),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves the model, takes every screenshot and prints its path."""
    options = tyro.cli(Options, args=arguments)
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit(f"page_pictures: no browser ({', '.join(BROWSERS)}) is on PATH. Debian: apt-get install chromium.")
    options.to.mkdir(parents=True, exist_ok=True)
    with started(options.model_dir) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        for view in VIEWS:
            path = options.to / f"page-{view.name}.png"
            take(browser, f"http://{server.host}:{server.port}/?model={options.model}", options.sentence, view, path)
            print(path)


def take(browser: Browser, url: str, sentence: str, view: View, path: Path) -> None:
    """Opens the page, translates ``sentence`` and writes the screenshot ``view`` to ``path``."""
    context = browser.new_context(
        viewport={"width": view.width, "height": view.height},
        device_scale_factor=2 if view.phone else 1.5,
        color_scheme=view.scheme,
        reduced_motion="reduce",
        has_touch=view.phone,
    )
    page = context.new_page()
    page.goto(url)
    page.locator("#sentence").fill(sentence)
    page.locator("#sentence").press("Enter")
    expect(page.locator("#target .word").first).to_be_visible()
    view.show(page)
    page.screenshot(path=path, full_page=view.whole)
    context.close()


def _middle(page: Page, side: str) -> Locator:
    words = page.locator(f"#{side} .word")
    return words.nth(words.count() // 2)


if __name__ == "__main__":
    main()
