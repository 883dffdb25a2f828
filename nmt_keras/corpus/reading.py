"""Reads sentence pairs from text files and counts what is wrong with them, line by line.

A file is plain text, gzip or zip, told apart by its first bytes. Only "\\n" ends a line, with one "\\r" before it if
there is one: U+2028, U+0085 and their like are characters of a sentence. A sentence keeps its spaces, case and accents.
"""

from __future__ import annotations

import codecs
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import repeat, zip_longest
from os import PathLike
from typing import NamedTuple

from nmt_keras.config import require
from nmt_keras.corpus.archive import open_text

REPORTED_FAULTS = 10


class Pair(NamedTuple):
    """One sentence and its translation, as the file spells them."""

    source: str
    target: str


class Fault(Enum):
    """Why a line gives no pair."""

    MISSING_COLUMN = "missing column"
    EMPTY_SIDE = "empty side"
    INVALID_UTF8 = "invalid UTF-8"
    NUL = "NUL character"
    TOO_LONG = "over-long side"


class FaultyLine(NamedTuple):
    """A line that gave no pair, and why."""

    file: str
    line: int
    """Counted from 1."""
    fault: Fault

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.fault.value}"


class ReadReport(NamedTuple):
    """What became of the lines of a corpus."""

    lines: int
    """Lines read, malformed ones included, blank ones at the end not."""
    faults: Mapping[Fault, int]
    """Malformed lines by fault; a line with several counts once, under the first found."""
    first_faults: tuple[FaultyLine, ...]
    """The first ``REPORTED_FAULTS`` malformed lines; none where lines have no numbers."""
    numbers: Sequence[int] = ()
    """The line of each pair, counted from 1; empty where pairs were only passed on."""

    @property
    def malformed(self) -> int:
        """Lines that gave no pair."""
        return sum(self.faults.values())

    def __str__(self) -> str:
        summary = f"{self.malformed:,} of {self.lines:,} lines malformed"
        if not self.malformed:
            return summary
        counts = ", ".join(f"{count:,} {fault.value}" for fault, count in self.faults.items())
        if not self.first_faults:
            return f"{summary}: {counts}"
        return f"{summary}: {counts}. First: {'; '.join(map(str, self.first_faults))}"


class Corpus(NamedTuple):
    """The pairs of a file in its order, and what was left out."""

    pairs: list[Pair]
    report: ReadReport


def read_pairs(
    path: str | PathLike[str],
    *,
    source_column: int,
    target_column: int,
    member: str | None = None,
    max_characters: int = 2000,
    max_malformed: float = 0.01,
) -> Corpus:
    """Reads pairs from tab-separated lines; columns beyond the two named ones are ignored.

    The columns have no default, because nothing in a file tells its direction: manythings.org/anki writes
    English<TAB>Spanish, so a Spanish-to-English corpus has ``source_column=1, target_column=0``.

    Args:
        path: plain, gzipped or zipped UTF-8 text; a byte order mark at its start is dropped.
        source_column: the source sentence's column, counted from 0.
        target_column: the target sentence's column, counted from 0.
        member: the text file inside a zip; needed only where there are several (see ``open_text``).
        max_characters: a side longer than this makes its line malformed.
        max_malformed: the share of malformed lines, 0 to 1, up to which they are left out and reported.

    Raises:
        FileNotFoundError: nothing is at ``path``.
        ValueError: an argument is out of its range, the file cannot be opened as text, it is empty, gives no pair, or
            has a larger share of malformed lines than ``max_malformed``.
    """
    _require_limits(max_characters, max_malformed)
    found = stream_pairs(
        path,
        source_column=source_column,
        target_column=target_column,
        member=member,
        max_characters=max_characters,
    )
    return _collect(found, str(path), max_malformed)


def stream_pairs(
    path: str | PathLike[str],
    *,
    source_column: int,
    target_column: int,
    member: str | None = None,
    max_characters: int = 2000,
) -> Iterator[Pair | FaultyLine]:
    """The pairs of tab-separated lines one by one, whatever their number, and each malformed line in its place.

    Arguments and errors as ``read_pairs``, but that nobody counts what is malformed.
    """
    require_columns(source_column, target_column)

    def parsed() -> Iterator[Pair | FaultyLine]:
        with open_text(path, member) as stream:
            for number, line in enumerate(table_lines(stream, max_characters), start=1):
                found = parse_line(
                    line, source_column=source_column, target_column=target_column, max_characters=max_characters
                )
                yield FaultyLine(str(path), number, found) if isinstance(found, Fault) else found

    return parsed()


