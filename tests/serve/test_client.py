"""The client: translations, servers that misbehave, and the command line."""

import contextlib
import gzip
import json
import math
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import httpx
import pytest
from servers import free_port

from nmt_keras.io.sentences import beginning
from serve.client import (
    Client,
    ClientError,
    Hypotheses,
    Hypothesis,
    Retry,
    ScoredTranslation,
    TranslatedText,
    Unavailable,
)
from serve.client.__main__ import main
from serve.client.answers import hypotheses
from serve.client.rest import MAX_ANSWER_BYTES

THIRD = pytest.approx(-1 / 3)


@pytest.fixture(scope="module")
def client(served) -> Iterator[Client]:
    with Client(served, version=3, batch_size=2, max_text_bytes=33) as client:
        yield client


def test_sentences_are_translated_in_order(client):
    assert client.translate(["uno dos", "¿qué?", "a b"]) == ["dos uno", "¿qué?", "b a"]
    assert client.translate_with_scores(["a b c d"]) == [ScoredTranslation("d c b a", pytest.approx(-4 / 3), True)]
    assert client.translate_with_scores(["uno"], "greedy") == [ScoredTranslation("uno", THIRD, False)]
    assert client.translate(["a\ud800 b"]) == ["b a�"]  # a lone surrogate


def test_texts_are_split_into_sentences_and_joined_again(client):
    first, second = client.translate_texts(["Uno dos.\n\nTres  cuatro. A b c d.", "¡Ya! "])
    assert first.text == "dos. Uno\n\ncuatro. Tres d. c b A"
    assert [answer.translation for _, answer in first.sentences] == ["dos. Uno", "cuatro. Tres", "d. c b A"]
    assert first.truncated
    assert second == TranslatedText("¡Ya! ", [("¡Ya!", ScoredTranslation("¡Ya!", THIRD, False))])
    assert not second.truncated


def test_hypotheses_are_sorted_and_have_no_padding(client):
    one, _ = client.beam(["a b", "c d e"])
    assert one == Hypotheses(
        ["a", "b"],
        False,
        [
            Hypothesis("b a", pytest.approx(-2 / 3), -2.0, ["b", "a"], [[0.0, 1.0], [1.0, 0.0]]),
            Hypothesis("a b", pytest.approx(-5 / 3), -3.0, ["a", "b"], [[1.0, 0.0], [0.0, 1.0]]),
        ],
    )


def test_hypotheses_that_are_missing_or_repeat_a_text_are_left_out():
    ranked = {"translations": [["a", "b", "a", ""]], "scores": [[-1.0, -2.0, -3.0, -3.4e38]], "lengths": [[1, 1, 2, 0]]}
    rest = {"source_tokens": [["x"]], "source_lengths": [1], "truncated": [False], "log_probs": ranked["scores"]}
    padded = {"tokens": [[["a", ""], ["b", ""], ["a", "a"], ["", ""]]], "alignment": [[[[1.0], [1.0]]] * 4]}
    (found,) = hypotheses({**ranked, **rest, **padded}, 1)
    assert [(each.translation, each.score) for each in found.hypotheses] == [("a", -1.0), ("b", -2.0)]


def test_a_sentence_beyond_max_text_bytes_is_cut_between_words_and_marked_truncated(client):
    fits, too_long = "a" * 24 + " año dos", "a" * 25 + " año dos"
    found = client.translate_with_scores([fits, too_long])
    assert [(each.translation.split(), each.truncated) for each in found] == [
        (["dos", "año", "a" * 24], False),
        (["año", "a" * 25], True),
    ]
    for ask in (client.align, client.beam):
        assert [each.truncated for each in ask([fits, too_long])] == [False, True]


@pytest.mark.parametrize(
    ("options", "signature", "message"),
    [
        (
            {"model": "ita eng"},
            "serving_default",
            r"does not serve model 'ita eng' \(Servable not found for .*\(ita eng\)\). Pass",
        ),
        ({"version": 7}, "serving_default", "number of another version"),
        ({}, "nope", 'answered [A-Z].* signature.* "nope" not found'),
    ],
)
def test_a_refusal_quotes_the_server(served, options, signature, message):
    with Client(served, **options) as client, pytest.raises(ClientError, match=message) as caught:
        client.predict(signature, {"text": ["uno"]})
    assert str(caught.value).startswith(served)


def test_a_server_without_https_is_named(served):
    with Client(served.replace("http://", "https://")) as client, pytest.raises(ClientError, match="write http://"):
        client.translate(["uno"])


# Requests and answers over REST


