"""A corpus is fetched whole or not at all, and a network that is blocked is noticed in seconds."""

import hashlib
import io
import socket
import threading
import time
import warnings
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nmt_keras.corpus import CorpusUnavailable, fetch_corpus, read_pairs

TEXT = "Go.\tVe.\nStop!\t¡Para!\n".encode()
SHA256 = hashlib.sha256(TEXT).hexdigest()


def zipped(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


ZIP = zipped(**{"spa-eng/spa.txt": TEXT, "spa-eng/_about.txt": b"CC BY 2.0"})


class Server:
    """Answers the n-th request with the n-th reply, and all later ones with the last."""

    def __init__(self, *replies):
        self.requests = 0
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.requests += 1
                replies[min(server.requests, len(replies)) - 1](self, server)
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/data/spa-eng.zip"


@contextmanager
def serving(*replies):
    server = Server(*replies)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def body(content, length=None):
    def reply(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.end_headers()
        handler.wfile.write(content)

    return reply


def status(code, **headers):
    def reply(handler, _):
        handler.send_response(code)
        handler.send_header("Content-Length", "0")
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()

    return reply


def stall(handler, server):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(ZIP)))
    handler.end_headers()
    handler.wfile.write(ZIP[:20])
    handler.wfile.flush()
    server.over.wait(10)


def silence(_, server):
    server.over.wait(10)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_zip_arrives_whole_and_is_read_without_unpacking_it(tmp_path):
    folder = tmp_path / "new" / "data"
    with serving(body(ZIP)) as server:
        path = fetch_corpus(server.url, folder, SHA256)
    assert path == folder / "spa-eng.zip"
    assert path.read_bytes() == ZIP
    assert names(folder) == ["spa-eng.zip"]
    assert read_pairs(path, source_column=1, target_column=0).pairs == [("Ve.", "Go."), ("¡Para!", "Stop!")]


def test_a_file_url_is_copied(tmp_path):
    (tmp_path / "my corpus").mkdir()
    original = tmp_path / "my corpus" / "pairs.zip"
    original.write_bytes(ZIP)
    path = fetch_corpus(original.as_uri(), tmp_path / "data", SHA256)
    assert path == tmp_path / "data" / "pairs.zip"
    assert path.read_bytes() == ZIP


def test_a_zip_that_is_there_is_not_fetched_again(tmp_path):
    (tmp_path / "spa-eng.zip").write_bytes(ZIP)
    with serving(status(500)) as server:
        fetch_corpus(server.url, tmp_path, SHA256)
    assert server.requests == 0


def test_a_damaged_zip_that_is_there_is_replaced(tmp_path):
    (tmp_path / "spa-eng.zip").write_bytes(ZIP[:-30])
    with serving(body(ZIP)) as server:
        path = fetch_corpus(server.url, tmp_path, SHA256)
    assert path.read_bytes() == ZIP


def test_a_redirect_is_followed(tmp_path):
    with serving(status(302, Location="/elsewhere"), body(ZIP)) as server:
        assert fetch_corpus(server.url, tmp_path, SHA256).read_bytes() == ZIP


@pytest.mark.parametrize(
    "failure",
    [status(503), status(429), body(ZIP[:40], length=len(ZIP)), body(ZIP[:-30]), stall, lambda handler, server: None],
    ids=["503", "429", "broken off", "cut before the server", "stalled", "closed without an answer"],
)
def test_a_server_that_fails_twice_is_asked_a_third_time(tmp_path, failure):
    with serving(failure, failure, body(ZIP)) as server:
        path = fetch_corpus(server.url, tmp_path, SHA256, stalled_after=0.2, backoff=0.01)
    assert server.requests == 3
    assert path.read_bytes() == ZIP
    assert names(tmp_path) == ["spa-eng.zip"]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (status(503), "the server answered 503"),
        (body(ZIP[:40], length=len(ZIP)), "broke off"),
        (stall, "timed out"),
        (body(b"<html>Please log in</html>"), "not a zip archive"),
        (body(ZIP[:-30]), "not a whole zip archive"),
        (body(zipped(**{"a.txt": TEXT, "b.txt": TEXT})), "with one text file"),
    ],
    ids=["503", "broken off", "stalled", "a log-in page", "cut", "two texts"],
)
def test_a_server_that_keeps_failing_is_given_up_without_leaving_a_file(tmp_path, failure, reason):
    with (
        serving(failure) as server,
        pytest.raises(
            CorpusUnavailable, match=rf"{reason}.* \(attempt 2 of 2\)\. Pass --corpus PATH .* built-in sample"
        ),
    ):
        fetch_corpus(server.url, tmp_path, SHA256, stalled_after=0.2, attempts=2, backoff=0.01)
    assert server.requests == 2
    assert names(tmp_path) == []


def test_a_missing_file_is_not_asked_for_again(tmp_path):
    with serving(status(404)) as server, pytest.raises(CorpusUnavailable, match="the server answered 404 Not Found"):
        fetch_corpus(server.url, tmp_path, SHA256)
    assert server.requests == 1
    with pytest.raises(CorpusUnavailable, match="No such file"):
        fetch_corpus((tmp_path / "none.zip").as_uri(), tmp_path / "data", SHA256)


