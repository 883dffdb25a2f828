"""Reads sentence pairs from text files and counts malformed lines.

A file is plain text, gzip or zip. A line ends in "\\n" or "\\r\\n". U+2028, U+0085 and similar characters belong to the
sentence. Sentences keep their spaces, case and accents.
"""

from __future__ import annotations

import codecs
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat, zip_longest
from os import PathLike
from typing import NamedTuple

from nmt_keras.config import require
from nmt_keras.corpus.archive import open_text
from nmt_keras.corpus.columns import require_columns

MAX_CHARACTERS = 2000  # per side; a line with a longer side is malformed
MAX_LINE_BYTES = 2 * 4 * MAX_CHARACTERS + 2**20  # two sides of maximum length in UTF-8, and 1 MiB of other columns
REPORTED_FAULTS = 10


class Pair(NamedTuple):
    """A sentence and its translation, unchanged from the file."""

    source: str
    target: str


class Fault(StrEnum):
    """Kind of error in a malformed line."""

    MISSING_COLUMN = "missing column"
    EMPTY_SIDE = "empty side"
    INVALID_UTF8 = "invalid UTF-8"
    NUL = "NUL character"
    TOO_LONG = "over-long side"


class FaultyLine(NamedTuple):
    """A malformed line."""

    file: str
    line: int  # from 1
    fault: Fault

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.fault}"


@dataclass
class ReadReport:
    """Counts of the lines of a corpus."""

    lines: int = 0  # without blank lines at the end of a file
    faults: Counter[Fault] = field(default_factory=Counter)  # a line with several faults is counted under the first one
    first_faults: list[FaultyLine] = field(default_factory=list)  # at most REPORTED_FAULTS
    numbers: list[int] = field(default_factory=list)  # line of each pair, from 1; read_pairs and read_parallel set it

    @property
    def malformed(self) -> int:
        """Number of malformed lines."""
        return self.faults.total()

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {fault}" for fault, count in self.faults.items())
        first = ". First: " + "; ".join(map(str, self.first_faults)) if self.first_faults else ""
        return f"{self.malformed:,} of {self.lines:,} lines malformed{counts and ': '}{counts}{first}"

    def count(self, found: Iterable[Pair | FaultyLine]) -> Iterator[Pair]:
        """Yields the pairs in ``found``, and counts pairs and malformed lines."""
        for one in found:
            self.lines += 1
            if isinstance(one, Pair):
                yield one
                continue
            self.faults[one.fault] += 1
            if len(self.first_faults) < REPORTED_FAULTS:
                self.first_faults.append(one)


class Corpus(NamedTuple):
    """Pairs in the order of their file, and counts of its lines."""

    pairs: list[Pair]
    report: ReadReport


def read_pairs(
    path: str | PathLike[str], *, source_column: int, target_column: int, max_malformed: float = 0.01
) -> Corpus:
    """Reads pairs from tab-separated lines. Other columns are ignored.

    The columns have no default, because a file does not record its direction. Files of manythings.org/anki have the
    columns English<TAB>Spanish, so a Spanish-to-English corpus has ``source_column=1, target_column=0``.

    Args:
        path: Path of plain, gzipped or zipped UTF-8 text. A byte order mark at the start is dropped.
        source_column: Column of the source sentence, counted from 0.
        target_column: Column of the target sentence, counted from 0.
        max_malformed: Maximum share (0 to 1) of malformed lines. Malformed lines are skipped and counted.

    Raises:
        FileNotFoundError: there is no file at ``path``.
        ValueError: an argument is out of range, the file is a damaged archive, or it has no pair or too many malformed
            lines.
    """
    return _collect(stream_pairs(path, source_column, target_column), str(path), max_malformed)


def read_parallel(
    source_path: str | PathLike[str], target_path: str | PathLike[str], *, max_malformed: float = 0.01
) -> Corpus:
    """Reads pairs from two files whose lines correspond; see ``read_pairs``.

    Raises:
        FileNotFoundError: there is no file at one of the paths.
        ValueError: as in ``read_pairs``, or one file has more lines than the other. Blank lines at the end do not
            count.
    """
    found = stream_parallel(source_path, target_path)
    return _collect(found, f"{source_path} and {target_path}", max_malformed)


