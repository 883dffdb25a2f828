"""Bulk translation: order, resuming, bounded memory, errors."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest
from servers import ROOT

from serve.bulk import main, partial_file, translate_file, whole_lines
from serve.client import Client, ClientError, Retry


class Upper:
    """A server that answers in capitals. It fails from request ``fail_at`` on, and for texts of over 65,536 bytes."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.asked: list[list[str]] = []
        self.fail_at = fail_at
        self.lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["inputs"]["text"]
        if texts == ["línea 0"]:
            time.sleep(0.2)
        with self.lock:
            self.asked.append(texts)
            if self.fail_at is not None and len(self.asked) >= self.fail_at:
                return httpx.Response(500, json={"error": "broken"})
        if max(len(text.encode()) for text in texts) > 65536:
            return httpx.Response(400, json={"error": "too long"})
        columns = {
            "translation": [text.upper() for text in texts],
            "score": [-1.0] * len(texts),
            "truncated": [len(text) > 20 for text in texts],
        }
        return httpx.Response(200, json={"outputs": columns})


def translate(server: Upper, source: Iterable[str], output: Path, batch: int = 9, workers: int = 1) -> list[int]:
    with Client("http://server:1", retry=Retry(1), transport=httpx.MockTransport(server)) as client:
        return translate_file(client, source, output, batch, workers)


def lines(count: int) -> list[str]:
    return [f"línea {number}" for number in range(count)]


def translated(*numbers: int) -> str:
    return "".join(f"LÍNEA {number}\n" for number in numbers)


@pytest.fixture
def output(tmp_path) -> Path:
    return tmp_path / "out"


def test_line_n_of_the_output_is_the_translation_of_line_n_of_the_input(output):
    source = ["¿Uno? Dos.  Tres", "", "cuatro\u2028Y.\rNo.", "  ", "cinco"]
    assert translate(Upper(), source, output, batch=2, workers=2) == []
    assert output.read_text() == "¿UNO? DOS.  TRES\n\nCUATRO Y. NO.\n  \nCINCO\n"


def test_answers_that_arrive_in_another_order_are_written_in_order(output):
    server = Upper()
    translate(server, lines(9), output, batch=1, workers=4)
    assert server.asked[0] != ["línea 0"]
    assert output.read_text() == translated(*range(9))


def test_after_an_error_the_same_command_continues_where_the_output_ends(output, capsys):
    with pytest.raises(ClientError, match="HTTP 500: broken"):
        translate(Upper(fail_at=4), lines(10), output, batch=2)
    assert partial_file(output).read_text() == translated(*range(6))
    assert not output.exists()
    server = Upper()
    translate(server, lines(10), output, batch=3)
    assert "resuming after line 6. If" in capsys.readouterr().err
    assert server.asked == [["línea 6", "línea 7", "línea 8"], ["línea 9"]]
    assert output.read_text() == translated(*range(10))


@pytest.mark.parametrize("place", [lambda output: output, partial_file])
def test_an_output_with_more_lines_than_the_input_is_refused(output, place):
    place(output).write_text("A\nB\nC\n")
    with pytest.raises(ValueError, match=r"has 3 lines.*input has 2"):
        translate(Upper(), lines(2), output)
    assert place(output).read_text() == "A\nB\nC\n"


@pytest.mark.parametrize("content", ["", "uno\ndos", "uno\n", "uno\ndos\ntres\n"])
def test_a_file_of_the_user_is_never_changed_as_by_swapped_arguments(output, content):
    output.write_text(content)
    server = Upper()
    if content == "uno\ndos":  # as many lines as the input: as if it were complete
        assert translate(server, lines(2), output) == []
    else:
        with pytest.raises(ValueError, match=r"out exists and has \d lines, but the input has 2"):
            translate(server, lines(2), output)
    assert server.asked == []
    assert [path.read_text() for path in output.parent.iterdir()] == [content]


def test_an_output_that_another_command_writes_is_refused(output):
    def beside():
        yield from lines(1)
        with pytest.raises(ValueError, match=str(output)):
            translate(Upper(), lines(4), output)
        yield from lines(4)[1:]

    translate(Upper(), beside(), output, batch=1)
    assert output.read_text() == translated(*range(4))


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
def test_only_whole_lines_count(output, content, count, kept):
    assert whole_lines(output) == 0
    output.write_bytes(content)
    assert whole_lines(output) == count
    assert output.read_bytes() == kept


# Command line


def test_a_killed_command_continues_where_it_was(served, tmp_path, output):
    source = tmp_path / "in"
    source.write_text("".join(f"a{number} b\n" for number in range(40)))
    command = [sys.executable, "-m", "serve.bulk", source, output, "--url", served, "--lines", "1", "--workers", "1"]
    from_pipe = [*command[:3], "-", *command[4:]]
    with subprocess.Popen(from_pipe, cwd=ROOT, stdin=subprocess.PIPE) as process:
        process.stdin.write(b"".join(source.read_bytes().splitlines(keepends=True)[:20]))
        process.stdin.flush()
        deadline = time.monotonic() + 30
        written = partial_file(output)
        while not (written.exists() and written.read_bytes().count(b"\n") >= 5):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert output.read_text().splitlines() == [f"b a{number}" for number in range(40)]
    (line,) = finished.stderr.splitlines()  # no progress bar outside a terminal
    assert "resuming after line " in line


@pytest.mark.parametrize(("long", "beginning"), [("a b c d e", "e d c b a"), ("ñ " * 40_000, "ñ ñ ")])
def test_the_command_warns_of_sentences_that_were_cut(served, tmp_path, output, capsys, long, beginning):
    (tmp_path / "in").write_bytes(gzip.compress(f"\ufeffa b\n{long}\nc d\n\udcff\n".encode("utf-8", "surrogateescape")))
    main([str(tmp_path / "in"), str(output), "--url", served])
    first, cut, last, replaced = output.read_text().splitlines()
    assert (first, last, replaced) == ("b a", "d c", "\ufffd")
    assert cut.startswith(beginning)
    said = capsys.readouterr().err
    assert re.search(r"serve.bulk: .* cut in 1 line of .*/in; the first is line 2\.\n", said)
    assert re.search(r"serve.bulk: .* U\+FFFD .* in 1 line of .*/in; the first is line 4\.\n", said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in", "in"], "Received: in for both"),
        (["in", "-"], "Output must be a regular file, so that it can be resumed. Received: -"),
        (["in", "/dev/full"], "Received: /dev/full"),
        (["in", "out", "--max-text-bytes", "0"], "--max-text-bytes must be 1 or more. Received: 0"),
        (["in", "out", "--workers", "0"], "--workers must be 1 or more. Received: 0"),
        (["nowhere", "out"], "nowhere"),
    ],
)
def test_the_command_refuses_wrong_options_and_changes_no_file(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("in").write_text("a\n")
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert message in f"{caught.value} {capsys.readouterr().err}"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["a\n"]
