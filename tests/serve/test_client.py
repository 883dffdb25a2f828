"""The client over REST: against the embedded server, and against servers that misbehave; its command line."""

from __future__ import annotations

import contextlib
import io
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from serve.client import (
    Alignment,
    Client,
    ClientError,
    Hypotheses,
    Hypothesis,
    Retry,
    TranslatedText,
    Translation,
    Unavailable,
    VersionStatus,
    sentences,
)
from serve.client.__main__ import main

ROOT = Path(__file__).parents[2]
THIRD = pytest.approx(-1 / 3)


class Counting(httpx.HTTPTransport):
    """Remembers how many texts each request carried."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sizes.append(len(json.loads(request.content)["inputs"]["text"]))
        return super().handle_request(request)


@pytest.mark.server
def test_sentences_are_translated_in_order(served):
    with Client(served) as client:
        assert client.translate(["uno dos", "¿qué?"]) == ["dos uno", "¿qué?"]
        assert client.translate_with_scores(["a b c d"]) == [Translation("d c b a", pytest.approx(-4 / 3), True)]


@pytest.mark.server
def test_another_signature_answers_the_same_record(served):
    with Client(served) as client:
        assert client.translate_with_scores(["uno"], "greedy") == [Translation("uno", THIRD, False)]


def test_no_sentence_is_no_request():
    with against(lambda request: pytest.fail("asked")) as client:
        assert client.translate([]) == []
        assert client.translate_texts(["", " \n"]) == [TranslatedText("", []), TranslatedText(" \n", [])]


@pytest.mark.server
def test_many_sentences_are_sent_in_batches(served):
    counting = Counting()
    texts = [f"frase {number}" for number in range(5)]
    with Client(served, batch_size=2, transport=counting) as client:
        assert client.translate(texts) == [f"{number} frase" for number in range(5)]
    assert counting.sizes == [2, 2, 1]


@pytest.mark.server
def test_texts_are_split_into_sentences_which_travel_together_and_come_back_in_their_places(served):
    counting = Counting()
    with Client(served, transport=counting) as client:
        first, second = client.translate_texts(["Uno dos.\n\nTres  cuatro. A b c d.", "¡Ya! "])
    assert first.translation == "dos. Uno\n\ncuatro. Tres d. c b A"
    assert [sentence.translation for sentence in first.sentences] == ["dos. Uno", "cuatro. Tres", "d. c b A"]
    assert first.truncated
    assert second == TranslatedText("¡Ya! ", [Translation("¡Ya!", THIRD, False)])
    assert not second.truncated
    assert counting.sizes == [4]


@pytest.mark.server
def test_alignments_come_without_padding(served):
    with Client(served) as client:
        one, two = client.align(["a", "b c"])
    assert one == Alignment("a", THIRD, False, ["a"], ["a"], [[1.0]])
    assert two == Alignment("c b", pytest.approx(-2 / 3), False, ["b", "c"], ["c", "b"], [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.server
def test_hypotheses_come_best_first_and_without_padding(served):
    with Client(served) as client:
        one, _ = client.beam(["a b", "c d e"])
    assert one == Hypotheses(
        ["a", "b"],
        False,
        [
            Hypothesis("b a", pytest.approx(-2 / 3), -2.0, ["b", "a"], [[0.0, 1.0], [1.0, 0.0]]),
            Hypothesis("a b", pytest.approx(-5 / 3), -3.0, ["a", "b"], [[1.0, 0.0], [0.0, 1.0]]),
        ],
    )


@pytest.mark.server
def test_half_a_surrogate_pair_becomes_a_question_mark(served):
    with Client(served) as client:
        assert client.translate(["a\ud800 b"]) == ["b a?"]


@pytest.mark.server
def test_the_status_lists_the_versions(served):
    with Client(served, version=3) as client:
        assert client.status() == [VersionStatus(3, "AVAILABLE", "OK", "")]


@pytest.mark.server
def test_a_model_that_is_not_served_is_named_with_what_to_do(served):
    with Client(served, model="ita eng") as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    assert str(caught.value) == (
        f"{served} does not serve model 'ita eng' (Servable not found for request: Latest(ita eng)). "
        "Name a folder under the server's --model-dir that holds a version; its log says what it loaded."
    )


@pytest.mark.server
def test_an_error_of_the_server_is_shown_in_its_own_words(served):
    with Client(served) as client, pytest.raises(ClientError) as caught:
        client.predict("nope", {"text": ["uno"]})
    reason = 'Serving signature name: "nope" not found in signature def'
    assert str(caught.value) == f"{served} answered HTTP 400: {reason}"


def test_a_server_that_is_down_is_named_with_the_command_that_starts_one():
    url = closed_port()
    with Client(url, retry=Retry(1)) as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    assert url in str(caught.value)
    assert "nmt serve" in str(caught.value)


def closed_port() -> str:
    """A URL on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


