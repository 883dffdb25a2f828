"""The conformance checks: the embedded server passes them, and servers that are a little different do not."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable

import httpx
import pytest

from serve.conformance.__main__ import examine, main
from serve.conformance.refusals import Refusal, check_refusal
from serve.conformance.server import Mismatch, Server, connect
from serve.conformance.successes import SUCCESSES, decimal_text

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(served):
    server = connect(served, "spa-eng", 30)
    yield server
    server.http.close()


def test_the_embedded_server_passes_every_check(served, capsys, tmp_path):
    with pytest.raises(SystemExit) as done:
        main(["--url", served, "--json", str(tmp_path / "report.json")])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines[:-1] if not line.startswith("ok ")] == []
    assert done.value.code == 0
    assert lines[-1] == f"{len(lines) - 1} of {len(lines) - 1} checks passed, model spa-eng version 3"
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert (report["model"], report["version"], report["failed"]) == ("spa-eng", 3, 0)
    assert len(report["checks"]) == len(lines) - 1


def tampered(server: Server, tamper: Callable[[httpx.Request, httpx.Response], httpx.Response]) -> Server:
    """A server that answers as ``server`` does, but for what ``tamper`` changes."""

    def answer(request: httpx.Request) -> httpx.Response:
        response = server.http.send(
            server.http.build_request(
                request.method,
                str(request.url).replace("http://tampered", str(server.http.base_url).rstrip("/")),
                content=request.content,
                headers={k: v for k, v in request.headers.items() if k != "host"},
            )
        )
        headers = {"content-type": response.headers.get("content-type", "")}
        return tamper(request, httpx.Response(response.status_code, headers=headers, content=response.content))

    http = httpx.Client(base_url="http://tampered", transport=httpx.MockTransport(answer))
    return Server(http, server.model, server.version)


def failures(server: Server) -> set[str]:
    return {outcome.check for outcome in examine(server) if outcome.failure}


def changed(response: httpx.Response, old: str, new: str) -> httpx.Response:
    """``response`` with ``new`` wherever the regular expression ``old`` matched."""
    text = re.sub(old, new, response.text)
    return httpx.Response(response.status_code, headers=response.headers, content=text.encode())


def test_an_untouched_server_fails_nothing(server):
    assert failures(tampered(server, lambda request, response: response)) == set()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (r"\.333333343", ".3333333", {"decimals"}),
        (r'"truncated": false', '"truncated": 0', {"rows"}),
        (r'"AVAILABLE"', '"LOADING"', {"status"}),
        (r'"version": "(\d+)"', r'"version": \1', {"status", "metadata"}),
        (r"DT_STRING", "7", {"metadata"}),
        (
            r"Malformed request",
            "Bad request",
            {"slash after a model", "PUT on :predict"},
        ),
        (r"Latest\(", "Newest(", {"unknown model", "metadata of an unknown model"}),
        (r"at offset: \d+", "somewhere", {"JSON cut short", "two JSON documents"}),
        (r"Error: INVALID_ARGUMENT: ", "", {"rows of different sizes", "row that is a number"}),
        (r"ó", r"\\\\u00f3", {"alignment"}),
        (r"\b1\.0\b", "0.5", {"alignment"}),
    ],
)
def test_a_server_that_words_its_answers_differently_fails_the_checks_of_those_words(server, old, new, found):
    assert found <= failures(tampered(server, lambda request, response: changed(response, old, new)))


@pytest.mark.parametrize("status", [404, 422, 500])
def test_a_server_with_other_status_codes_fails(server, status):
    def tamper(request: httpx.Request, response: httpx.Response) -> httpx.Response:
        code = status if response.status_code == 400 else response.status_code
        return httpx.Response(code, headers=response.headers, content=response.content)

    assert {"empty body", "missing column", "unknown label", "GET on :predict"} <= failures(tampered(server, tamper))


def test_a_server_that_mixes_requests_up_fails(server):
    previous = ['"x"']

    def tamper(request: httpx.Request, response: httpx.Response) -> httpx.Response:
        found = re.search(r'"translation": (".*?")', response.text)
        mixed = changed(response, r'"translation": ".*?"', '"translation": ' + previous[0].replace("\\", r"\\"))
        previous[0] = found[1] if found else previous[0]
        return mixed

    assert "together" in failures(tampered(server, tamper))


def test_a_server_that_ignores_gzip_base64_or_case_fails(server):
    def tamper(request: httpx.Request, response: httpx.Response) -> httpx.Response:
        if "gzip" in request.headers.get("content-encoding", "") or "b64" in request.content.decode(errors="replace"):
            return httpx.Response(400, headers=response.headers, content=b'{"error": "no"}')
        if str(request.url.path) != str(request.url.path).lower():
            return httpx.Response(404, content=b"no such page")
        return response

    assert {"gzip in", "base64 in", "spellings"} <= failures(tampered(server, tamper))


def test_a_label_is_checked_where_one_is_named(server):
    (outcome,) = [outcome for outcome in examine(server, "stable") if outcome.check == "label stable"]
    assert outcome.failure.startswith("status: expected 200, received 400")


def test_dots_in_an_expected_message_stand_for_anything_and_nothing_else_does(server):
    body = {"instances": []}
    good = Refusal("x", "POST", f"{server.path}:predict", body, 400, "JSON Value: ... No values in 'instances' array")
    check_refusal(server, good)
    for message in ("No values in 'instances' array", "JSON Value: ... No values", "JSON.Value: ... array"):
        with pytest.raises(Mismatch, match="error: expected"):
            check_refusal(server, good._replace(message=message))


def test_every_check_of_a_success_says_what_it_checks():
    assert all(check.__doc__ for check in SUCCESSES)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (-2.0, "-2.0"), (0.1, "0.1"), (1 / 3, "0.333333343"), (1e6, "1e+06"), (float("nan"), "nan")],
)
def test_decimals_are_those_of_tensorflow_serving(value, text):
    assert decimal_text(value) == text


def test_a_model_that_is_not_there_is_told_in_one_line(served):
    with pytest.raises(
        SystemExit, match=r"--model: expected a model that is AVAILABLE, received 'no-such': .*Could not"
    ):
        main(["--url", served, "--model", "no-such"])


def test_a_server_that_is_not_there_is_told_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(SystemExit, match=f"serve.conformance: {url}: "):
        main(["--url", url])
