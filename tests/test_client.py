"""The REST client: against the routes over a real connection, and against servers that misbehave."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import httpx
import numpy as np
import pytest
import uvicorn

from serve import client as client_module
from serve.app import Limits, create_app
from serve.client import Alignment, Client, ClientError, Translation, VersionStatus
from serve.repository import Repository
from serve.status import invalid
from serve.values import TensorSpec


class FakeSignature(NamedTuple):
    name: str
    inputs: Mapping[str, TensorSpec]


class Reverser:
    """Stands in for a translation model: reverses the words, in the shapes of the export's two signatures."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def signature(self, name: str) -> FakeSignature:
        if name not in ("", "serving_default", "align"):
            raise invalid(f'Serving signature name: "{name}" not found in signature def')
        return FakeSignature(name, {"text": TensorSpec("string", (None,))})

    def run(self, signature: FakeSignature, inputs: dict[str, np.ndarray], seconds: float) -> dict[str, np.ndarray]:
        texts = inputs["text"].tolist()
        self.batches.append(len(texts))
        sources = [text.split() for text in texts]
        outputs = {
            "translation": np.array([b" ".join(reversed(source)) for source in sources], object),
            "score": np.array([-0.5 * len(source) for source in sources], np.float32),
            "truncated": np.array([len(source) > 3 for source in sources]),
        }
        return outputs if signature.name != "align" else {**outputs, **aligned(sources)}

    def close(self) -> None:
        pass


def aligned(sources: list[list[bytes]]) -> dict[str, np.ndarray]:
    """Anti-diagonal alignments, padded to the batch's widest sentence as a server pads them."""
    width = max(map(len, sources))
    alignment = np.zeros((len(sources), width, width), np.float32)
    for row, source in enumerate(sources):
        for position in range(len(source)):
            alignment[row, position, len(source) - 1 - position] = 1
    padded = [source + [b""] * (width - len(source)) for source in sources]
    back = [source[::-1] + [b""] * (width - len(source)) for source in sources]
    lengths = np.array([len(source) for source in sources], np.int32)
    return {
        "source_tokens": np.array(padded, object),
        "source_lengths": lengths,
        "target_tokens": np.array(back, object),
        "target_lengths": lengths,
        "alignment": alignment,
    }


class Running(NamedTuple):
    """A server on a loopback port and the model behind it."""

    url: str
    model: Reverser


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "spa-eng" / "3").mkdir(parents=True)
    model = Reverser()
    repository = Repository(folder, lambda path: model)
    repository.load_latest()
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(repository, Limits()), log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    yield Running(f"http://127.0.0.1:{listener.getsockname()[1]}", model)
    server.should_exit = True
    thread.join(20)
    listener.close()


@pytest.mark.server
def test_sentences_are_translated_in_order(running):
    with Client(running.url) as client:
        assert client.translate(["uno dos", "¿qué?"]) == ["dos uno", "¿qué?"]
        assert client.translate_with_scores(["a b c d"]) == [Translation("d c b a", -2.0, True)]


@pytest.mark.server
def test_no_sentence_is_no_request(running):
    running.model.batches.clear()
    with Client(running.url) as client:
        assert client.translate([]) == []
    assert running.model.batches == []


@pytest.mark.server
def test_many_sentences_are_sent_in_batches(running):
    running.model.batches.clear()
    texts = [f"frase {number}" for number in range(5)]
    with Client(running.url, batch_size=2) as client:
        assert client.translate(texts) == [f"{number} frase" for number in range(5)]
    assert running.model.batches == [2, 2, 1]