def require_columns(source_column: int, target_column: int) -> None:
    """Raises ValueError unless a line can have both columns."""
    require(source_column >= 0, "source_column", "a column counted from 0", source_column)
    require(target_column >= 0, "target_column", "a column counted from 0", target_column)
    require(source_column != target_column, "target_column", "another column than source_column", target_column)


def table_lines(stream: io.BufferedIOBase, max_characters: int = 2000) -> Iterator[bytes]:
    """The lines of a file of tab-separated text, each for ``parse_line``.

    They come without their ends and without the byte order mark that may begin the file; blank lines at the file's end
    do not come. One far longer than two sides of ``max_characters`` is cut.
    """
    rows = _without_blank_end((line,) for line in _lines(stream, _max_line_bytes(max_characters)))
    return (line for (line,) in rows)


def parse_line(line: bytes, *, source_column: int, target_column: int, max_characters: int = 2000) -> Pair | Fault:
    """The pair of one of ``table_lines``, or why it gives none. Arguments as for ``read_pairs``."""
    try:
        columns = _decode(line, _max_line_bytes(max_characters), "").split("\t")
        if max(source_column, target_column) >= len(columns):
            return Fault.MISSING_COLUMN
        source, target = columns[source_column], columns[target_column]
        return Pair(_checked_side(source, max_characters, ""), _checked_side(target, max_characters, ""))
    except _Malformed as malformed:
        return malformed.fault


def read_parallel(
    source_path: str | PathLike[str],
    target_path: str | PathLike[str],
    *,
    max_characters: int = 2000,
    max_malformed: float = 0.01,
) -> Corpus:
    """Reads pairs from two files whose lines correspond; arguments and errors as ``read_pairs``.

    Raises:
        ValueError: also when one file has more lines than the other (blank lines at the end do not count).
    """
    _require_limits(max_characters, max_malformed)
    found = stream_parallel(source_path, target_path, max_characters=max_characters)
    return _collect(found, f"{source_path} and {target_path}", max_malformed)


def stream_parallel(
    source_path: str | PathLike[str], target_path: str | PathLike[str], *, max_characters: int = 2000
) -> Iterator[Pair | FaultyLine]:
    """The pairs of two files whose lines correspond one by one, and each malformed line in its place.

    Arguments and errors as ``read_parallel``, but that nobody counts what is malformed. That one file is longer than
    the other is told when the longer one ends.
    """
    max_bytes = _max_line_bytes(max_characters)

    def parse(source: bytes, target: bytes) -> Pair:
        return Pair(
            _checked_side(_decode(source, max_bytes, source_path), max_characters, source_path),
            _checked_side(_decode(target, max_bytes, target_path), max_characters, target_path),
        )

    def parsed() -> Iterator[Pair | FaultyLine]:
        with open_text(source_path) as sources, open_text(target_path) as targets:
            rows = _corresponding(_lines(sources, max_bytes), _lines(targets, max_bytes), source_path, target_path)
            yield from _parsed(rows, parse)

    return parsed()


def _max_line_bytes(max_characters: int) -> int:
    """Bytes after which a line is cut: room for two longest sides in UTF-8, and for a megabyte of other columns."""
    return 2 * 4 * max_characters + 2**20