def stream_pairs(path: str | PathLike[str], source_column: int, target_column: int) -> Iterator[Pair | FaultyLine]:
    """Yields each pair and each malformed line of a tab-separated file; see ``read_pairs``."""
    with open_text(path) as stream:
        yield from parse_table(stream, path, source_column, target_column)


def parse_table(
    stream: io.BufferedIOBase, path: str | PathLike[str], source_column: int, target_column: int
) -> Iterator[Pair | FaultyLine]:
    """Yields each pair and each malformed line of an opened tab-separated file.

    ``path`` is used only as the file's name in malformed lines and errors.
    """
    require_columns(source_column, target_column)
    for number, (line,) in _rows(stream):
        try:
            columns = _decode(line).split("\t")
            if max(source_column, target_column) >= len(columns):
                raise _Malformed(Fault.MISSING_COLUMN)
            found: Pair | FaultyLine = Pair(_side(columns[source_column]), _side(columns[target_column]))
        except _Malformed as malformed:
            found = FaultyLine(str(path), number, malformed.fault)
        yield found


def stream_parallel(source_path: str | PathLike[str], target_path: str | PathLike[str]) -> Iterator[Pair | FaultyLine]:
    """Yields each pair and each malformed line of two files; see ``read_parallel``."""
    paths = str(source_path), str(target_path)
    with ExitStack() as opened:
        for number, row in _rows(*(opened.enter_context(open_text(path)) for path in paths)):
            if None in row:
                shorter = row.index(None)
                raise ValueError(
                    f"paths: expected two files whose lines correspond, received {paths[1 - shorter]}:{number} "
                    f"without a corresponding line in {paths[shorter]}. Pass files with the same number of lines."
                )
            sides: list[str] = []
            try:
                for line in row:
                    sides.append(_side(_decode(line)))
                yield Pair(*sides)
            except _Malformed as malformed:
                yield FaultyLine(paths[len(sides)], number, malformed.fault)


def require_usable(report: ReadReport, name: str, max_malformed: float) -> None:
    """Raises ValueError if the file ``name`` has no pair or a larger share of malformed lines than allowed."""
    require(0 <= max_malformed <= 1, "max_malformed", "a share from 0 to 1", max_malformed)
    columns = (
        " Check source_column and target_column (--source-column, --target-column). Columns are separated by tabs."
        if Fault.MISSING_COLUMN in report.faults
        else ""
    )
    if report.malformed == report.lines:
        raise ValueError(f"path: expected sentence pairs in {name}, received none ({report}).{columns}")
    share = report.malformed / report.lines
    if share > max_malformed:
        raise ValueError(
            f"path: expected at most {max_malformed:.2%} malformed lines in {name}, received {share:.2%} ({report})."
            f"{columns} Repair the lines, or pass max_malformed={math.ceil(100 * share) / 100} (--max-malformed)."
        )


def _collect(found: Iterable[Pair | FaultyLine], name: str, max_malformed: float) -> Corpus:
    report, pairs = ReadReport(), []
    for pair in report.count(found):
        pairs.append(pair)
        report.numbers.append(report.lines)
    require_usable(report, name, max_malformed)
    return Corpus(pairs, report)


class _Malformed(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


def _decode(line: bytes) -> str:
    if len(line) >= MAX_LINE_BYTES:
        raise _Malformed(Fault.TOO_LONG)
    if b"\0" in line:
        raise _Malformed(Fault.NUL)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Malformed(Fault.INVALID_UTF8) from error


def _side(sentence: str) -> str:
    if not sentence.strip():
        raise _Malformed(Fault.EMPTY_SIDE)
    if len(sentence) > MAX_CHARACTERS:
        raise _Malformed(Fault.TOO_LONG)
    return sentence


def _rows(*streams: io.BufferedIOBase) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Reads files in parallel. Yields each line number with the lines of all files at that number.

    The line of a file that has ended is ``None``. Blank lines at the end of the files are omitted.
    """
    last = 0  # the last row that was not blank
    for number, row in enumerate(zip_longest(*map(_lines, streams)), start=1):
        if any(row):
            yield from zip(range(last + 1, number), repeat((b"",) * len(row)), strict=False)
            yield number, row
            last = number


def _lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yields lines without their line ends. Lines are truncated to MAX_LINE_BYTES to bound memory."""
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES), b"")):
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield line
        else:
            line = line.removeprefix(codecs.BOM_UTF8) if number == 0 else line
            yield line.removesuffix(b"\n").removesuffix(b"\r")
