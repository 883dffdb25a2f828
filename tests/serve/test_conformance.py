"""The conformance checks: the embedded server passes them, and servers that are a little different do not."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from concurrent import futures

import grpc
import httpx
import pytest

from serve.conformance import rpc
from serve.conformance.__main__ import examine, main
from serve.conformance.refusals import Refusal, check_refusal
from serve.conformance.server import Mismatch, Server, connect
from serve.conformance.successes import cors, monitoring

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(served):
    server = connect(served, "spa-eng", 30)
    yield server
    server.http.close()


def test_the_embedded_server_passes_every_check(serving, capsys, tmp_path):
    also = ["--grpc", serving.rpc.removeprefix("grpc://"), "--monitoring", "--cors"]
    with pytest.raises(SystemExit) as done:
        main(["--url", serving.rest, *also, "--json", str(tmp_path / "report.json")])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines[:-1] if not line.startswith("ok ")] == []
    assert done.value.code == 0
    assert lines[-1] == f"{len(lines) - 1} of {len(lines) - 1} checks passed, model spa-eng version 3"
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert (report["model"], report["version"], report["failed"]) == ("spa-eng", 3, 0)
    assert len(report["checks"]) == len(lines) - 1
    checked = {line.removeprefix("ok    ") for line in lines}
    assert {"monitoring", "cors", "gRPC: predictions", "gRPC: unknown signature"} < checked


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
        ("JSON Parse error", "Oops", {"JSON cut short", "two JSON documents"}),
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


def test_a_label_is_checked_where_one_is_named(served, capsys):
    with pytest.raises(SystemExit):
        main(["--url", served, "--label", "stable"])
    (failure,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert failure.startswith("FAIL  label stable: status: expected 200, received 400")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"request_count\{", "request_total{"),
        (r"(request_count\{.*) \S+", r"\1 7"),
        (r"TYPE :tensorflow:serving:request_latency histogram", "TYPE :tensorflow:serving:request_latency summary"),
        (r"Unexpected path", "No such path"),
    ],
)
def test_a_server_that_counts_otherwise_fails_the_check_of_the_metrics(server, old, new):
    monitoring(server)
    with pytest.raises(Mismatch):
        monitoring(tampered(server, lambda request, response: changed(response, old, new)))


def test_a_server_without_metrics_fails_their_check(server):
    with pytest.raises(Mismatch, match="status: expected 200, received 404"):
        monitoring(tampered(server, lambda request, response: missing(request, response, "/monitoring")))


def missing(request: httpx.Request, response: httpx.Response, folder: str) -> httpx.Response:
    """``response``, but 404 for what lies in ``folder``."""
    return httpx.Response(404) if request.url.path.startswith(folder) else response


def test_a_server_that_lets_no_page_of_another_host_read_fails_the_check_of_cors(server):
    cors(server)
    with pytest.raises(Mismatch, match=r"expected .*'origin': '\*'.*received .*'origin': None"):
        cors(tampered(server, lambda request, response: response))


# gRPC


@pytest.fixture(scope="module")
def side(serving, server):
    found = rpc.connect(serving.rpc.removeprefix("grpc://"), server, 30, None, secure=False)
    yield found
    found.channel.close()


class Tampering(grpc.GenericRpcHandler):
    """Passes every request on to ``side``, and changes what comes back."""

    def __init__(
        self,
        side: rpc.RpcServer,
        answer: Callable[[bytes], bytes] = lambda answer: answer,
        code: Callable[[str], str] = lambda code: code,
        words: Callable[[str], str] = lambda words: words,
    ) -> None:
        self.side = side
        self.answer = answer
        self.code = code
        self.words = words

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def pass_on(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                return self.answer(self.side.send(details.method.removeprefix("/tensorflow.serving."), request))
            except grpc.RpcError as error:
                context.abort(grpc.StatusCode[self.code(error.code().name)], self.words(error.details()))

        return grpc.unary_unary_rpc_method_handler(pass_on)


def rpc_failures(side: rpc.RpcServer, **tampering: Callable) -> set[str]:
    """The gRPC checks that a server fails which differs in this."""
    proxy = grpc.server(futures.ThreadPoolExecutor(2), [Tampering(side, **tampering)])
    port = proxy.add_insecure_port("127.0.0.1:0")
    proxy.start()
    other = rpc.connect(f"127.0.0.1:{port}", side.server, 30, None, secure=False)
    try:
        outcomes = examine(side.server, rpc.checks(other))
    finally:
        other.channel.close()
        proxy.stop(None).wait()
    return {outcome.check.removeprefix("gRPC: ") for outcome in outcomes if outcome.failure}


def test_an_untouched_server_fails_nothing_over_grpc(side):
    assert rpc_failures(side) == set()


def test_a_server_with_other_codes_fails_over_grpc(side):
    found = rpc_failures(side, code=lambda code: "UNKNOWN" if code == "INTERNAL" else "ABORTED")
    refused = {refusal.check for refusal in rpc.refusals(side)}
    assert found == refused


def test_a_server_with_other_words_fails_over_grpc(side):
    assert rpc_failures(side, words=lambda words: f"Sorry: {words}") == {
        refusal.check for refusal in rpc.refusals(side) if refusal.message is not None
    }


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"spa-eng", b"eng-spa", {"predictions", "metadata"}),
        (b"score", b"scare", {"predictions", "output filter", "metadata"}),
        ("Dónde".encode(), "Dúnde".encode(), {"predictions"}),
        (b"tensorflow/serving/predict", b"tensorflow/serving/request", {"metadata"}),
        (b"\x10\x1e", b"\x10\x14", {"status"}),  # field 2, the state: LOADING in place of AVAILABLE
    ],
)
def test_a_server_with_other_answers_fails_over_grpc(side, old, new, found):
    assert found <= rpc_failures(side, answer=lambda message: message.replace(old, new))


def test_a_server_that_answers_no_messages_fails_over_grpc(side):
    named = {check.__name__.replace("_", " ") for check in rpc.SUCCESSES}
    assert rpc_failures(side, answer=lambda message: b"\xff") == named


def test_dots_in_an_expected_message_stand_for_anything_and_nothing_else_does(server):
    body = {"instances": []}
    good = Refusal("x", "POST", f"{server.path}:predict", body, 400, "JSON Value: ... No values in 'instances' array")
    check_refusal(server, good)
    for message in ("No values in 'instances' array", "JSON Value: ... No values", "JSON.Value: ... array"):
        with pytest.raises(Mismatch, match="error: expected"):
            check_refusal(server, good._replace(message=message))


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
