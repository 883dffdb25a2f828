"""The conformance checks: the embedded server passes them, and servers with small differences fail."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

import httpx
import pytest
import yaml
from servers import ROOT, free_port

from serve.client import ClientError
from serve.conformance import refusals
from serve.conformance.__main__ import examine, main
from serve.conformance.server import Mismatch, Server, connect
from serve.conformance.successes import alignment, cors, metadata, monitoring, rows, status, together

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(served):
    with httpx.Client(base_url=served) as http:
        yield connect(http, "spa-eng")


def test_the_embedded_server_passes_every_check(served, capsys, tmp_path):
    with pytest.raises(SystemExit) as done:
        main(["--url", served, "--monitoring", "--cors", "--json", str(tmp_path / "report.json")])
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert done.value.code == 0
    assert last == f"{len(lines)} of {len(lines)} checks passed, model spa-eng version 3"
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert (report["model"], report["version"], report["failed"]) == ("spa-eng", 3, 0)
    assert [f"ok    {check['check']}" for check in report["checks"]] == lines
    assert {"ok    monitoring", "ok    cors", "ok    unknown signature"} < set(lines)


@pytest.mark.parametrize("fails", [False, True])
def test_make_checks_the_pinned_image_and_removes_its_container(served, tmp_path, fails):
    """A stand-in for ``docker`` records its arguments. The embedded server answers as the container."""
    docker, report = tmp_path / "docker", tmp_path / "report.json"
    docker.write_text(f"""#!/bin/sh
        echo "$@" >> {tmp_path}/calls
        case $1 in run) exit {int(fails)};; image) echo IMAGE@DIGEST;; esac
    """)
    docker.chmod(0o755)
    variables = [f"RUN={sys.executable}", f"IMAGE_URL={served}", f"REPORT={report}"]
    command = ["make", "--old-file=.venv/.installed", "conformance-container", *variables]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == (not fails), done.stdout + done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    image = yaml.safe_load((ROOT / "serve/deploy/compose.yaml").read_text())["services"]["serving"]["image"]
    assert calls[0] == f"pull --quiet {image}"
    assert f"--publish {served.removeprefix('http://')}:8501" in calls[1]
    assert f" {image} --monitoring_config_file" in calls[1]
    assert calls[-1] == "rm --force nmt-conformance"
    if not fails:
        written = json.loads(report.read_text("utf-8"))
        assert (written["server"], written["failed"]) == ("IMAGE@DIGEST", 0)
        assert datetime.fromisoformat(written["date"]).tzinfo is not None


@contextlib.contextmanager
def tampered(server: Server, tamper: Callable[[httpx.Response], httpx.Response]) -> Iterator[Server]:
    """Yields the server with answers that ``tamper`` changes. They have no headers, except for the content type."""

    def handle(request: httpx.Request) -> httpx.Response:
        answer = server.http.send(request)
        headers = {"content-type": answer.headers.get("content-type", "")}
        return tamper(httpx.Response(answer.status_code, headers=headers, content=answer.content))

    with httpx.Client(base_url=server.http.base_url, transport=httpx.MockTransport(handle)) as http:
        yield Server(http, server.model, server.version)


def replaced(response: httpx.Response, old: str, new: str) -> httpx.Response:
    """Returns ``response`` with all matches of the regular expression ``old`` replaced by ``new``."""
    content = re.sub(old, new, response.text).encode()
    return httpx.Response(response.status_code, headers=response.headers, content=content)


def test_a_server_that_only_drops_headers_fails_the_check_of_cors(server):
    with tampered(server, lambda response: response) as other:
        failures = examine(other, [monitoring, cors])
    assert [check for check, failure in failures.items() if failure] == ["cors"]


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        (r'"truncated": false', '"truncated": 0', rows),
        (r'"AVAILABLE"', '"LOADING"', status),
        (r'"version": "(\d+)"', r'"version": \1', status),
        (r'"version": "(\d+)"', r'"version": \1', metadata),
        (r"DT_STRING", "7", metadata),
        (r"ó", r"\\\\u00f3", alignment),
        (r"\b1\.0\b", "0.5", alignment),
        (r"request_count\{", "request_total{", monitoring),
        (r"(request_count\{.*) \S+", r"\1 7", monitoring),
        (r"TYPE :tensorflow:serving:request_latency histogram", "", monitoring),
        (r"Unexpected path", "No such path", monitoring),
    ],
)
def test_a_server_with_other_answers_fails_the_check_of_those_answers(server, old, new, check):
    with tampered(server, lambda response: replaced(response, old, new)) as other, pytest.raises(Mismatch):
        check(other)


def test_a_server_that_answers_requests_with_the_previous_translation_fails(server):
    previous = ['"x"']

    def tamper(response: httpx.Response) -> httpx.Response:
        found = re.search(r'"translation": (".*?")', response.text)
        mixed = replaced(response, r'"translation": ".*?"', '"translation": ' + previous[0].replace("\\", r"\\"))
        previous[0] = found[1] if found else previous[0]
        return mixed

    with tampered(server, tamper) as other, pytest.raises(Mismatch, match="translations: expected"):
        together(other)


@pytest.mark.parametrize(
    ("change", "told"), [({"status": 418}, "status: expected 418"), ({"message": "Not found"}, "error: expected")]
)
def test_a_refusal_is_compared_by_its_status_and_its_words(server, change, told):
    with pytest.raises(Mismatch, match=told):
        refusals.check_refusal(server, refusals.refusals(server)[0]._replace(**change))


def test_a_label_is_checked_if_one_is_named(served, capsys):
    with pytest.raises(SystemExit):
        main(["--url", served, "--label", "stable"])
    (failure,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert failure.startswith("FAIL  label: status: expected 200, received 400")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "no-such"], r"--model: .*received 'no-such'"),
        (["--url", f"http://127.0.0.1:{free_port()}"], "http://127"),
        (["--timeout", "inf"], "timeout: .*received inf"),
    ],
)
def test_a_wrong_argument_or_a_missing_server_is_an_error_of_one_line(served, arguments, message):
    with pytest.raises(SystemExit, match=f"serve.conformance: .*{message}"):
        main(["--url", served, *arguments])


@pytest.mark.parametrize("answer", ["[]", "null", '{"model_version_status": [{}]}', "text", "[" * 100_000])
def test_a_status_of_another_form_is_an_error_that_names_it(answer):
    answered = httpx.Response(200, headers={"content-type": "application/json"}, text=answer)
    http = httpx.Client(base_url="http://server", transport=httpx.MockTransport(lambda request: answered))
    assert None not in examine(Server(http, "spa-eng", 1)).values()
    with pytest.raises(ClientError, match="about the model's status has another form"):
        connect(http, "spa-eng")


def test_a_report_that_cannot_be_written_is_an_error_before_the_checks(tmp_path):
    (tmp_path / "file").touch()
    arguments = ["--url", f"http://127.0.0.1:{free_port()}", "--json", tmp_path / "file" / "report.json"]
    command = [sys.executable, "-m", "serve.conformance", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(rf"serve.conformance: {tmp_path}/file: expected a folder.*\n", done.stderr)
