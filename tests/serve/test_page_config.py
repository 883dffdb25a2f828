"""The files of the page, and config.json, which the server completes."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from browser import Browser

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
def asked(tmp_path: Path) -> Callable[..., httpx.Response]:
    """Sends a request to a server with the given versions. ``content`` is the config.json of its page.

    ``method`` and ``headers`` are those of the request. ``options`` are those of the application.
    """
    web, models = tmp_path / "web", tmp_path / "models"
    web.mkdir()
    models.mkdir()

    def ask(
        path: str,
        content: str | None = None,
        *published: Published,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        if content is not None:
            (web / "config.json").write_text(content)
        for name, version, manifest in published:
            extra = models / name / str(version) / "assets.extra"
            extra.mkdir(parents=True)
            (extra / "manifest.json").write_text(manifest)
        configs = [config._replace(policy=ALL) for config in models_in(models)]
        repository = Repository(lambda: configs, lambda path: None)
        repository.start()
        app = create_app(Core(repository, Limits()), **{"web": web, **options})
        with contextlib.closing(Browser(app)) as browser:
            return browser.request(method, path, headers=headers)

    return ask


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nothing", 404, "Not Found"),
        ("GET", "/%2e%2e/secret", 404, "Not Found"),
        ("GET", "/..%2fsecret", 404, "Not Found"),
        ("GET", "/none/%2e%2e", 404, "Not Found"),  # a redirect would name the host that the client sent
        ("GET", "/%2f", 404, "Not Found"),
        ("GET", "/%00", 404, "Not Found"),
        ("GET", f"/{'a/' * 8000}", 404, "Not Found"),
        ("POST", "/", 404, "Not Found"),
        ("POST", "/v2/models/toy:predict", 404, "Not Found"),
        ("GET", "/v1/index.html", 400, "Malformed request: GET /v1/index.html"),
        ("GET", "/V1/models/toy", 404, "Could not find any versions of model toy"),
        ("GET", "/monitoring/prometheus/metrics", 404, "Not Found"),
    ],
)
def test_only_files_of_the_page_are_served_outside_v1(asked, tmp_path, method, path, status, message):
    (tmp_path / "secret").write_text("secret")
    response = asked(path, method=method)
    assert response.status_code == status
    assert response.json() == {"error": message}


WEB = Path(__file__).parents[2] / "serve" / "web"


def test_the_server_sends_every_file_of_the_page_with_its_type(served):
    types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for path in WEB.iterdir():
        response = httpx.get(f"{served}/{path.name}")
        text = path.read_text("utf-8")
        assert response.text == text or response.json() == json.loads(text)  # JSON has escapes
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["content-type"].startswith(types.get(path.suffix, "application/json")), path.name
    assert httpx.get(f"{served}/").text == (WEB / "index.html").read_text("utf-8")


@pytest.mark.parametrize("with_cors", [False, True])
@pytest.mark.parametrize("path", ["/", "/config.json"])
def test_only_pages_that_may_read_the_answers_may_show_the_page_in_a_frame(asked, with_cors, path):
    headers = asked(path, web=WEB, with_cors=with_cors).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers.get("x-frame-options") == (None if with_cors else "DENY")


@pytest.mark.parametrize("path", ["/healthz", "/config.json", "/openapi.json", "/v1/models/none", "/none"])
def test_with_cors_pages_of_other_origins_may_send_their_headers_everywhere(asked, path):
    origin = {"Origin": "https://example.org"}
    headers = {**origin, "Access-Control-Request-Headers": "authorization,x-request-id"}
    preflight = asked(path, method="OPTIONS", headers=headers, web=WEB, with_cors=True)
    assert preflight.status_code == 200
    assert {"Authorization", "X-Request-Id"} <= set(preflight.headers["access-control-allow-headers"].split(", "))
    answer = asked(path, headers=origin, web=WEB, with_cors=True)
    assert answer.headers["access-control-allow-origin"] == "*"


LISTED = [{"name": "spa-eng"}]


@pytest.mark.parametrize(
    ("models", "published", "named"),
    [
        (LISTED, [Published("pairs", 2), Published("quick", 1)], ["pairs", "quick"]),
        (LISTED, [Published("pairs", 1), Published("spa-eng", 3), Published("spa-eng", 2)], ["spa-eng", "pairs"]),
        (LISTED, [Published("classifier", 1, "no json"), Published("pairs", 2, "{}")], ["pairs", "classifier"]),
        (LISTED, [], ["spa-eng"]),
        *((malformed, [Published("pairs", 1)], ["pairs"]) for malformed in (3, "spa-eng", [3, {"name": 3}, {}], None)),
    ],
)
def test_the_page_is_told_of_the_models_that_answer_those_of_its_file_first(asked, models, published, named):
    response = asked("/config.json", json.dumps({"models": models, "timeout_seconds": 7}), *published)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"models": [{"name": name} for name in named], "timeout_seconds": 7}


def test_a_configuration_without_a_model_gets_one_and_head_is_answered_too(asked):
    response = asked("/config.json", "{}", Published("pairs", 1), method="HEAD")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(json.dumps({"models": [{"name": "pairs"}]}, indent=2)) + 1


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [(None, 404, '{"error": "Not Found"}'), *((each, 200, each) for each in ('{"models": ', '["spa-eng"]'))],
)
def test_a_configuration_that_is_missing_or_malformed_is_served_as_it_is(asked, content, status, text):
    response = asked("/config.json", content, Published("pairs", 1))
    assert (response.status_code, response.text) == (status, text)


def test_the_file_of_the_page_has_the_limits_of_the_committed_model():
    """nginx serves the file as it is."""
    manifest = json.loads((WEB.parents[1] / "saved_models/spa-eng/1/assets.extra/manifest.json").read_text("utf-8"))
    (model,) = json.loads((WEB / "config.json").read_text("utf-8"))["models"]
    assert model["limitations"] == manifest["export"]["limitations"]


SPANISH_TO_ENGLISH = '{"languages": {"source": "es", "target": "en"}}'
ENGLISH_TO_SPANISH = '{"languages": {"source": "en", "target": "es"}}'


@pytest.mark.parametrize(
    ("own", "published", "told"),
    [
        (
            {},
            [Published("spa-eng", 1, ENGLISH_TO_SPANISH), Published("spa-eng", 2, SPANISH_TO_ENGLISH)],
            {"source_language": "es", "target_language": "en"},
        ),
        (
            {"source_language": "es-MX", "search": "align", "limitations": ["Of another model."]},
            [Published("spa-eng", 1, SPANISH_TO_ENGLISH[:-1] + ', "export": {"limitations": []}}')],
            {"source_language": "es", "target_language": "en", "search": "align", "limitations": []},
        ),
        (
            {"source_language": "es", "search": "align"},
            [Published("eng-spa", 1, ENGLISH_TO_SPANISH)],
            {"name": "eng-spa", "source_language": "en", "target_language": "es"},
        ),
        ({"source_language": "es"}, [], {"source_language": "es"}),
        *(
            ({}, [Published("spa-eng", 1, manifest)], told)
            for manifest, told in {
                '{"languages": {"source": "es", "target": null}}': {"source_language": "es"},
                '{"languages": "es"}': {},
                '{"search": {"beam_size": 5}}': {"search": "beam"},
                '{"search": {"beam_size": 1}}': {"search": "align"},
                '{"search": {"beam_size": "5"}}': {},
                '{"search": 5}': {},
                '{"export": {"limitations": ["Dates are garbled.", 3]}}': {"limitations": ["Dates are garbled."]},
                '{"export": {"limitations": "no list"}}': {},
                '{"export": 5}': {},
                "no json": {},
            }.items()
        ),
    ],
)
def test_the_page_is_told_of_languages_search_and_limits_by_the_newest_version_or_else_by_its_file(
    asked, own, published, told
):
    response = asked("/config.json", json.dumps({"models": [{"name": "spa-eng", **own}]}), *published)
    assert response.json() == {"models": [{"name": "spa-eng", **told}]}


def test_the_server_is_well_while_a_model_is_available(asked):
    assert asked("/healthz").status_code == 503
    assert asked("/healthz", None, Published("pairs", 1)).status_code == 200
