"""Bulk translation: order, resuming, bounded memory, errors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from serve.bulk import main, translate_file, whole_lines
from serve.client import Client, ClientError, Retry

ROOT = Path(__file__).parents[2]


class Upper:
    """A server that answers in capitals; remembers what it was asked, and fails from request ``fail_at`` on."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.asked: list[list[str]] = []
        self.fail_at = fail_at
        self.lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["inputs"]["text"]
        with self.lock:
            self.asked.append(texts)
            if self.fail_at is not None and len(self.asked) >= self.fail_at:
                return httpx.Response(500, json={"error": "broken"})
        columns = {
            "translation": [text.upper() for text in texts],
            "score": [-1.0] * len(texts),
            "truncated": [len(text) > 20 for text in texts],
        }
        return httpx.Response(200, json={"outputs": columns})


def client(server: Upper) -> Client:
    return Client("http://server:1", retry=Retry(1), transport=httpx.MockTransport(server))


def lines(count: int) -> list[bytes]:
    return [f"línea {number}\n".encode() for number in range(count)]


def test_line_n_of_the_output_is_the_translation_of_line_n_of_the_input(tmp_path):
    server = Upper()
    source = ["¿Uno? Dos.  Tres\n".encode(), b"\n", b"cuatro\r\n", b"  \n", b"cinco"]
    assert translate_file(client(server), source, tmp_path / "out", batch=2, workers=2) == 0
    assert (tmp_path / "out").read_text() == "¿UNO? DOS.  TRES\n\nCUATRO\n  \nCINCO\n"


def test_answers_that_overtake_each_other_are_written_in_order(tmp_path):
    class FirstIsSlow(Upper):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            if "línea 0" in request.content.decode():
                time.sleep(0.2)
            return super().__call__(request)

    server = FirstIsSlow()
    translate_file(client(server), lines(9), tmp_path / "out", batch=1, workers=4)
    assert server.asked[0] != ["línea 0"]
    assert (tmp_path / "out").read_text().splitlines() == [f"LÍNEA {number}" for number in range(9)]


def test_after_an_error_the_same_command_goes_on_where_the_output_ends(tmp_path):
    output = tmp_path / "out"
    with pytest.raises(ClientError, match="HTTP 500: broken"):
        translate_file(client(Upper(fail_at=4)), lines(10), output, batch=2, workers=1)
    assert output.read_text().splitlines() == [f"LÍNEA {number}" for number in range(6)]
    server = Upper()
    translate_file(client(server), lines(10), output, batch=3, workers=1)
    assert server.asked == [["línea 6", "línea 7", "línea 8"], ["línea 9"]]
    assert output.read_text().splitlines() == [f"LÍNEA {number}" for number in range(10)]


def test_a_line_that_a_kill_cut_off_is_made_again(tmp_path):
    output = tmp_path / "out"
    output.write_bytes("LÍNEA 0\nLÍN".encode())
    server = Upper()
    translate_file(client(server), lines(2), output, batch=9, workers=1)
    assert output.read_text() == "LÍNEA 0\nLÍNEA 1\n"
    assert server.asked == [["línea 1"]]


def test_a_finished_output_is_left_as_it_is(tmp_path):
    output = tmp_path / "out"
    output.write_text("A\nB\n")
    server = Upper()
    translate_file(client(server), lines(2), output, batch=9, workers=1)
    assert output.read_text() == "A\nB\n"
    assert server.asked == []


def test_an_output_with_more_lines_than_the_input_is_refused(tmp_path):
    output = tmp_path / "out"
    output.write_text("A\nB\nC\n")
    with pytest.raises(ValueError, match="expected no more lines than the input's 2, found 3: is it the output of ano"):
        translate_file(client(Upper()), lines(2), output, batch=9, workers=1)
    assert output.read_text() == "A\nB\nC\n"


@pytest.mark.parametrize(
    ("content", "count", "kept"),
    [
        (b"", 0, b""),
        (b"cut", 0, b""),
        (b"\n\n", 2, b"\n\n"),
        (b"x" * (1 << 20) + b"\ny", 1, b"x" * (1 << 20) + b"\n"),
        (b"a\n" + b"y" * (3 << 20), 1, b"a\n"),
    ],
)
def test_only_whole_lines_count(tmp_path, content, count, kept):
    output = tmp_path / "out"
    assert whole_lines(output) == 0
    output.write_bytes(content)
    assert whole_lines(output) == count
    assert output.read_bytes() == kept


