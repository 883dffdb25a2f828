"""The page's files, and the configuration that the server fills in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from browser import Browser

from serve.core import Core
from serve.limits import Limits
from serve.models.model_config import ALL, models_in
from serve.models.repository import Repository
from serve.rest.app import create_app


class Idle:
    """A servable that is never run."""

    def close(self) -> None:
        pass


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    """A browser before a server of no model, with a folder of files beside a secret one."""
    web = tmp_path / "web"
    (web / "assets").mkdir(parents=True)
    (web / "index.html").write_text("<title>page</title>")
    (web / "assets" / "page.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    repository = Repository(list, lambda path: Idle())
    browser = Browser(create_app(Core(repository, Limits()), web=web))
    yield browser
    browser.close()


def test_files_are_served_outside_v1(page):
    assert page.get("/").text == "<title>page</title>"
    assert page.get("/").headers["content-type"].startswith("text/html")
    assert page.get("/assets/page.js").text == "1"
    assert page.request("HEAD", "/").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nothing", 404, "Not Found"),
        ("GET", "/%2e%2e/secret", 404, "Not Found"),
        ("GET", "/..%2fsecret", 404, "Not Found"),
        ("GET", "/%00", 404, "Not Found"),
        ("GET", f"/{'a' * 5000}", 404, "Not Found"),
        ("POST", "/", 404, "Not Found"),
        ("POST", "/v2/models/toy:predict", 404, "Not Found"),
        ("GET", "/v1/", 400, "Malformed request: GET /v1/"),
        ("GET", "/v1/index.html", 400, "Malformed request: GET /v1/index.html"),
        ("GET", "/V1/models/toy", 404, "Could not find any versions of model toy"),
        ("GET", "/monitoring/prometheus/metrics", 404, "Not Found"),
    ],
)
def test_files_change_nothing_else(page, method, path, status, message):
    response = page.request(method, path)
    assert response.status_code == status
    assert response.json() == {"error": message}


class Published(NamedTuple):
    """A version, and what its manifest holds."""

    name: str
    version: int
    manifest: str = ""


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Callable[..., httpx.Response]]:
    """Asks a server of some versions for its page's config.json; None is a folder without one."""
    web, models = tmp_path / "web", tmp_path / "models"
    browsers = []

    def ask(content: str | None, *published: Published, method: str = "GET") -> httpx.Response:
        web.mkdir()
        models.mkdir()
        if content is not None:
            (web / "config.json").write_text(content)
        for name, version, manifest in published:
            extra = models / name / str(version) / "assets.extra"
            extra.mkdir(parents=True)
            (extra / "manifest.json").write_text(manifest)
        repository = Repository(
            lambda: [config._replace(policy=ALL) for config in models_in(models)], lambda path: Idle()
        )
        repository.start()
        browsers.append(Browser(create_app(Core(repository, Limits()), web=web)))
        return browsers[-1].request(method, "/config.json")

    yield ask
    for browser in browsers:
        browser.close()


SPANISH = '{"model": "spa-eng", "timeout_seconds": 7}'


@pytest.mark.parametrize(
    ("published", "named"),
    [
        ([Published("pairs", 2), Published("quick", 1)], "pairs"),
        ([Published("pairs", 1), Published("spa-eng", 3)], "spa-eng"),
        ([Published("classifier", 1, "no json"), Published("pairs", 2, "{}")], "pairs"),
        ([], "spa-eng"),
    ],
    ids=["missing", "there", "one that is no translator", "no model at all"],
)
def test_the_page_is_told_of_a_model_that_answers(configured, published, named):
    response = configured(SPANISH, *published)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-cache"
    assert response.json() == {"model": named, "timeout_seconds": 7}


def test_a_configuration_without_a_model_gets_one_and_its_head_is_answered_too(configured):
    response = configured("{}", Published("pairs", 1), method="HEAD")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len('{\n  "model": "pairs"\n}\n')


@pytest.mark.parametrize("content", ['{"model": ', '["spa-eng"]'])
def test_a_configuration_that_is_none_is_served_as_it_is(configured, content):
    assert configured(content, Published("pairs", 1)).text == content


def test_a_page_without_a_configuration_is_given_none(configured):
    response = configured(None, Published("pairs", 1))
    assert (response.status_code, response.json()) == (404, {"error": "Not Found"})


SPANISH_TO_ENGLISH = '{"languages": {"source": "es", "target": "en"}}'
ENGLISH_TO_SPANISH = '{"languages": {"source": "en", "target": "es"}}'


@pytest.mark.parametrize(
    ("said", "published", "told"),
    [
        ({}, [Published("spa-eng", 1, ENGLISH_TO_SPANISH), Published("spa-eng", 2, SPANISH_TO_ENGLISH)], ("es", "en")),
        ({"source_language": "es-MX"}, [Published("spa-eng", 1, SPANISH_TO_ENGLISH)], ("es-MX", "en")),
        ({"source_language": "es"}, [Published("eng-spa", 1, ENGLISH_TO_SPANISH)], ("en", "es")),
        ({"source_language": "es"}, [Published("eng-spa", 1, "{}")], (None, None)),
        ({"source_language": "es"}, [], ("es", None)),
        ({}, [Published("spa-eng", 1, '{"languages": {"source": "es"}}')], ("es", None)),
        ({}, [Published("spa-eng", 1, '{"languages": {"source": 3, "target": null}}')], (None, None)),
        ({}, [Published("spa-eng", 1, '{"languages": "es"}')], (None, None)),
        ({}, [Published("spa-eng", 1, "no json")], (None, None)),
    ],
    ids=[
        "the newest version's",
        "the file's own",
        "another model's",
        "another model without any",
        "no model at all",
        "one side",
        "no codes",
        "no sides",
        "no manifest",
    ],
)
def test_the_page_is_told_of_the_languages_of_its_model(configured, said, published, told):
    found = configured(json.dumps({"model": "spa-eng", **said}), *published).json()
    assert (found.get("source_language"), found.get("target_language")) == told
