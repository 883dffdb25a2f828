"""Lines of text: read in blocks as they arrive, so that pipes flow and memory stays bounded."""

from __future__ import annotations

import codecs
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader, FileIO
from typing import Annotated, Protocol

import tyro

from nmt_keras.config import require
from nmt_keras.corpus.archive import open_text
from nmt_keras.corpus.reading import Pair

STANDARD_INPUT = "-"
READ_AT_ONCE = 1 << 18  # bytes: about 7,000 sentences of a file are sorted by length together; a pipe gives 64 KiB
LONGEST_LINE = 1 << 20  # characters; the rest of a longer line is dropped, as no model reads it
PAIRS_AT_ONCE = 1024


class ByteStream(Protocol):
    """A file, a pipe, or a member of an archive."""

    def read1(self, size: int, /) -> bytes:
        """Returns at most ``size`` bytes that have arrived; b"" at the end."""


def blocks(stream: ByteStream) -> Iterator[list[str]]:
    """Yields the lines of a UTF-8 stream, without their ends, in blocks of the lines that have arrived.

    A line ends in "\\n" or "\\r\\n". Bytes that are not UTF-8 become U+FFFD.
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
    """Yields ``sentences`` as one block; without sentences, or with "-", blocks of standard input's lines."""
    if tuple(sentences) in ((), (STANDARD_INPUT,)):
        yield from blocks(standard_input())
    else:
        yield list(sentences)


@dataclass(frozen=True)
class PairFiles:
    """The options of commands that read sentence pairs."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")] = ()
    """A file of lines source<TAB>target, or a source and a target file, plain, .gz or .zip. Without a file, or with -,
    standard input is read."""
    source_column: int | None = None
    """Source column of a single file, counted from 0; 0 by default. nmt train and nmt evaluate have other defaults."""
    target_column: int | None = None
    """Target column of a single file, counted from 0; 1 by default."""

    def __post_init__(self) -> None:
        require(len(self.files) <= 2, "FILE", "one of lines source<TAB>target, or a source and a target", self.files)
        source, target = self.columns
        require(
            len(self.files) < 2 or not self.names_columns,
            "--source-column, --target-column",
            "none with two files",
            self.columns,
        )
        require(source >= 0, "--source-column", "0 or more", source)
        require(target >= 0, "--target-column", "0 or more", target)
        require(source != target, "--target-column", "another column than --source-column", target)

    @property
    def names_columns(self) -> bool:
        """``True`` if a column option is given: other columns are then ignored."""
        return (self.source_column, self.target_column) != (None, None)

    @property
    def columns(self) -> tuple[int, int]:
        """Columns of source and target."""
        return self.source_column or 0, 1 if self.target_column is None else self.target_column

    def blocks(self) -> Iterator[list[Pair]]:
        """Yields the pairs in blocks. No line is skipped, so results correspond to lines.

        Raises:
            OSError: a file cannot be read.
            ValueError: a line is not a pair, or one file is longer than the other.
        """
        with ExitStack() as opened:
            sides = [
                blocks(standard_input() if file == STANDARD_INPUT else opened.enter_context(open_text(file)))
                for file in self.files or [STANDARD_INPUT]
            ]
            if len(sides) == 2:
                pairs = self._parallel(*map(itertools.chain.from_iterable, sides))
                while block := list(itertools.islice(pairs, PAIRS_AT_ONCE)):
                    yield block
            else:
                numbers = itertools.count(1)
                for lines in sides[0]:
                    yield [self._parsed(line, number) for line, number in zip(lines, numbers, strict=False)]

    def _parallel(self, sources: Iterable[str], targets: Iterable[str]) -> Iterator[Pair]:
        for number, (source, target) in enumerate(itertools.zip_longest(sources, targets), start=1):
            if source is None or target is None:
                ended = self.files[0 if source is None else 1]
                raise ValueError(f"FILE: expected files with the same number of lines; {ended} has {number - 1} lines.")
            yield Pair(source, target)

    def _parsed(self, line: str, number: int) -> Pair:
        found = line.split("\t")
        source, target = self.columns
        if len(found) <= max(source, target) or (len(found) > 2 and not self.names_columns):
            where = f"{self.files[0] if self.files else 'standard input'}:{number}"
            raise ValueError(
                f"{where}: expected source<TAB>target in columns {source} and {target}, received {line!r:.80}. Pass "
                "--source-column and --target-column for lines of more columns or in another order."
            )
        return Pair(found[source], found[target])


def standard_input() -> ByteStream:
    """Returns standard input as a stream; on a terminal, explains how to end it."""
    if sys.stdin.isatty():
        print("Reading standard input; Ctrl-D ends it.", file=sys.stderr)
    return BufferedReader(FileIO(sys.stdin.fileno(), closefd=False))


def one_line(text: str) -> str:
    """Returns a text without line breaks, so that each answer is one line."""
    return text.replace("\n", " ").replace("\r", " ")
