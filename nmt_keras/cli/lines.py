"""Reads lines of text in blocks as they arrive. Results appear before the input ends, and memory is bounded."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator, Sequence
from io import BufferedIOBase, BufferedReader, FileIO

STANDARD_INPUT = "-"
READ_AT_ONCE = 1 << 18  # bytes: about 7,000 sentences, enough to translate sentences of similar length together
LONGEST_LINE = 1 << 20  # characters; longer lines are truncated, because no model translates that many


def blocks(stream: BufferedIOBase) -> Iterator[list[str]]:
    """Yields the lines of a UTF-8 stream in blocks. A block holds the lines that have arrived.

    Lines end in "\\n" or "\\r\\n", which is removed. Bytes that are not UTF-8 become U+FFFD.
    """
    decoder, rest = codecs.getincrementaldecoder("utf-8-sig")("replace"), ""
    while data := stream.read1(READ_AT_ONCE):
        *lines, rest = (rest + decoder.decode(data)).split("\n")
        rest = rest[:LONGEST_LINE]
        if lines:
            yield [line.removesuffix("\r") for line in lines]
    if rest := rest + decoder.decode(b"", final=True):
        yield [rest.removesuffix("\r")]


def text_blocks(sentences: Sequence[str]) -> Iterator[list[str]]:
    """Yields ``sentences`` as one block. Without sentences, or with "-" alone, yields blocks of standard input."""
    if tuple(sentences) in ((), (STANDARD_INPUT,)):
        yield from blocks(standard_input())
    else:
        yield list(sentences)


def standard_input() -> BufferedIOBase:
    """Returns standard input as a stream. If it is a terminal, prints how to end the input."""
    if sys.stdin.isatty():
        print("Reading standard input. Press Ctrl-D to end it.", file=sys.stderr)
    return BufferedReader(FileIO(sys.stdin.fileno(), closefd=False))


def one_line(text: str) -> str:
    """Returns the text with spaces in place of line breaks, so that each translation is one line."""
    return text.replace("\n", " ").replace("\r", " ")