def test_no_more_input_is_read_than_a_few_batches_ahead(tmp_path):
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x\n"

    with pytest.raises(ClientError):
        translate_file(client(Upper(fail_at=10)), endless(), tmp_path / "out", batch=5, workers=2)
    assert taken <= 5 * (10 + 2 * 2)


def test_lines_that_were_cut_are_counted(tmp_path):
    source = [b"a sentence of many characters. Short.\n", b"short\n", b"another long long sentence\n"]
    assert translate_file(client(Upper()), source, tmp_path / "out", batch=1, workers=1) == 2


class Refusing(Upper):
    """Takes no more than 65,536 bytes of a string, as the embedded server does."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        longest = max(len(text.encode()) for text in json.loads(request.content)["inputs"]["text"])
        return super().__call__(request) if longest <= 65536 else httpx.Response(400, json={"error": "too long"})


@pytest.mark.parametrize(
    "long", ["ñ" * 40_000, "ñ " * 40_000, "x" + "\U0001f600" * 20_000], ids=["word", "words", "odd"]
)
def test_a_sentence_beyond_what_servers_take_is_cut_and_holds_up_nobody(tmp_path, long):
    source = [b"before\n", long.encode() + b"\n", b"after\n"]
    server = Refusing()
    assert translate_file(client(server), source, tmp_path / "out", batch=3, workers=1) == 1
    before, cut, after = (tmp_path / "out").read_text().splitlines()
    assert (before, after) == ("BEFORE", "AFTER")
    assert long.upper().startswith(cut)
    assert 32760 <= len(cut.encode()) <= 32768


@pytest.mark.server
def test_the_embedded_server_takes_what_is_sent_of_the_longest_line(served, tmp_path, capsys):
    (tmp_path / "in").write_text("a b\n" + "ñ " * 40_000 + "\nc d\n")
    main([str(tmp_path / "in"), str(tmp_path / "out"), "--url", served])
    first, cut, last = (tmp_path / "out").read_text().splitlines()
    assert (first, cut[:4], last) == ("b a", "ñ ñ ", "d c")
    assert "serve.bulk: 1 lines hold a sentence" in capsys.readouterr().err


def test_a_line_that_is_not_utf_8_is_named_and_those_before_it_are_kept(tmp_path):
    with pytest.raises(ValueError, match=r"input, line 3: expected UTF-8, found byte 0xff at column 2\. iconv"):
        translate_file(client(Upper()), [b"a\n", b"b\n", b"c\xff\n"], tmp_path / "out", batch=1, workers=1)
    assert (tmp_path / "out").read_text() == "A\nB\n"


# Command line


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "serve.bulk", *map(str, arguments)]


@pytest.mark.server
def test_a_killed_command_goes_on_where_it_was(served, tmp_path):
    source, output = tmp_path / "in", tmp_path / "out"
    texts = [f"a{number} b" for number in range(40)]
    source.write_text("".join(f"{text}\n" for text in texts))
    few = ["--url", served, "--lines", "1", "--workers", "1"]
    with subprocess.Popen(command("-", output, *few), cwd=ROOT, stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write("".join(f"{text}\n" for text in texts[:20]))
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not (output.exists() and output.read_bytes().count(b"\n") >= 5):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    assert output.read_bytes().count(b"\n") < len(texts)
    finished = subprocess.run(command(source, output, *few), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0
    assert output.read_text().splitlines() == [f"b a{number}" for number in range(40)]
    assert finished.stderr == ""  # no progress where nobody looks


@pytest.mark.server
def test_the_command_warns_of_what_was_cut(served, tmp_path, capsys):
    (tmp_path / "in").write_text("a b c d e\nf\n")
    main([str(tmp_path / "in"), str(tmp_path / "out"), "--url", served])
    assert "serve.bulk: 1 lines hold a sentence that is longer than the model reads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in", "in"], "output: expected another file than the input"),
        (["in", "out", "--max-text-bytes", "0"], "--max-text-bytes: expected 1 or more, received 0"),
        (["in", "out", "--workers", "0"], "--workers: expected 1 or more, received 0"),
    ],
)
def test_the_command_refuses_options_that_cannot_be(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("a\n")
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in " ".join(capsys.readouterr().err.split())
    assert Path("in").read_text() == "a\n"
    assert not Path("out").exists()


def test_an_input_that_does_not_exist_is_told_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"serve.bulk: .*No such file.*nowhere"):
        main([str(tmp_path / "nowhere"), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
