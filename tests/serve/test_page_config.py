"""The files of the page, and config.json, which the server completes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from browser import Browser
from starlette.staticfiles import StaticFiles

from serve.core import Core
from serve.limits import Limits
from serve.models.model_config import ALL, models_in
from serve.models.repository import Repository
from serve.rest.app import create_app


class Published(NamedTuple):
    """A version and the content of its manifest."""

    name: str
    version: int
    manifest: str = ""


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Callable[..., httpx.Response]]:
    """Sends a request to a server with the given versions. ``content`` is the config.json of its page."""
    web, models = tmp_path / "web", tmp_path / "models"
    web.mkdir()
    models.mkdir()
    with contextlib.ExitStack() as browsers:

        def ask(method: str, path: str, content: str | None = None, *published: Published) -> httpx.Response:
            if content is not None:
                (web / "config.json").write_text(content)
            for name, version, manifest in published:
                extra = models / name / str(version) / "assets.extra"
                extra.mkdir(parents=True)
                (extra / "manifest.json").write_text(manifest)
            configs = [config._replace(policy=ALL) for config in models_in(models)]
            repository = Repository(lambda: configs, lambda path: None)
            repository.start()
            browser = Browser(create_app(Core(repository, Limits()), web=web))
            return browsers.enter_context(contextlib.closing(browser)).request(method, path)

        yield ask


@pytest.fixture
def configured(asked) -> Callable[..., httpx.Response]:
    """Requests the config.json of the page from a server with the given versions."""
    return functools.partial(asked, "GET", "/config.json")


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
        ("GET", "/v1/index.html", 400, "Malformed request: GET /v1/index.html"),
        ("GET", "/V1/models/toy", 404, "Could not find any versions of model toy"),
        ("GET", "/monitoring/prometheus/metrics", 404, "Not Found"),
    ],
)
def test_only_files_of_the_page_are_served_outside_v1(asked, tmp_path, method, path, status, message):
    (tmp_path / "secret").write_text("secret")
    response = asked(method, path)
    assert response.status_code == status
    assert response.json() == {"error": message}


@pytest.mark.parametrize("path", ["/.", "/none/..", "//", "/" + "a/" * 8000])
def test_a_path_that_is_no_file_s_name_reaches_no_folder_and_repeats_no_host(path, monkeypatch):
    """A redirect would name the host that the client sent."""
    monkeypatch.setattr(StaticFiles, "lookup_path", lambda self, path: pytest.fail(f"looked for {path}"))
    app = create_app(Core(Repository(list, lambda path: None), Limits()), web=WEB, with_cors=True)
    sent: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    asyncio.run(app({**scope, "scheme": "http", "headers": [(b"host", b"attacker.example")]}, receive, send))
    assert sent[0]["status"] == 404
    assert "attacker" not in str(sent)


WEB = Path(__file__).parents[2] / "serve" / "web"


def test_the_page_names_no_other_host():
    for path in WEB.iterdir():
        hosts = re.findall(r"https?://[\w.]+", path.read_text("utf-8"))
        assert set(hosts) <= {"http://www.w3.org"}, path.name  # the namespace of SVG, which is never fetched


def test_the_server_sends_every_file_of_the_page_with_its_type(served):
    types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for path in WEB.iterdir():
        response = httpx.get(f"{served}/{path.name}")
        assert response.text == path.read_text("utf-8")
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["content-type"].startswith(types.get(path.suffix, "application/json")), path.name
    assert httpx.get(f"{served}/").text == (WEB / "index.html").read_text("utf-8")


@pytest.mark.parametrize("with_cors", [False, True])
@pytest.mark.parametrize("path", ["/", "/config.json"])
def test_only_pages_that_may_read_the_answers_may_show_the_page_in_a_frame(with_cors, path):
    app = create_app(Core(Repository(list, lambda path: None), Limits()), web=WEB, with_cors=with_cors)
    with contextlib.closing(Browser(app)) as browser:
        headers = browser.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers.get("x-frame-options") == (None if with_cors else "DENY")


@pytest.mark.parametrize("path", ["/healthz", "/config.json", "/openapi.json", "/v1/models/none", "/none"])
def test_with_cors_pages_of_other_origins_may_send_their_headers_everywhere(path):
    app = create_app(Core(Repository(list, lambda path: None), Limits()), web=WEB, with_cors=True)
    with contextlib.closing(Browser(app)) as browser:
        preflight = {"Origin": "https://example.org", "Access-Control-Request-Headers": "authorization,x-request-id"}
        asked = browser.request("OPTIONS", path, headers=preflight)
        answer = browser.request("GET", path, headers={"Origin": "https://example.org"})
    assert asked.status_code == 200
    assert {"Authorization", "X-Request-Id"} <= set(asked.headers["access-control-allow-headers"].split(", "))
    assert answer.headers["access-control-allow-origin"] == "*"


def listed(*models, **fields):
    """Returns a config.json with models."""
    return json.dumps({"models": [{"name": name} for name in models], **fields})


@pytest.mark.parametrize(
    ("published", "named"),
    [
        ([Published("pairs", 2), Published("quick", 1)], ["pairs", "quick"]),
        ([Published("pairs", 1), Published("spa-eng", 3), Published("spa-eng", 2)], ["spa-eng", "pairs"]),
        ([Published("classifier", 1, "no json"), Published("pairs", 2, "{}")], ["pairs", "classifier"]),
        ([], ["spa-eng"]),
    ],
    ids=["missing", "there", "one that is no translator", "no model at all"],
)
def test_the_page_is_told_of_the_models_that_answer_those_of_its_file_first(configured, published, named):
    response = configured(listed("spa-eng", timeout_seconds=7), *published)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"models": [{"name": name} for name in named], "timeout_seconds": 7}


def test_a_configuration_without_a_model_gets_one_and_head_is_answered_too(asked):
    response = asked("HEAD", "/config.json", "{}", Published("pairs", 1))
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(json.dumps({"models": [{"name": "pairs"}]}, indent=2)) + 1


@pytest.mark.parametrize("models", [3, "spa-eng", [3, {"name": 3}, {}], None])
def test_malformed_models_of_a_configuration_are_ignored(configured, models):
    found = configured(json.dumps({"models": models}), Published("pairs", 1)).json()
    assert found == {"models": [{"name": "pairs"}]}


@pytest.mark.parametrize("content", ['{"models": ', '["spa-eng"]'])
def test_a_configuration_that_is_none_is_served_as_it_is(configured, content):
    assert configured(content, Published("pairs", 1)).text == content


def test_a_page_without_a_configuration_is_given_none(configured):
    response = configured(None, Published("pairs", 1))
    assert (response.status_code, response.json()) == (404, {"error": "Not Found"})


SPANISH_TO_ENGLISH = '{"languages": {"source": "es", "target": "en"}}'
ENGLISH_TO_SPANISH = '{"languages": {"source": "en", "target": "es"}}'


@pytest.mark.parametrize(
    ("own", "published", "told"),
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
def test_the_page_is_told_of_the_languages_of_its_models(configured, own, published, told):
    (found,) = configured(json.dumps({"models": [{"name": "spa-eng", **own}]}), *published).json()["models"]
    assert (found.get("source_language"), found.get("target_language")) == told


@pytest.mark.parametrize(
    ("own", "manifest", "told"),
    [
        ({}, '{"search": {"beam_size": 5}}', "beam"),
        ({}, '{"search": {"beam_size": 1}}', "align"),
        ({"search": "align"}, '{"search": {"beam_size": 5}}', "align"),
        ({}, '{"search": {"beam_size": "5"}}', None),
        ({}, '{"search": 5}', None),
    ],
)
def test_the_page_is_told_of_the_default_search_of_its_models(configured, own, manifest, told):
    content = json.dumps({"models": [{"name": "spa-eng", **own}]})
    (found,) = configured(content, Published("spa-eng", 1, manifest)).json()["models"]
    assert found.get("search") == told


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ('{"export": {"limitations": ["Dates are garbled.", 3]}}', ["Dates are garbled."]),
        ('{"export": {"limitations": "no list"}}', None),
        ('{"export": 5}', None),
    ],
)
def test_the_page_is_told_of_the_known_limits_of_its_models(configured, manifest, told):
    (found,) = configured("{}", Published("spa-eng", 1, manifest)).json()["models"]
    assert found.get("limitations") == told


def test_the_server_is_well_while_a_model_is_available(asked):
    assert asked("GET", "/healthz").status_code == 503
    assert asked("GET", "/healthz", None, Published("pairs", 1)).status_code == 200