def against(handler: Callable[[httpx.Request], httpx.Response], retry: Retry | None = None, **options) -> Client:
    return Client("http://server:1/", retry=retry or Retry(1), transport=httpx.MockTransport(handler), **options)


SERVED = {"translation": ["one"], "score": [-1.0], "truncated": [False]}


def translated(request: httpx.Request) -> httpx.Response:
    """Answers as a model that translates everything as "one"."""
    count = len(json.loads(request.content)["inputs"]["text"])
    return httpx.Response(200, json={"outputs": {name: column * count for name, column in SERVED.items()}})


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (httpx.Response(500, json={"error": "two\nlines"}), "http://server:1 answered HTTP 500: two lines"),
        (httpx.Response(502, text="<h1>Bad Gateway</h1>"), "answered HTTP 502: <h1>Bad Gateway</h1>"),
        (httpx.Response(200, text="hello"), "answered HTTP 200: hello"),
        (httpx.Response(200, text="[" * 200_000), r"answered HTTP 200: \[\["),
        (httpx.Response(404, text="no such page"), "answered HTTP 404: no such page"),
        (
            httpx.Response(200, json={"outputs": ["uno"]}),
            "serving_default .* one unnamed output",
        ),
        (httpx.Response(200, json={"outputs": {"y": [1.0]}}), "another form than expected: 'translation'"),
        *(
            (httpx.Response(status, json={"error": "\x1b]52;c;eA==\x07" + "a\n" * 10**6}), r"\\x1b\]52;c;eA==\\x07a a ")
            for status in (400, 404)
        ),
    ],
)
def test_an_unexpected_answer_is_an_error_of_one_line(response, message):
    with against(lambda request: response) as client, pytest.raises(ClientError, match=message) as caught:
        client.translate(["uno"])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 2000


ALIGNED = {
    **SERVED,
    "source_tokens": [["a"]],
    "source_lengths": [1],
    "target_tokens": [["b"]],
    "target_lengths": [1],
    "alignment": [[[1.0]]],
}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda client: client.translate(["uno"]), {"outputs": {**SERVED, "translation": [5]}}),
        (lambda client: client.translate(["uno"]), {"outputs": {**SERVED, "score": [None]}}),
        (lambda client: client.translate(["uno", "dos"]), {"outputs": SERVED}),
        (lambda client: client.translate(["uno"]), {"outputs": {**SERVED, "score": [-1.0, -2.0]}}),
        (lambda client: client.align(["uno"]), {"outputs": {**ALIGNED, "source_tokens": [[3]]}}),
        (lambda client: client.align(["uno"]), {"outputs": {**ALIGNED, "alignment": [5]}}),
        (lambda client: client.align(["uno"]), {"outputs": {**ALIGNED, "alignment": [[[]]]}}),
        (lambda client: client.align(["uno"]), {"outputs": {**ALIGNED, "alignment": [[]]}}),
        (lambda client: client.align(["uno"]), {"outputs": {**ALIGNED, "target_lengths": ["x"]}}),
        (Client.status, {"model_version_status": 5}),
        (Client.status, {"model_version_status": [{"version": "1"}]}),
        (Client.status, {"model_version_status": [{"version": "1", "state": "ODD", "status": {}}]}),
        (Client.status, {}),
    ],
)
def test_an_answer_of_another_form_is_an_error_of_the_client(ask, answer):
    response = httpx.Response(200, json=answer)
    with against(lambda request: response) as client, pytest.raises(ClientError, match="another form than expected"):
        ask(client)


def test_no_more_of_an_answer_is_read_than_the_limit():
    pieces = iter([b" " * 2**20] * 99)
    client = against(lambda request: httpx.Response(200, content=pieces))
    with client, pytest.raises(ClientError, match="more than 64 MiB"):
        client.translate(["uno"])
    assert len(list(pieces)) == 99 - 65


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("gzip", gzip.compress(b" " * (MAX_ANSWER_BYTES + 1)), "more than 64 MiB"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}")), "packed with gzip, gzip"),
    ],
)
def test_the_limit_is_for_the_unpacked_answer(encoding, body, message):
    response = httpx.Response(200, headers={"Content-Encoding": encoding}, content=iter([body]))
    with against(lambda request: response) as client, pytest.raises(ClientError, match=message):
        client.translate(["uno"])