@pytest.mark.server
def test_alignments_come_without_padding(running):
    with Client(running.url) as client:
        one, two = client.align(["a", "b c"])
    assert one == Alignment("a", -0.5, False, ["a"], ["a"], [[1.0]])
    assert two == Alignment("c b", -1.0, False, ["b", "c"], ["c", "b"], [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.server
def test_the_status_lists_the_versions(running):
    with Client(running.url, version=3) as client:
        assert client.status() == [VersionStatus(3, "AVAILABLE", "OK", "")]


@pytest.mark.server
def test_a_model_that_is_not_served_is_named_with_what_to_do(running):
    with Client(running.url, model="ita eng") as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    assert str(caught.value) == (
        f"{running.url} does not serve model 'ita eng' (Servable not found for request: Latest(ita eng)). "
        "Name a folder under the server's --model-dir that holds a version; its log says what it loaded."
    )


@pytest.mark.server
def test_an_error_of_the_server_is_shown_in_its_own_words(running):
    with Client(running.url) as client, pytest.raises(ClientError) as caught:
        client.predict("nope", {"text": ["uno"]})
    reason = 'Serving signature name: "nope" not found in signature def'
    assert str(caught.value) == f"{running.url} answered HTTP 400: {reason}"


def test_a_server_that_is_down_is_named_with_the_command_that_starts_one():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with Client(url) as client, pytest.raises(ClientError) as caught:
        client.translate(["uno"])
    assert str(caught.value) == (
        f"No server answers at {url}: start one with `python -m serve.server --model-dir saved_models`, "
        "or name it: --url."
    )


def against(handler: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client("http://server:1", transport=httpx.MockTransport(handler))


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (httpx.Response(502, text="<h1>Bad\n Gateway</h1>"), "http://server:1 answered HTTP 502: <h1>Bad Gateway</h1>"),
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


def test_an_answer_that_does_not_come_in_time_says_so():
    def sleep(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow", request=request)

    with against(sleep) as client, pytest.raises(ClientError, match="gave no answer in time: send less at a time"):
        client.translate(["uno"])


def test_the_request_is_the_one_tensorflow_serving_documents():
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        outputs = {"translation": ["one"], "score": [-1.0], "truncated": [False]}
        return httpx.Response(200, json={"outputs": outputs})

    transport = httpx.MockTransport(answer)
    with Client("http://server:1/", "a/b", version=4, transport=transport) as client:
        client.translate(["uno"])
    assert str(seen[0].url) == "http://server:1/v1/models/a%2Fb/versions/4:predict"
    assert json.loads(seen[0].content) == {"signature_name": "serving_default", "inputs": {"text": ["uno"]}}


@pytest.mark.parametrize("texts", ["uno", [b"uno"], [None]])
def test_texts_that_are_not_a_list_of_strings_are_refused(texts):
    with Client() as client, pytest.raises(ValueError, match="texts: expected a list of strings, received"):
        client.translate(texts)


def test_a_url_without_a_scheme_is_refused():
    with pytest.raises(ValueError, match="url: expected http://HOST:PORT or https://HOST:PORT, received 'localhost'"):
        Client("localhost")


# Command line


@pytest.mark.server
def test_the_command_prints_a_translation_per_sentence(running, capsys):
    client_module.main(["Una frase.", "otra", "--url", running.url])
    assert capsys.readouterr().out == "frase. Una\notra\n"


@pytest.mark.server
def test_the_command_reads_lines_from_standard_input(running, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("uno dos\ntres\n"))
    client_module.main(["-", "--url", running.url])
    assert capsys.readouterr().out == "dos uno\ntres\n"


@pytest.mark.server
def test_the_command_prints_each_target_words_strongest_source_word(running, capsys):
    client_module.main(["uno dos", "--signature", "align", "--url", running.url])
    assert capsys.readouterr().out == "dos uno\n    dos  <-  dos (1.00)\n    uno  <-  uno (1.00)\n"


@pytest.mark.server
def test_the_command_prints_json_lines(running, capsys):
    client_module.main(["¡ya!", "--json", "--url", running.url])
    answer = {"text": "¡ya!", "translation": "¡ya!", "score": -0.5, "truncated": False}
    assert capsys.readouterr().out == json.dumps(answer, ensure_ascii=False) + "\n"


@pytest.mark.server
def test_the_command_warns_of_a_sentence_that_was_cut(running, capsys):
    client_module.main(["a b c d", "--url", running.url])
    assert "cut, as it is longer than the model reads: a b c d" in capsys.readouterr().err


def test_the_command_fails_in_one_line_without_a_server():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(SystemExit, match=f"serve.client: No server answers at {url}: start one with"):
        client_module.main(["uno", "--url", url])


def test_the_command_wants_a_sentence():
    with pytest.raises(SystemExit, match="texts: expected a sentence, or - to read standard input; received none"):
        client_module.main([])
