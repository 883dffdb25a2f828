"""Downloads: a corpus arrives complete or not at all, and a blocked network is noticed within seconds."""

import hashlib
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tiny import write_pairs, zipped

from nmt_keras.config import CorpusConfig
from nmt_keras.corpus import CorpusUnavailable, Pair, fetch_corpus, read_pairs
from nmt_keras.corpus.loading import load_corpus, load_pairs
from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.languages import standard_tag

TEXT = "Go.\tVe.\nStop!\t¡Para!\n".encode()
SHA256 = hashlib.sha256(TEXT).hexdigest()


ZIP = zipped({"spa-eng/spa.txt": TEXT})


@contextmanager
def serving(*replies):
    """Runs a server that gives each reply once and repeats the last. Yields its URL and the requested paths."""
    asked, over = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            replies[min(len(asked), len(replies)) - 1](self, over)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/data/spa-eng.zip", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def reply(code=200, content=b"", length=None):
    def answer(handler, _):
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        handler.send_header("Location", "/elsewhere")
        handler.end_headers()
        handler.wfile.write(content)

    return answer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_the_zip_is_downloaded_once_and_read_without_unpacking_it(tmp_path):
    folder = tmp_path / "new" / "data"
    content = zipped({"../../evil.txt": TEXT})
    with serving(reply(302), reply(content=content)) as (url, asked):
        for _ in range(2):
            path = fetch_corpus(url, folder, SHA256)
    assert asked == ["/data/spa-eng.zip", "/elsewhere"]
    assert (path, path.read_bytes()) == (folder / "spa-eng.zip", content)
    assert read_pairs(path, source_column=1, target_column=0).pairs == [("Ve.", "Go."), ("¡Para!", "Stop!")]
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "new", folder, path]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (reply(503), "503"),
        (reply(404), "404"),
        (reply(content=ZIP[:40], length=len(ZIP)), "closed"),
        (reply(content=b"<html>Please log in</html>"), "not a complete zip"),
        (reply(content=ZIP[:-30]), "not a complete zip"),
        (reply(content=ZIP + b"more than the limit"), "more than"),
        (lambda *_: None, "disconnected"),
    ],
    ids=["503", "404", "broken off", "a log-in page", "cut", "too large", "closed without an answer"],
)
def test_a_failed_download_leaves_no_file(tmp_path, monkeypatch, failure, reason):
    monkeypatch.setattr("nmt_keras.corpus.download.MOST_BYTES", len(ZIP))
    with serving(failure) as (url, _), pytest.raises(CorpusUnavailable, match=f"{reason}.*--corpus PATH"):
        fetch_corpus(url, tmp_path, SHA256)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_given_up_in_time(tmp_path):
    begin = time.monotonic()
    with (
        serving(lambda _, over: over.wait(10)) as (url, _),
        pytest.raises(CorpusUnavailable, match=r"no answer within 0\.3 s"),
    ):
        fetch_corpus(url, tmp_path, SHA256, answer_within=0.3)
    assert time.monotonic() - begin < 3.0


@pytest.mark.parametrize(
    ("content", "sha256", "message"),
    [
        (ZIP, "00", f"http://.*: .*sha256 00, .*{SHA256}.*--source-column 1"),
        (zipped({"a.pdf": b"", "b.pdf": b""}), None, "^http://.*/spa-eng.zip: .*received 2"),
    ],
    ids=["another text", "no text"],
)
def test_another_text_or_none_is_an_error_and_leaves_no_file(content, sha256, message, tmp_path):
    with serving(reply(content=content)) as (url, _):
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                fetch_corpus(url, tmp_path, sha256)
    assert list(tmp_path.iterdir()) == []


GERMAN = "".join(
    f"Sentence {number}.\tSatz {number}!\tCC-BY 2.0 (France) Attribution: tatoeba.org #{number}\n"
    for number in range(99)
).encode()


def test_the_pairs_of_two_languages_are_downloaded_by_code(tmp_path, monkeypatch):
    told = []
    with serving(reply(content=zipped({"deu.txt": GERMAN, "_about.txt": b"Tab-delimited pairs\tof Tatoeba"}))) as (
        url,
        asked,
    ):
        monkeypatch.setattr("nmt_keras.corpus.loading.PAIRS_URL", url.replace("spa-eng", "{}-eng"))
        for languages, pair in (("de-eng", ("Satz 0!", "Sentence 0.")), ("eng-deu", ("Sentence 0.", "Satz 0!"))):
            options = CorpusOptions(languages=languages)
            corpus = load_corpus(options, CorpusConfig(), tmp_path, told.append)
            assert pair in corpus.train
            write_pairs(tmp_path / "dev.tsv", [Pair(*pair)])  # source first, unlike one of the downloads
            assert load_pairs(options, [str(tmp_path / "dev.tsv")], told.append) == [pair]
            assert (options.name, options.language_tags) == (
                corpus.name,
                tuple(map(standard_tag, languages.split("-"))),
            )
            assert not options.is_spanish_english
    assert asked == ["/data/deu-eng.zip"]  # once
    assert sum("MB" in line and "deu-eng.zip" in line for line in told) == 1
    assert any("Tatoeba, CC BY 2.0" in line for line in told)


@pytest.mark.parametrize("code", [403, 404, 406])
def test_a_missing_pair_and_a_refusal_say_how_to_fetch_the_file_by_hand(tmp_path, monkeypatch, code):
    remedy = "--corpus cmn-eng.zip --source-column 0 --target-column 1 --source-language en --target-language zh"
    with serving(reply(code)) as (url, asked):
        monkeypatch.setattr("nmt_keras.corpus.loading.PAIRS_URL", url.replace("spa-eng", "{}-eng"))
        with pytest.raises(CorpusUnavailable, match=f"{code}.* lists .*{remedy}"):
            load_corpus(CorpusOptions(languages="en-zh"), CorpusConfig(), tmp_path, print)
    assert asked == ["/data/cmn-eng.zip"]


@pytest.mark.parametrize(
    ("languages", "file"),
    [("fa-en", "pes"), ("nor-eng", "nob"), ("lv-en", "lvs"), ("ms-en", "zsm"), ("ger-en", "deu"), ("eng-nb", "nob")],
)
def test_files_have_the_codes_of_their_host(languages, file):
    assert file in CorpusOptions(languages=languages).name.split("-")
