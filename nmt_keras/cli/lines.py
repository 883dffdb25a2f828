"""Text in and out by lines: read as they come, in blocks, so that a pipe flows and memory stays flat."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedReader, FileIO
from typing import Protocol

from nmt_keras.corpus.archive import open_text
from nmt_keras.corpus.reading import Pair

STANDARD_INPUT = "-"
READ_AT_ONCE = 1 << 18  # bytes: some 7,000 sentences of a file are sorted by length together; a pipe gives 64 KiB
LONGEST_LINE = 1 << 20  # bytes; what a longer one has beyond is dropped, as no model reads it
PAIRS_AT_ONCE = 1024


class ByteStream(Protocol):
    """A file, a pipe, or an archive's member."""

    def read1(self, size: int, /) -> bytes:
        """What has come by now, ``size`` bytes at the most; b"" at the end."""


def blocks(stream: ByteStream) -> Iterator[list[str]]:
    """The lines of a stream of UTF-8, without their ends, in blocks of those that have come by now, at least one.

    Only "\\n" ends a line, with one "\\r" before it if there is one. Bytes that are no UTF-8 become U+FFFD.
    """
    rest = b""
    first = True
    while data := stream.read1(READ_AT_ONCE):
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[:LONGEST_LINE]
        if lines:
            yield _decoded(lines, first)
            first = False
    if rest:
        yield _decoded([rest], first)


def _decoded(lines: Sequence[bytes], begins: bool) -> list[str]:
    text = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines]
    return [text[0].removeprefix("\ufeff"), *text[1:]] if begins else text


def text_blocks(sentences: Sequence[str]) -> Iterator[list[str]]:
    """The sentences of a command line in one block; blocks of standard input's lines where there are none, or "-"."""
    if sentences and tuple(sentences) != (STANDARD_INPUT,):
        yield list(sentences)
    else:
        yield from blocks(_standard_input())


def pair_blocks(files: Sequence[str], columns: tuple[int, int] | None = None) -> Iterator[list[Pair]]:
    """Pairs in blocks: of one file's lines source<TAB>target, of two files' lines, or of standard input's.

    Files are plain, gzipped or zipped; "-" is standard input. No line is left out, so answers correspond to lines.

    Args:
        files: none, one or two.
        columns: where a line of one file has source and target, counted from 0, others beside them or not. None for
            lines source<TAB>target, which have nothing else.

    Raises:
        OSError: a file cannot be read.
        ValueError: a line is no pair, one file is longer than the other, or there are more than two.
    """
    if len(files) > 2:
        raise ValueError(f"files: expected one of lines source<TAB>target, or two, received {len(files)}: {files}.")
    with ExitStack() as opened:
        streams: list[ByteStream] = [
            _standard_input() if file == STANDARD_INPUT else opened.enter_context(open_text(file))
            for file in files or (STANDARD_INPUT,)
        ]
        if len(streams) == 2:
            sides = [itertools.chain.from_iterable(blocks(stream)) for stream in streams]
            pairs = _corresponding(sides[0], sides[1], *files)
            while corresponding := list(itertools.islice(pairs, PAIRS_AT_ONCE)):
                yield corresponding
            return
        where, number = files[0] if files else "standard input", 0
        for block in blocks(streams[0]):
            yield [_parsed(line, f"{where}:{number + n}", columns) for n, line in enumerate(block, start=1)]
            number += len(block)


def _parsed(line: str, where: str, columns: tuple[int, int] | None) -> Pair:
    found = line.split("\t")
    if columns is None:
        if len(found) != 2:
            raise ValueError(
                f"{where}: expected source<TAB>target, received {line!r:.80}. --source-column and --target-column read "
                "lines of more columns, or in another order."
            )
        return Pair(*found)
    source, target = columns
    if len(found) <= max(columns):
        raise ValueError(
            f"{where}: expected columns {source} and {target}, counted from 0 and parted by tabs, received "
            f"{line!r:.80}."
        )
    return Pair(found[source], found[target])


def _corresponding(sources: Iterable[str], targets: Iterable[str], first: str, second: str) -> Iterator[Pair]:
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets), start=1):
        if source is None or target is None:
            ended = first if source is None else second
            raise ValueError(
                f"files: expected as many lines in {first} as in {second}; {ended} ends before line {number}."
            )
        yield Pair(source, target)


def _standard_input() -> ByteStream:
    if sys.stdin.isatty():
        print("Reading standard input; Ctrl-D ends it.", file=sys.stderr)
    return BufferedReader(FileIO(sys.stdin.fileno(), closefd=False))


def one_line(text: str) -> str:
    """A text without line breaks, so that each answer is one line."""
    return text.replace("\n", " ").replace("\r", " ")