def against(handler: Callable[[httpx.Request], httpx.Response], retry: Retry | None = None) -> Client:
    return Client("http://server:1", retry=retry or Retry(1), transport=httpx.MockTransport(handler))


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (httpx.Response(500, json={"error": "two\nlines"}), "http://server:1 answered HTTP 500: two lines"),
        (httpx.Response(502, text="<h1>Bad Gateway</h1>"), "http://server:1 answered HTTP 502: <h1>Bad Gateway</h1>"),
        (httpx.Response(200, text="hello"), "http://server:1 answered HTTP 200: hello"),
        (httpx.Response(404, text="no such page"), "http://server:1 answered HTTP 404: no such page"),
        (
            httpx.Response(200, json={"outputs": ["uno"]}),
            "Signature serving_default of model spa-eng answered one unnamed output, not several.",
        ),
        (
            httpx.Response(200, json={"outputs": {"y": [1.0]}}),
            "The answer's output 'translation' is not a list of 1: is this a translation model's export?",
        ),
    ],
)
def test_an_answer_of_something_else_is_told_in_one_line(response, message):
    with against(lambda request: response) as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    assert str(caught.value) == message


ANSWER = {"outputs": {"translation": ["one"], "score": [-1.0], "truncated": [False]}}


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ({"model": "a/b", "version": 4}, "/v1/models/a%2Fb/versions/4:predict"),
        ({"model": "a b", "label": "stable"}, "/v1/models/a%20b/labels/stable:predict"),
        ({"model": "a"}, "/v1/models/a:predict"),
    ],
)
def test_the_request_is_the_one_tensorflow_serving_documents(model, path):
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=ANSWER)

    with Client("http://server:1/", **model, transport=httpx.MockTransport(answer)) as client:
        client.translate(["uno"])
    assert str(seen[0].url) == f"http://server:1{path}"
    assert json.loads(seen[0].content) == {"signature_name": "serving_default", "inputs": {"text": ["uno"]}}


@pytest.mark.parametrize("texts", ["uno", [b"uno"], [None]])
def test_texts_that_are_not_a_list_of_strings_are_refused(texts):
    with Client() as client:
        for ask in (client.translate, client.translate_texts):
            with pytest.raises(ValueError, match="texts: expected a list of strings, received"):
                ask(texts)


@pytest.mark.parametrize("url", ["localhost", "ftp://server", "http://", "grpc:"])
def test_a_url_of_another_scheme_or_without_a_host_is_refused(url):
    with pytest.raises(ValueError, match="url: expected http://HOST:PORT or https://HOST:PORT, or grpc:// or grpcs://"):
        Client(url)


def test_a_version_and_a_label_together_are_refused():
    with pytest.raises(ValueError, match="label: expected None beside version 3, received 'stable'"):
        Client(version=3, label="stable")


@pytest.mark.server
def test_a_sentence_is_cut_between_words_where_the_client_is_told_to_and_says_so(served):
    with Client(served, max_text_bytes=8) as client:
        assert client.translate_with_scores(["año dos", "año doce", "año once"]) == [
            Translation("dos año", pytest.approx(-2 / 3), False),
            Translation("año", THIRD, True),
            Translation("año", THIRD, True),
        ]
        assert [found.truncated for found in client.align(["año dos", "año doce"])] == [False, True]
        assert [found.truncated for found in client.beam(["año dos", "año doce"])] == [False, True]


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
def test_the_beginning_of_a_text_ends_between_words_or_else_between_characters(text, max_bytes, kept):
    assert sentences.beginning(text, max_bytes) == kept


def test_a_client_that_could_send_nothing_is_refused():
    with pytest.raises(ValueError, match="max_text_bytes: expected 1 or more, received 0"):
        Client(max_text_bytes=0)


# Patience