def test_a_packed_answer_is_unpacked():
    def packed(request: httpx.Request) -> httpx.Response:
        headers = {"Content-Encoding": request.headers["Accept-Encoding"]}
        return httpx.Response(200, headers=headers, content=iter([gzip.compress(translated(request).content)]))

    with against(packed) as client:
        assert client.translate(["uno"]) == ["one"]


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ({"model": "a/b", "version": 4}, "/v1/models/a%2Fb/versions/4:predict"),
        ({"model": "a b", "label": "stable"}, "/v1/models/a%20b/labels/stable:predict"),
        ({"model": "a"}, "/v1/models/a:predict"),
    ],
)
def test_requests_are_batches_in_column_format(model, path):
    seen: list[httpx.Request] = []
    with against(lambda request: seen.append(request) or translated(request), batch_size=2, **model) as client:
        assert client.translate(["uno", "dos", "tres"]) == ["one"] * 3
    assert [str(request.url) for request in seen] == [f"http://server:1{path}"] * 2
    assert [json.loads(request.content) for request in seen] == [
        {"signature_name": "serving_default", "inputs": {"text": texts}} for texts in (["uno", "dos"], ["tres"])
    ]


def test_padding_is_cut_by_the_lengths_of_each_side():
    columns = {
        "translation": ["x y"],
        "score": [-1.0],
        "truncated": [False],
        "source_tokens": [["a", "b", "c", "", ""]],
        "source_lengths": [3],
        "target_tokens": [["x", "y", "", ""]],
        "target_lengths": [2],
        "alignment": [[[0.5, 0.3, 0.2, 0, 0], [0.1, 0.2, 0.7, 0, 0], [0] * 5, [0] * 5]],
    }
    with against(lambda request: httpx.Response(200, json={"outputs": columns})) as client:
        (found,) = client.align(["a b c"])
    assert found[3:] == (["a", "b", "c"], ["x", "y"], [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])


@pytest.mark.parametrize("texts", ["uno", [b"uno"], [None]])
@pytest.mark.parametrize("ask", [Client.translate, Client.translate_texts])
def test_texts_must_be_a_list_of_strings(ask, texts):
    with Client() as client, pytest.raises(ValueError, match=r"texts: .*received "):
        ask(client, texts)


@pytest.mark.parametrize(
    "options",
    [
        *({"url": url} for url in ("localhost", "ftp://server", "http:///v1", "grpc://server")),
        {"label": "stable", "version": 3},
        {"max_text_bytes": 0},
        {"batch_size": 0},
        {"timeout": 1e12},
        {"timeout": math.nan},
        {"ca_file": "missing.pem", "url": "https://server"},
    ],
)
def test_a_wrong_argument_is_named_with_its_value(options):
    (name, value), *_ = options.items()
    with pytest.raises(ValueError, match=f"{name}.*received .*{re.escape(repr(value))}"):
        Client(**options)


@pytest.mark.parametrize(
    ("name", "value"), [("NO_PROXY", "[::1]"), ("ALL_PROXY", "socks5://proxy:1"), ("SSL_CERT_FILE", "missing.pem")]
)
def test_a_wrong_setting_of_the_environment_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=rf"environment's .* Check .*{name}"):
        Client("https://server")


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_that_does_not_answer_is_named_without_passwords(monkeypatch, scheme):
    proxy = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("http_proxy", f"{scheme}me:secret@{proxy}")
    monkeypatch.setenv("no_proxy", "other")
    told = rf"No server answers at http://server\..* proxy \({scheme}{proxy}\),"
    with Client("http://me:secret@server", retry=Retry(1)) as client, pytest.raises(Unavailable, match=told):
        client.translate(["uno"])


@pytest.mark.parametrize(
    ("text", "max_bytes", "kept"),
    [
        ("año dos", 8, "año dos"),
        ("año dos", 7, "año"),
        ("año  \n dos", 6, "año"),
        ("ñandú", 5, "ñand"),
        ("ñandú", 3, "ña"),
        ("ñ", 1, ""),
        ("   a", 2, ""),
    ],
)
def test_a_cut_text_ends_between_words_or_else_between_characters(text, max_bytes, kept):
    assert beginning(text, max_bytes) == kept


# Retries and timeouts


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The client's pauses in seconds, at their longest. They take no time."""
    found: list[float] = []
    monkeypatch.setattr("time.sleep", found.append)
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    return found


