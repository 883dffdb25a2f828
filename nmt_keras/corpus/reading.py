"""Reads sentence pairs from tables and parallel files, and counts malformed lines.

A table has tab-separated columns, or it is CSV (.csv) or JSON lines (.jsonl). ``nmt_keras.io.lines`` reads lines.
Sentences keep their spaces, case and accents.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice, repeat, zip_longest
from typing import Any, Literal, NamedTuple, NoReturn, TypeGuard

from nmt_keras.corpus.columns import MAX_COLUMNS, SAMPLE_ROWS, Columns, Layout, require_share
from nmt_keras.io.lines import INVISIBLE, JOINERS, OF_ENCODING, Place, byte_blocks, open_text, with_file

MAX_CHARACTERS = 2000  # per side; a line with a longer side is malformed
MAX_LINE_BYTES = 2 * 4 * MAX_CHARACTERS + 2**20  # two sides of maximum length in UTF-8, and 1 MiB of other columns
REPORTED_FAULTS = 10
SEPARATORS = ";\t|,"  # of CSV
_QUOTED = re.compile(r'"(?:[^"]++|"")*+"')
_FORMAT = re.compile(r"\.(csv|json|jsonl|jsonlines|ndjson)(?:\.(?:gz|bz2|xz|lzma|zip))*$")  # suffixes
BAD = re.compile("[\0\ud800-\udfff]")  # NUL, and what stands for invalid bytes
_CR = "\ud800"  # stands for CR, which ``csv`` takes for the end of a row; not among the surrogates of invalid bytes
_VISIBLE = re.compile(rf"[^\s{INVISIBLE[1:-2]}{JOINERS}]")  # any character that is neither white space nor invisible


class Pair(NamedTuple):
    """A sentence and its translation, unchanged from the file."""

    source: str
    target: str


class Fault(StrEnum):
    """Kind of error in a malformed line."""

    MISSING_COLUMN = "missing column"
    EXTRA_COLUMN = "more columns than other lines"
    EMPTY_SIDE = "empty side"
    EMPTY_LINE = "empty line"
    INVALID_UTF8 = "invalid UTF-8"
    NUL = "NUL character"
    TOO_LONG = "over-long side"
    NOT_CSV = "invalid CSV"
    NOT_JSON = "no JSON object"


HINTS = {
    Fault.MISSING_COLUMN: " Check source_column and target_column (--source-column, --target-column). Columns are "
    "separated by tabs, in .csv files by commas, semicolons or |. JSON lines are read from .jsonl files. For two files "
    "whose lines correspond, pass --corpus SOURCE TARGET.",
    Fault.EMPTY_LINE: " Remove the empty lines, or raise max_malformed (--max-malformed).",
    Fault.NOT_CSV: ' Close each quote, and double quotes inside a cell: "He said ""yes"".".',
    Fault.EXTRA_COLUMN: ' Put quotes around texts with commas: "Yes, sir.",Sí.',
    Fault.NUL: " Pass text. This file may be of another kind.",
    Fault.INVALID_UTF8: f" Convert the text from its encoding: {OF_ENCODING}.",
    Fault.NOT_JSON: " Pass one JSON object per line. For an array: jq -c '.[]' TEXT > NEW.jsonl.",
}
"""Sentences for errors about files with these faults."""


class FaultyLine(NamedTuple):
    """A malformed line."""

    file: str
    line: int  # from 1
    fault: Fault

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.fault}"


class Row(NamedTuple):
    """A row of a table, or a line of two files."""

    files: tuple[str, str]  # of source and target; the same for a table
    line: int  # its first line, from 1
    sides: tuple[str, str]  # source and target, or twice the fault of a row without them

    @property
    def pair(self) -> Pair:
        """Both sides. Spaces replace line ends in cells of CSV and JSON."""
        return Pair(*(re.sub(r"\r?\n", " ", side) for side in self.sides))

    @property
    def fault(self) -> FaultyLine | None:
        """The first fault of a side."""
        both = zip(self.files, self.sides, strict=True)
        return next((FaultyLine(file, self.line, fault) for file, side in both if (fault := fault_of(side))), None)


@dataclass
class ReadReport:
    """Counts of the lines of a corpus."""

    lines: int = 0  # without blank lines at the end of a file
    faults: Counter[Fault] = field(default_factory=Counter)  # a line with several faults is counted under the first one
    first_faults: list[FaultyLine] = field(default_factory=list)  # at most REPORTED_FAULTS
    # of each pair: its number among ``lines``, its file and its line there, from 1; ``collect`` sets it
    places: list[tuple[int, str, int]] = field(default_factory=list)
    layouts: list[Layout] = field(default_factory=list)  # columns of each table

    @property
    def malformed(self) -> int:
        """Number of malformed lines."""
        return self.faults.total()

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {fault}" for fault, count in self.faults.items())
        first = ". First: " + "; ".join(map(str, self.first_faults[:3])) if self.first_faults else ""
        columns = "".join(f"; {each}" for each in dict.fromkeys(map(str, self.layouts)) if each)
        return f"{self.malformed:,} of {self.lines:,} lines malformed{counts and ': '}{counts}{first}{columns}"

    def count(self, found: Iterable[Row | Layout]) -> Iterator[Row]:
        """Yields the rows in ``found`` that are pairs, and counts pairs and malformed lines."""
        for row in found:
            self.lines += not isinstance(row, Layout)
            if isinstance(row, Layout):
                self.layouts.append(row)
            elif fault := row.fault:
                self.faults[fault.fault] += 1
                self.first_faults = [*self.first_faults, fault][:REPORTED_FAULTS]
            else:
                yield row

    def pairs(self, found: Iterable[Row | Layout]) -> Iterator[Pair]:
        """Yields the pairs in ``found``, and counts as ``count`` does."""
        return (row.pair for row in self.count(found))


class Corpus(NamedTuple):
    """Pairs in the order of their file, and counts of its lines."""

    pairs: list[Pair]
    report: ReadReport


def read_pairs(
    path: Place, *, source_column: int | str, target_column: int | str, max_malformed: float = 0.01
) -> Corpus:
    """Reads pairs from a table. Other columns are ignored.

    The columns have no default, because a file does not record its direction. Files of manythings.org/anki have the
    columns English<TAB>Spanish, so a Spanish-to-English corpus has ``source_column=1, target_column=0``.

    Args:
        path: Path of a table in UTF-8, plain or packed; see ``nmt_keras.io.lines``.
        source_column: Column of the source sentence: its number, counted from 0, or its name in the header.
        target_column: Column of the target sentence.
        max_malformed: Maximum share (0 to 1) of malformed lines. Malformed lines are skipped and counted.

    Raises:
        FileNotFoundError: there is no file at ``path``.
        ValueError: an argument is out of range, the file is not a table in UTF-8, or it has no pair or too many
            malformed lines.
    """
    columns = Columns(source_column=source_column, target_column=target_column)
    return collect(stream_files([path], columns), str(path), max_malformed)


def read_parallel(source_path: Place, target_path: Place, *, max_malformed: float = 0.01) -> Corpus:
    """Reads pairs from two files whose lines correspond; see ``read_pairs``.

    Raises:
        FileNotFoundError: there is no file at one of the paths.
        ValueError: as in ``read_pairs``, or one file has more lines than the other. Blank lines at the end do not
            count.
    """
    return collect(stream_parallel(source_path, target_path), f"{source_path} and {target_path}", max_malformed)


def parse_table(stream: io.BufferedIOBase, path: Place, columns: Columns) -> Iterator[Row | Layout]:
    """Yields the layout and each row of an opened table.

    ``path`` is used only as the file's name in rows and errors, and for its suffix.
    """
    keys: list[str] = []  # of JSON objects
    rows = table_rows(stream, path, keys)
    first = list(islice(rows, SAMPLE_ROWS))
    readable = [(number, row) for number, row in first if isinstance(row, list) and not BAD.search("".join(row))]
    layout = columns.find([row for _, row in readable], str(path), keys)
    yield layout
    if layout.header and not keys:
        skipped = readable[: layout.title_lines + 1]
        first = [each for each in first if each not in skipped]
    for number, row in chain(first, rows):
        found = row
        if not isinstance(row, Fault) and max(layout.source, layout.target) >= len(row):
            is_long = any(len(cell) > MAX_CHARACTERS for cell in row)
            found = Fault.TOO_LONG if is_long else Fault.MISSING_COLUMN if "".join(row).strip() else Fault.EMPTY_LINE
        sides = (found, found) if isinstance(found, Fault) else (found[layout.source], found[layout.target])
        yield Row((str(path), str(path)), number, sides)


def table_rows(stream: io.BufferedIOBase, path: Place, keys: list[str]) -> Iterator[tuple[int, list[str] | Fault]]:
    """Yields the number of each line of a table, and its columns, at most ``MAX_COLUMNS``, or its fault.

    Args:
        stream: The opened table.
        path: Its path. The suffix .csv, .json, .jsonl or .ndjson, also within a zip file, determines the format.
        keys: Receives the names of the columns if lines are JSON objects.
    """
    lines = ((number, line) for number, (line,) in _rows(byte_blocks(stream, path, MAX_LINE_BYTES)))
    form = table_format(path, stream)
    rows: Iterator[tuple[int, list[str] | Fault]] = ((number, tab_columns(line)) for number, line in lines)
    for number, row in (
        csv_rows(line for _, line in lines)[1] if form == "csv" else _json_rows(lines, keys) if form == "json" else rows
    ):
        yield number, row if isinstance(row, Fault) else row[:MAX_COLUMNS]


def tab_columns(line: str) -> list[str]:
    """Returns the columns of a tab-separated line. Cells with doubled quotes, "She said ""yes"".", are unquoted."""
    cells = line.split("\t")
    if '""' in line:  # as spreadsheets write them
        cells = [
            cell[1:-1].replace('""', '"') if '""' in cell[1:-1] and _QUOTED.fullmatch(cell) else cell for cell in cells
        ]
    return cells


def table_format(path: Place, stream: io.BufferedIOBase | None = None) -> Literal["csv", "json", "tsv"]:
    """Returns the format of a table by the suffix of its file, and of its member if ``stream`` is from a zip."""
    names = path, getattr(stream, "name", "")
    found = [match[1] for name in names if (match := _FORMAT.search(str(name).lower()))]
    return "csv" if "csv" in found else "json" if found else "tsv"


def _json_rows(lines: Iterator[tuple[int, str]], keys: list[str]) -> Iterator[tuple[int, list[str] | Fault]]:
    """Yields the rows of JSON lines. ``keys`` receives the keys of the first objects, which name the columns."""
    values = ((number, _json_value(line)) for number, line in lines)
    first = list(islice(values, SAMPLE_ROWS))
    named = dict.fromkeys(chain.from_iterable(value for _, value in first if isinstance(value, dict)))
    keys.extend(islice(named, MAX_COLUMNS))
    for number, value in chain(first, values):
        yield number, [value.get(key, "") for key in keys] if isinstance(value, dict) else value


def _json_value(line: str) -> dict[str, str] | list[str] | Fault:
    """Returns the cells of a JSON object or list, at most ``MAX_COLUMNS``. Objects and lists in it are empty cells."""
    try:
        found = json.loads(line) if line.strip() else []
    except (ValueError, RecursionError):
        return Fault.NOT_JSON
    if isinstance(found, dict) and isinstance(found.get("translation"), dict):  # as in data sets of Hugging Face
        found = found["translation"]
    if isinstance(found, dict):
        return {key: _json_cell(value) for key, value in islice(found.items(), MAX_COLUMNS)}
    is_flat_list = isinstance(found, list) and not any(isinstance(value, dict | list) for value in found)
    return list(map(_json_cell, found[:MAX_COLUMNS])) if is_flat_list else Fault.NOT_JSON


def _json_cell(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


def csv_rows(lines: Iterable[str], separators: str = SEPARATORS) -> tuple[str, Iterator[tuple[int, list[str] | Fault]]]:
    """Returns the separator of CSV text, and its rows with the numbers of their first lines.

    Each line of a malformed row is a fault.

    A first line such as ``sep=;`` names the separator, as in Excel. Otherwise it is the one of ``separators`` that
    gives most rows of equal length. A tie excludes separators before a space, which are punctuation. Then the comma is
    the last choice, or the only one if no row has several cells.
    """
    texts = (line.replace("\r", _CR) + "\n" for line in lines)
    head = list(islice(texts, SAMPLE_ROWS))
    declared = re.fullmatch(r"sep=(.)\s*", head[0]) if head else None
    head = head[bool(declared) :]
    sample = [line[:MAX_CHARACTERS] for line in head]
    rows = {
        separator: [row for row in _parsed(csv.reader(sample, delimiter=separator, strict=True)) if _is_wide(row)]
        for separator in (declared[1] if declared else separators)
    }
    widths = {  # the most common number of columns by separator, and the number of its rows
        separator: Counter(map(len, found)).most_common(1)[0] if found else (2, 0) for separator, found in rows.items()
    }
    is_spaced = {each: any(cell.startswith(" ") for row in rows[each] for cell in row[1:]) for each in rows}
    separator = max(rows, key=lambda each: (widths[each][1], not is_spaced[each], not rows[each] and each == ","))
    width, _ = widths[separator]
    loose = any(f'"{separator} "' in line for line in head)  # "Yes.", "Sí."
    reader = csv.reader(chain(head, texts), delimiter=separator, strict=True, skipinitialspace=loose)
    return separator, _numbered(reader, bool(declared), width)


def _numbered(reader: Any, before: int, width: int) -> Iterator[tuple[int, list[str] | Fault]]:
    """Yields the rows of a CSV reader with their numbers, and faults in place of rows of more than ``width`` columns.

    ``before`` is the number of lines before the first one of the reader.
    """
    number, is_first = before + 1, True
    for row in _parsed(reader):
        found = row
        if _is_wide(row):
            # A header may name more columns than the rows have. Its cells are words, not the rest of a text or number.
            if any(row[width:]) and not (is_first and all(cell[:1].isalpha() for cell in row)):
                found = Fault.EXTRA_COLUMN
            is_first = False
        last = max(number, reader.line_num + before) if isinstance(found, Fault) else number
        yield from ((line, found) for line in range(number, last + 1))
        number = reader.line_num + before + 1


def _parsed(reader: Iterator[list[str]]) -> Iterator[list[str] | Fault]:
    """Yields the rows of a CSV reader, and a fault in place of each row that cannot be parsed."""
    while True:
        try:
            yield [cell.replace(_CR, "\r") for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error:
            yield Fault.NOT_CSV


def _is_wide(row: list[str] | Fault) -> TypeGuard[list[str]]:
    """Returns ``True`` if a row has several cells and is not blank."""
    return not isinstance(row, Fault) and len(row) > 1 and any(row)


def refuse(message: str) -> NoReturn:
    """Raises ValueError."""
    raise ValueError(message)


def stream_parallel(source_path: Place, target_path: Place, uneven: Callable[[str], object] = refuse) -> Iterator[Row]:
    """Yields the rows of two files; see ``read_parallel``.

    ``uneven`` receives an error if one file has more lines. The lines that both have come before.
    """
    paths = str(source_path), str(target_path)
    rows = _rows(_blocks_of(source_path), _blocks_of(target_path))
    first = list(islice(rows, SAMPLE_ROWS))
    require_sentences([["\t" in side for side in row] for _, row in first if None not in row], paths)
    for number, row in chain(first, rows):
        if None in row:
            shorter = row.index(None)
            uneven(
                f"paths: expected two files whose lines correspond, received {paths[1 - shorter]}:{number} "
                f"without a corresponding line in {paths[shorter]}. Pass files with the same number of lines."
            )
            return
        yield Row(paths, number, (row[0], row[1]))


def _blocks_of(path: Place) -> Iterator[list[bytes]]:
    """Yields the lines of a file. Its errors arise in a generator of its own, so that they name this file."""
    with open_text(path) as stream:
        yield from byte_blocks(stream, path, MAX_LINE_BYTES)


def stream_files(
    files: Sequence[Place], columns: Columns, uneven: Callable[[str], object] = refuse
) -> Iterator[Row | Layout]:
    """Yields the layout and the rows of a table, or the rows of a source and a target file."""
    if len(files) == 2:
        source, target = columns.order
        yield from stream_parallel(files[source], files[target], uneven)
    else:
        with open_text(files[0]) as stream:
            yield from parse_table(stream, files[0], columns.of(str(files[0])))


def require_sentences(tabs: Sequence[Sequence[bool]], paths: Sequence[str]) -> None:
    """Raises ValueError if a file is a table: CSV, JSON lines, or text with a tab in each of the first lines.

    Args:
        tabs: For each of the first lines, whether it has a tab in the first and in the second file.
        paths: The two files.
    """
    sides = zip(paths, zip(*tabs, strict=True), strict=False)
    tables = [path for path, side in sides if table_format(path) != "tsv" or all(side)]
    if len(tabs) > 1 and tables:
        raise ValueError(
            "paths: expected a source and a target file with one sentence per line, received "
            f"{'two tables' if len(tables) > 1 else 'a table'}: {' and '.join(tables)}. To use the pairs of several "
            "tables, pass --tables (nmt train), or pass tables as FILE (nmt prepare)."
        )


def require_usable(report: ReadReport, name: str, max_malformed: float) -> None:
    """Raises ValueError if the file ``name`` has no pair or a larger share of malformed lines than allowed."""
    require_share(max_malformed)
    worst = report.faults.most_common(1)[0][0] if report.faults else None
    file = report.first_faults[0].file if report.first_faults else name
    hint = with_file(HINTS.get(worst, ""), file) if worst else ""
    share = report.malformed / max(1, report.lines)
    if share > max(max_malformed, 0.05) and worst is Fault.INVALID_UTF8:
        raise ValueError(f"path: expected UTF-8 in {name}, received another encoding.{hint} {report}.")
    if report.malformed == report.lines:
        raise ValueError(f"path: expected sentence pairs in {name}, received none ({report}).{hint}")
    if share > max_malformed:
        raise ValueError(
            f"path: expected at most {max_malformed:.2%} malformed lines in {name}, received {share:.2%} ({report})."
            f"{hint} Repair the lines, or pass max_malformed={math.ceil(100 * share) / 100} (--max-malformed)."
        )


def collect(found: Iterable[Row | Layout], name: str, max_malformed: float) -> Corpus:
    """Returns the pairs in ``found``, and counts of their lines; see ``read_pairs``."""
    report, pairs = ReadReport(), []
    for row in report.count(found):
        pairs.append(row.pair)
        report.places.append((report.lines, row.files[0], row.line))
    require_usable(report, name, max_malformed)
    return Corpus(pairs, report)


def fault_of(sentence: str) -> Fault | None:
    """Returns the fault of a sentence, or ``None``. A fault in place of a sentence is its own."""
    if isinstance(sentence, Fault):
        return sentence
    if bad := BAD.search(sentence):
        return Fault.NUL if bad[0] == "\0" else Fault.INVALID_UTF8
    if _VISIBLE.search(sentence) is None:
        return Fault.EMPTY_SIDE
    return Fault.TOO_LONG if len(sentence) > MAX_CHARACTERS else None


def _rows(*blocks: Iterable[list[bytes]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Reads the lines of files in parallel. Yields each line number with the lines of all files at that number.

    Surrogates stand for invalid bytes. The line of a file that has ended is ``None``. Blank lines at the end of the
    files are omitted.
    """
    last = 0  # the last row that was not blank
    for number, row in enumerate(zip_longest(*map(chain.from_iterable, blocks)), start=1):
        if any(row):
            yield from zip(range(last + 1, number), repeat(("",) * len(row)), strict=False)
            decoded: list[Any] = [line if line is None else line.decode("utf-8", "surrogateescape") for line in row]
            yield number, tuple(decoded)
            last = number