def _lines(stream: io.BufferedIOBase, max_bytes: int) -> Iterator[bytes]:
    """Yields lines without their ends; one of ``max_bytes`` or more is cut there, so that any file fits memory."""
    lines = iter(lambda: stream.readline(max_bytes), b"")
    for number, line in enumerate(lines):
        if len(line) == max_bytes and not line.endswith(b"\n"):
            while (rest := stream.readline(max_bytes)) and not rest.endswith(b"\n"):
                pass
            yield line
            continue
        if number == 0:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _corresponding(
    sources: Iterable[bytes],
    targets: Iterable[bytes],
    source_path: str | PathLike[str],
    target_path: str | PathLike[str],
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the lines of two files side by side; raises ValueError where one has text after the other's end."""
    source_lines = target_lines = first_alone = 0
    for source, target in zip_longest(sources, targets):
        source_lines += source is not None
        target_lines += target is not None
        alone = (source is None and target != b"") or (target is None and source != b"")
        if alone and not first_alone:
            first_alone = max(source_lines, target_lines)
        yield source or b"", target or b""
    if first_alone:
        longer = source_path if source_lines > target_lines else target_path
        raise ValueError(
            f"target_path: expected as many lines as source_path, received {target_lines:,} lines in {target_path} and "
            f"{source_lines:,} in {source_path}. Pass two files whose lines correspond; "
            f"{longer}:{first_alone} is the first without a partner."
        )


class _Malformed(Exception):
    def __init__(self, fault: Fault, path: str | PathLike[str]) -> None:
        super().__init__(fault, path)
        self.fault = fault
        self.file = str(path)


def _decode(line: bytes, max_bytes: int, path: str | PathLike[str]) -> str:
    if len(line) >= max_bytes:
        raise _Malformed(Fault.TOO_LONG, path)
    if b"\0" in line:
        raise _Malformed(Fault.NUL, path)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Malformed(Fault.INVALID_UTF8, path) from error


def _checked_side(sentence: str, max_characters: int, path: str | PathLike[str]) -> str:
    if not sentence.strip():
        raise _Malformed(Fault.EMPTY_SIDE, path)
    if len(sentence) > max_characters:
        raise _Malformed(Fault.TOO_LONG, path)
    return sentence


def _parsed(rows: Iterable[tuple[bytes, ...]], parse: Callable[..., Pair]) -> Iterator[Pair | FaultyLine]:
    for number, row in enumerate(_without_blank_end(rows), start=1):
        try:
            yield parse(*row)
        except _Malformed as malformed:
            yield FaultyLine(malformed.file, number, malformed.fault)


class Tally:
    """Counts lines while they pass, and keeps the first malformed ones."""

    def __init__(self) -> None:
        self.lines = 0
        self._faults: Counter[Fault] = Counter()
        self._first: list[FaultyLine] = []

    def pairs(self, found: Iterable[Pair | FaultyLine]) -> Iterator[Pair]:
        """The pairs among ``found``."""
        for one in found:
            self.lines += 1
            if isinstance(one, Pair):
                yield one
                continue
            self._faults[one.fault] += 1
            if len(self._first) < REPORTED_FAULTS:
                self._first.append(one)

    def report(self) -> ReadReport:
        """What has passed so far."""
        return ReadReport(self.lines, dict(self._faults), tuple(self._first))


def _collect(found: Iterable[Pair | FaultyLine], name: str, max_malformed: float) -> Corpus:
    tally = Tally()
    pairs, numbers = [], []
    for pair in tally.pairs(found):
        pairs.append(pair)
        numbers.append(tally.lines)
    require_usable(tally.report(), name, max_malformed)
    return Corpus(pairs, tally.report()._replace(numbers=numbers))


def _without_blank_end(rows: Iterable[tuple[bytes, ...]]) -> Iterator[tuple[bytes, ...]]:
    blank_rows = 0
    for row in rows:
        if any(row):
            yield from repeat((b"",) * len(row), blank_rows)
            yield row
            blank_rows = 0
        else:
            blank_rows += 1


def require_usable(report: ReadReport, name: str, max_malformed: float) -> None:
    """Raises ValueError if what was read of ``name`` is empty, gives no pair, or has too many malformed lines."""
    if not report.lines:
        raise ValueError(f"path: expected sentence pairs, {name} is empty. Pass a file with at least one pair.")
    columns = (
        " Check source_column and target_column (--source-column, --target-column), and that tabs part the columns."
        if Fault.MISSING_COLUMN in report.faults
        else ""
    )
    if report.malformed == report.lines:
        raise ValueError(f"path: expected sentence pairs, {name} gives none ({report}).{columns}")
    share = report.malformed / report.lines
    if share > max_malformed:
        raise ValueError(
            f"path: expected at most {max_malformed:.2%} malformed lines in {name}, received {share:.2%} ({report})."
            f"{columns} Repair the lines, "
            f"or leave them out with max_malformed={math.ceil(100 * share) / 100} (--max-malformed)."
        )


def _require_limits(max_characters: int, max_malformed: float) -> None:
    require(max_characters >= 1, "max_characters", "at least 1", max_characters)
    require(0 <= max_malformed <= 1, "max_malformed", "a share from 0 to 1", max_malformed)