class Flaky:
    """Answers with each of ``failures`` first, then as it should; notes how long it was left alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: httpx.Response | httpx.TransportError) -> None:
        self.failures = list(failures)
        self.waits: list[float] = []
        monkeypatch.setattr("time.sleep", self.waits.append)
        monkeypatch.setattr(random, "uniform", lambda low, high: high)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        failure = self.failures.pop(0) if self.failures else httpx.Response(200, json=ANSWER)
        if isinstance(failure, httpx.TransportError):
            raise failure
        return failure


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_server_is_asked_again_after_waits_that_double(monkeypatch, status):
    flaky = Flaky(monkeypatch, *[httpx.Response(status, json={"error": "busy"}) for _ in range(3)])
    with against(flaky, Retry(attempts=4, first_seconds=0.5)) as client:
        assert client.translate(["uno"]) == ["one"]
    assert flaky.waits == [0.5, 1.0, 2.0]


def test_the_last_attempts_error_is_the_one_that_is_raised(monkeypatch):
    flaky = Flaky(monkeypatch, *[httpx.Response(503, json={"error": f"busy {number}"}) for number in range(9)])
    with against(flaky, Retry(attempts=3)) as client, pytest.raises(Unavailable, match="HTTP 503: busy 2"):
        client.translate(["uno"])
    assert len(flaky.waits) == 2


def test_no_wait_is_longer_than_the_longest_nor_shorter_than_the_server_asks_for(monkeypatch):
    asked = [httpx.Response(429, headers={"Retry-After": seconds}) for seconds in ("3", "3600", "Fri, 31 Dec 1999")]
    flaky = Flaky(monkeypatch, *asked, *[httpx.Response(503) for _ in range(3)])
    with against(flaky, Retry(attempts=9, first_seconds=1.0, longest_seconds=5.0)) as client:
        client.translate(["uno"])
    assert flaky.waits == [3.0, 5.0, 4.0, 5.0, 5.0, 5.0]


def test_waits_are_spread_over_the_upper_half_of_their_range():
    waits = [Retry(first_seconds=1.0)._wait(2, 0.0) for _ in range(500)]
    assert 1.0 <= min(waits) < 1.1
    assert 1.9 < max(waits) <= 2.0


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("")]
)
def test_a_connection_that_breaks_is_tried_again(monkeypatch, error):
    with against(Flaky(monkeypatch, error), Retry(2)) as client:
        assert client.translate(["uno"]) == ["one"]


@pytest.mark.parametrize("status", [400, 404, 413, 500, 504])
def test_an_error_that_would_come_again_is_not_tried_again(monkeypatch, status):
    flaky = Flaky(monkeypatch, httpx.Response(status, json={"error": "no"}))
    with against(flaky, Retry(5)) as client, pytest.raises(ClientError):
        client.translate(["uno"])
    assert flaky.waits == []


def test_an_answer_that_does_not_come_in_time_says_so_and_is_not_asked_for_again(monkeypatch):
    flaky = Flaky(monkeypatch, httpx.ReadTimeout("slow"))
    with against(flaky, Retry(5)) as client, pytest.raises(ClientError, match="no answer in time: send less at a time"):
        client.translate(["uno"])
    assert flaky.waits == []


def test_the_timeout_is_the_one_that_is_given():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, timeout=0.05) as client, pytest.raises(ClientError, match="gave no answer in time"):
            client.translate(["uno"])


@contextlib.contextmanager
def dripping(answer: bytes) -> Iterator[str]:
    """A server that sends a byte of ``answer`` every 20 ms."""
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


@pytest.mark.parametrize("answer", [HEAD + b" " * 300, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60])
def test_a_server_that_drips_is_waited_for_no_longer_than_one_that_is_silent(answer):
    with dripping(answer) as url, Client(url, timeout=1.0) as client:
        began = time.monotonic()
        with pytest.raises(ClientError, match="gave no answer in time"):
            client.translate(["uno"])
        assert 1.0 <= time.monotonic() - began < 3.0


def test_an_answer_that_drips_but_is_there_in_time_is_read():
    body = json.dumps(ANSWER).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with dripping(head + body) as url, Client(url, timeout=30.0) as client:
        assert client.translate(["uno"]) == ["one"]


@pytest.mark.parametrize(("field", "value"), [("attempts", 0), ("first_seconds", -1.0), ("first_seconds", 11.0)])
def test_impossible_patience_is_refused(field, value):
    with pytest.raises(ValueError, match=f"Retry.{field}: expected"):
        Retry(**{field: value})


# Command line


@pytest.mark.server
def test_the_command_prints_a_translation_per_text(served, capsys):
    main(["Una frase.", "otra. Y otra.", "--url", served])
    assert capsys.readouterr().out == "frase. Una\notra. otra. Y\n"


@pytest.mark.server
def test_the_command_reads_lines_from_standard_input(served, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("uno dos\n\ntres\n"))
    main(["-", "--url", served])
    assert capsys.readouterr().out == "dos uno\n\ntres\n"


@pytest.mark.server
def test_the_command_prints_each_target_words_strongest_source_word(served, capsys):
    main(["uno dos", "--signature", "align", "--url", served])
    assert capsys.readouterr().out == "dos uno\n    dos  <-  dos (1.00)\n    uno  <-  uno (1.00)\n"


@pytest.mark.server
def test_the_command_prints_a_json_line_per_sentence(served, capsys):
    main(["¡ya! Sí.", "--json", "--url", served])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {"text": "¡ya!", "translation": "¡ya!", "score": THIRD, "truncated": False},
        {"text": "Sí.", "translation": "Sí.", "score": THIRD, "truncated": False},
    ]


@pytest.mark.server
def test_the_command_warns_of_a_sentence_that_was_cut(served, capsys):
    main(["a b c d", "--url", served])
    assert "cut, as it is longer than the model reads: a b c d" in capsys.readouterr().err


def test_the_command_fails_in_one_line_without_a_server():
    url = closed_port()
    with pytest.raises(SystemExit, match=f"serve.client: No server answers at {url}"):
        main(["uno", "--attempts", "1", "--url", url])


def test_the_command_wants_a_text():
    with pytest.raises(SystemExit, match="texts: expected a text, or - to read standard input; received none"):
        main([])


def test_neither_the_command_nor_the_grpc_connection_imports_tensorflow():
    code = """
import sys
import serve.client.__main__
assert "grpc" not in sys.modules and "numpy" not in sys.modules
import serve.client.rpc
sys.exit("tensorflow" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