ONE = httpx.Response(200, json={"outputs": SERVED})


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        *(([httpx.Response(status)] * 3, [0.5, 1.0, 2.0]) for status in (429, 502, 503)),
        ([httpx.Response(503)] * 6, [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]),
        (
            [httpx.Response(429, headers={"Retry-After": each}) for each in ("3", "3600", "Fri, 31 Dec")],
            [3.0, 5.0, 2.0],
        ),
        ([httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("")], [0.5, 1.0, 2.0]),
    ],
    ids=["429", "502", "503", "many", "Retry-After", "connection"],
)
def test_a_busy_server_is_asked_again_after_pauses_that_double(pauses, failures, waits):
    with against(Mock(side_effect=[*failures, ONE]), Retry(9, first_seconds=0.5, longest_seconds=5.0)) as client:
        assert client.translate(["uno"]) == ["one"]
    assert pauses == waits


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        *((httpx.Response(status, json={"error": "no"}), "no") for status in (400, 404, 413, 500, 504)),
        (httpx.ReadTimeout("slow"), "did not answer in time"),
        (
            httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: it has expired (_ssl.c:1)"),
            "it has expired.*ca_file",
        ),
    ],
)
def test_an_error_that_would_come_again_is_not_retried(pauses, failure, message):
    client = against(Mock(side_effect=[failure, ONE]), Retry(5))
    with client, pytest.raises(ClientError, match=message):
        client.translate(["uno"])
    assert pauses == []


@contextlib.contextmanager
def dripping(answer: bytes) -> Iterator[str]:
    """Runs a server that sends a byte of ``answer`` every 20 ms. Yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(65536)
                for byte in answer:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.02)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 300\r\n\r\n"


@pytest.mark.parametrize("answer", [b"", HEAD + b" " * 300, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60])
def test_the_timeout_is_for_the_whole_answer(answer):
    with dripping(answer + b" " * 200) as url, Client(url, timeout=1.0) as client:
        began = time.monotonic()
        with pytest.raises(ClientError, match="did not answer in time"):
            client.translate(["uno"])
        assert 1.0 <= time.monotonic() - began < 3.0


def test_a_server_that_accepts_no_connection_is_unavailable_before_the_timeout():
    with contextlib.ExitStack() as sockets:
        listener, *others = (sockets.enter_context(socket.socket()) for _ in range(4))
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for each in others:  # its queue is full
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        client = sockets.enter_context(Client(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.9))
        with pytest.raises(Unavailable, match="No server answers"):
            client.translate(["uno"])


@pytest.mark.parametrize(("field", "value"), [("attempts", 0), ("first_seconds", -1.0), ("first_seconds", 11.0)])
def test_a_wrong_retry_is_refused(field, value):
    with pytest.raises(ValueError, match=f"Retry.{field}: .*received .*{value}"):
        Retry(**{field: value})


# Command line


@pytest.mark.parametrize(
    ("arguments", "printed", "warned"),
    [
        (["Una frase.", "otra. Y otra."], "frase. Una\notra. otra. Y\n", ""),
        (
            ["-"],
            "dos uno\n\nSí. tres.\ncaf\ufffd\n",
            "U+FFFD replaces invalid UTF-8 or NUL in 1 line of standard input; the first is line 4.",
        ),
        (
            ["caf\udce9", "--json"],
            '{"text": "caf\ufffd", "translation": "caf\ufffd", "sentences": [{"text": "caf\ufffd", '
            '"translation": "caf\ufffd", "score": -0.333333343, "truncated": false}]}\n',
            "arguments",
        ),
        (["uno dos", "--signature", "align"], "dos uno\n    dos  <-  dos (1.00)\n    uno  <-  uno (1.00)\n", ""),
        (
            ["¡ya! Sí.", "😊", "--json"],
            '{"text": "¡ya! Sí.", "translation": "¡ya! Sí.", "sentences": ['
            '{"text": "¡ya!", "translation": "¡ya!", "score": -0.333333343, "truncated": false}, '
            '{"text": "Sí.", "translation": "Sí.", "score": -0.333333343, "truncated": false}]}\n'
            '{"text": "😊", "translation": "😊", "sentences": []}\n',
            "",
        ),
        (["a", "a b c d"], "a\nd c b a\n", "limit was cut in 1 line of the arguments; the first is line 2."),
    ],
    ids=["texts", "standard input", "argument", "alignment", "json", "truncated"],
)
def test_the_command_prints_translations(served, capsys, monkeypatch, tmp_path, arguments, printed, warned):
    typed = tmp_path / "typed"
    typed.write_bytes("\ufeffuno dos\r\n\nSí.\u2028tres.\n".encode() + b"caf\xe9\n")
    monkeypatch.setattr("sys.stdin", typed.open())
    main([*arguments, "--url", served])
    sys.stdin.close()
    out, err = capsys.readouterr()
    assert out == printed
    assert warned in err


def test_the_command_fails_in_one_line_without_a_server_and_without_a_text():
    url = f"http://127.0.0.1:{free_port()}"
    for arguments, named in ((["uno", "--attempts", "1", "--url", url], f"{url}.*nmt serve"), ([], "text")):
        with pytest.raises(SystemExit, match=f"serve.client: .*{named}"):
            main(arguments)