def within(seconds, url, folder, **options):
    """Fetches what cannot be had and checks that this is known in time."""
    begin = time.monotonic()
    with pytest.raises(CorpusUnavailable, match=r"Pass --corpus PATH .* built-in sample") as caught:
        fetch_corpus(url, folder, SHA256, **options)
    assert time.monotonic() - begin < seconds
    return str(caught.value)


def test_a_refused_connection_is_given_up_at_once(tmp_path):
    message = within(1, f"http://127.0.0.1:{closed_port()}/spa-eng.zip", tmp_path / "data")
    assert "the server cannot be reached" in message
    assert not (tmp_path / "data").exists()


def test_an_unknown_name_is_given_up_at_once(tmp_path, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "Name or service not known" in within(1, "http://corpus.invalid/spa-eng.zip", tmp_path)


def test_a_name_server_that_does_not_answer_is_given_up_in_time(tmp_path, monkeypatch):
    over = threading.Event()

    def unanswered(*_, **__):
        over.wait(10)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unanswered)
    message = within(1.5, "http://corpus.invalid/spa-eng.zip", tmp_path, answer_within=0.3)
    over.set()
    assert "no answer within 0.3 s" in message


@pytest.fixture
def resolve_to(monkeypatch):
    """Makes every name resolve to the given addresses, of which those not on this machine drop packets."""
    over = threading.Event()

    class Socket(socket.socket):
        def connect(self, address):
            if address[0] != "127.0.0.1":
                over.wait(self.gettimeout())
                raise TimeoutError("timed out")
            super().connect(address)

    def resolve_to(*addresses):
        answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer)
        monkeypatch.setattr(socket, "socket", Socket)

    yield resolve_to
    over.set()


def test_many_addresses_that_drop_packets_are_given_up_in_time(tmp_path, resolve_to):
    resolve_to(*[("192.0.2.1", 80)] * 16)
    message = within(1.5, "http://corpus.invalid/spa-eng.zip", tmp_path, answer_within=0.4)
    assert "no answer within 0.4 s" in message


def test_an_address_that_drops_packets_leaves_time_for_the_next(tmp_path, resolve_to):
    with serving(body(ZIP)) as server:
        resolve_to(("192.0.2.1", 80), ("127.0.0.1", server.http.server_port))
        path = fetch_corpus("http://corpus.invalid/spa-eng.zip", tmp_path, SHA256, answer_within=0.6)
    assert path.read_bytes() == ZIP


def test_a_server_that_says_nothing_is_given_up_in_time(tmp_path):
    with serving(silence) as server:
        assert "no answer within 0.3 s" in within(1.5, server.url, tmp_path, answer_within=0.3)
    assert server.requests == 1


def test_a_proxy_that_cannot_be_reached_is_given_up_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    assert "the server cannot be reached" in within(1, "http://corpus.invalid/spa-eng.zip", tmp_path)


def test_this_machine_is_asked_without_a_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    with serving(body(ZIP)) as server:
        assert fetch_corpus(server.url, tmp_path, SHA256).read_bytes() == ZIP


def test_another_text_is_used_with_a_warning_every_time(tmp_path):
    with serving(body(ZIP)) as server:
        for _ in range(2):
            with pytest.warns(UserWarning, match=f"sha256 {SHA256}, expected 00.*scores on it may not compare"):
                path = fetch_corpus(server.url, tmp_path, "00")
    assert path.read_bytes() == ZIP


def test_the_digest_is_the_text_s_not_the_zip_s(tmp_path):
    packed_anew = zipped(**{"other/name.txt": TEXT})
    with serving(body(packed_anew)) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        fetch_corpus(server.url, tmp_path, SHA256)


@pytest.mark.parametrize(
    "content", [zipped(**{"spa.txt": b"a\tb\n" * 100_000}), b"\0" * 100_000], ids=["text", "transfer"]
)
def test_more_than_the_bound_is_refused_packed_or_unpacked(tmp_path, content):
    with (
        serving(body(content)) as server,
        pytest.raises(CorpusUnavailable, match="it is larger than max_bytes=50,000"),
    ):
        fetch_corpus(server.url, tmp_path, SHA256, max_bytes=50_000)
    assert server.requests == 1
    assert names(tmp_path) == []


def test_a_member_named_like_a_path_out_of_the_folder_writes_nothing_there(tmp_path):
    folder = tmp_path / "inner" / "data"
    with serving(body(zipped(**{"../../evil.txt": TEXT}))) as server:
        path = fetch_corpus(server.url, folder, SHA256)
    assert len(read_pairs(path, source_column=1, target_column=0).pairs) == 2
    assert names(folder) == ["spa-eng.zip"]
    assert names(tmp_path) == ["inner"]


@pytest.mark.parametrize(
    "url", ["ftp://host/a.zip", "a.zip", "http://host/", "http:///a.zip", "http://host/..", "file://host/a.zip", ""]
)
def test_a_url_that_names_no_file_is_refused(tmp_path, url):
    with pytest.raises(ValueError, match="url: expected an http, https or file URL"):
        fetch_corpus(url, tmp_path, SHA256)


def test_no_attempt_is_refused(tmp_path):
    with pytest.raises(ValueError, match="attempts: expected at least 1, received 0"):
        fetch_corpus("http://host/a.zip", tmp_path, SHA256, attempts=0)
