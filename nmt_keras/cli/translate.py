"""``nmt translate`` translates sentences. ``nmt align`` and ``nmt score`` align and score sentence pairs."""

from __future__ import annotations

import csv
import heapq
import io
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import tyro

import nmt_keras
from nmt_keras.cli.command import Console, Flag, RunCommand, SearchCommand, load_translator, require_sentences
from nmt_keras.config import require
from nmt_keras.corpus.columns import SAMPLE_ROWS, Columns, Layout, column_name
from nmt_keras.corpus.reading import (
    BAD,
    HINTS,
    SEPARATORS,
    Fault,
    Pair,
    csv_rows,
    fault_of,
    parse_table,
    refuse,
    tab_columns,
    table_format,
)
from nmt_keras.io.files import make_writable_folder, to_json, write_whole
from nmt_keras.io.lines import (
    CUT,
    REPLACED,
    STANDARD_INPUT,
    STDIN,
    one_line,
    open_text,
    sentence_blocks,
    tell_lines,
    text_blocks,
)
from nmt_keras.io.markup import differing
from nmt_keras.io.sentences import TranslatedText

if TYPE_CHECKING:
    from nmt_keras.translation.records import AlignedPair, Translation
    from nmt_keras.translation.translator import Translator

PAIRS_AT_ONCE = 1024
CHANGED_MARKUP = "variables, tags, marks, numbers or addresses are missing, repeated or in another order"


class CellTable(NamedTuple):
    """A table of which one column is translated. Other cells are kept."""

    head: list[str]  # lines before the rows, such as the one with the name of the column
    rows: list[tuple[int, list[str]]]  # with the number of their first line
    column: int
    separator: str | None  # of CSV; ``None`` if tabs separate the cells, whose quotation marks are then characters

    @classmethod
    def read(cls, path: str, name: str, column: str, report: Callable[[str], None]) -> Self:
        """Reads CSV, or a table whose cells are separated by tabs. Standard input without a tab at first is CSV.

        Args:
            path: Path of the table.
            name: Its name in errors and warnings.
            column: Name of the column in the first row that is not blank, as in ``Columns``, or its number, from 0.
                With a number, all rows have cells.
            report: Receives the warnings about replaced bytes and cut lines.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file has JSON lines, a row is malformed, or the first row does not have the column.
        """
        with open_text(path) as stream:
            form = table_format(path, stream)
            require(
                form != "json",
                "--column",
                "CSV, or a table with tabs",
                name,
                "Convert it, and pass --column 0: jq -r '[.text] | @csv' FILE > NEW.csv.",
            )
            lines = list(itertools.chain.from_iterable(text_blocks(stream, name, report)))
        first = next(filter(str.strip, lines), "")
        is_csv = form == "csv" or (name == STDIN and "\t" not in first)
        separators = "".join(each for each in SEPARATORS if each in first) or ","  # of one column
        separator, found = (
            csv_rows(lines, separators) if is_csv else (None, enumerate((line.split("\t") for line in lines), start=1))
        )
        read = list(found)
        start = next((at for at, (_, row) in enumerate(read) if any(row)), 0)
        names = read[start][1] if read else []
        checked = (
            (number, Fault.EXTRA_COLUMN if separator and isinstance(row, list) and any(row[len(names) :]) else row)
            for number, row in read
        )
        rows = [
            (number, row if isinstance(row, list) else refuse(f"{name}:{number} {row}: expected a table.{HINTS[row]}"))
            for number, row in checked
        ]
        header, typed = list(map(column_name, names)), column_name(column)
        at = int(column) if column.isdecimal() else header.index(typed) if typed in header else -1
        expected = f"a column of {name}: {', '.join(names)[:200]}"
        require(0 <= at < len(names), "--column", expected, column, "Only .csv files have commas between their cells.")
        rows = rows[0 if column.isdecimal() else start + 1 :]
        return cls(lines[: rows[0][0] - 1] if rows else lines, rows, at, separator)

    @property
    def cells(self) -> list[str]:
        """The cells of the column, "" in rows that end before it, without its name."""
        cells = [row[self.column] if self.column < len(row) else "" for _, row in self.rows]
        return cells if self.separator else [tab_columns(cell)[0] for cell in cells]

    def write(self, cells: Sequence[str], path: str | None) -> None:
        """Writes the table with other cells in its column to a file, or to standard output."""
        for (_, row), cell in zip(self.rows, cells, strict=True):
            if self.column < len(row):
                row[self.column] = cell if self.separator else _tabbed(cell, row[self.column])
        written = io.StringIO()
        written.writelines(f"{line}\n" for line in self.head)
        if self.separator:
            # Python 3.11 quotes a carriage return only if it is part of the line end
            csv.writer(written, delimiter=self.separator, lineterminator="\r\n").writerows(row for _, row in self.rows)
        else:
            written.writelines("\t".join(row) + "\n" for _, row in self.rows)
        text = written.getvalue().replace("\r\n", "\n")
        if path is None:
            print(text, end="")
        else:
            write_whole(Path(path), text)


def _tabbed(cell: str, old: str) -> str:
    """Returns a cell between tabs. Its quotation marks are doubled if those of the ``old`` cell are."""
    line = one_line(cell)
    return '"{}"'.format(line.replace('"', '""')) if '"' in line and tab_columns(old) != [old] else line


@dataclass(frozen=True)
class Translate(SearchCommand):
    """Translate sentences, or the lines of standard input: cat es.txt | nmt translate RUN > en.txt.

    Prints one translation per line, as soon as it is ready. A line with several sentences is translated sentence by
    sentence.
    """

    idle: ClassVar[Mapping[str, tuple[str, ...]]] = {"--n-best": ("--split",), "--column": ("--n-best", "--json")}

    sentences: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE ...")] = ()
    """Sentences to translate. Default, or "-": the lines of standard input."""
    n_best: int | None = None
    """Print the N best translations of each line, as NUMBER ||| TRANSLATION ||| SCORE. NUMBER counts the lines from 0.
    Lines are not split into sentences. If the beam size of a run is less than N, N is used as beam size."""
    split: bool = True
    """Split each line into sentences."""
    json: Flag = False
    """Print one JSON object per line, with tokens, scores and alignments."""
    column: str | None = None
    """Translate this column of the table FILE: nmt translate RUN cells.csv --column text --to out.csv. A column is its
    name in the first row, or its number, counted from 0. With a number, the first row is translated, too."""
    to: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """Output file of --column. Default: standard output."""

    def check(self) -> None:
        """Raises ValueError or OSError if the options contradict each other, or if the output cannot be written."""
        if self.column is None:
            require_sentences(self.sentences)
            require(self.to is None, "--to", "--column with it", self.to, "For lines, run nmt translate RUN > FILE.")
        else:
            require(len(self.sentences) == 1, "--column", "one FILE", self.sentences)
        if self.to is not None:
            require(not Path(self.to).is_dir(), "--to", "a file", self.to)
            make_writable_folder(Path(self.to).parent)
        if self.n_best is not None:
            require(self.n_best >= 1, "--n-best", "at least 1", self.n_best)

    def __call__(self, console: Console) -> None:
        """Prints the translations."""
        name = STDIN if self.reads_lines else "the arguments" if self.column is None else self.sentences[0]
        table = None if self.column is None else CellTable.read(self.sentences[0], name, self.column, console.say)
        translator = load_translator(self.path, self.ensemble, self.search, self.n_best)
        cut: list[int] = []
        changed: list[int] = []
        blocks = iter([table.cells]) if table else sentence_blocks(self.sentences, console.say)
        for before, lines in console.count(blocks):
            numbers = [number for number, _ in table.rows] if table else range(before + 1, before + 1 + len(lines))
            if self.n_best is None:
                whole = self._translations(lines, translator)
                texts, shortened = [each.text for each in whole], [each.truncated for each in whole]
                if table:
                    table.write(texts, self.to)
                else:
                    self._print(lines, whole)
            else:
                best = [found[: self.n_best] for found in translator.translate_nbest(lines)]
                texts = ["".join(each.text for each in found[:1]) for found in best]
                shortened = [any(each.truncated for each in found) for found in best]
                for number, (line, found) in enumerate(zip(lines, best, strict=True), start=before):
                    self._print_n_best(number, line, found)
            cut += itertools.compress(numbers, shortened)
            changed += [number for number, *pair in zip(numbers, lines, texts, strict=True) if differing(*pair)]
        tell_lines(console.say, CUT, cut, name)
        tell_lines(console.say, CHANGED_MARKUP, changed, name)

    @property
    def reads_lines(self) -> bool:
        """``True`` if the sentences are the lines of standard input."""
        return self.sentences in ((), (STANDARD_INPUT,))

    def _translations(self, lines: Sequence[str], translator: Translator) -> list[TranslatedText[Translation]]:
        if self.split:
            return translator.translate_texts(lines)
        return [
            TranslatedText(each.text, [(line, each)]) if line.strip() else TranslatedText(line, [])
            for line, each in zip(lines, translator.translate(lines), strict=True)
        ]

    def _print(self, lines: Sequence[str], found: Sequence[TranslatedText[Translation]]) -> None:
        for line, text in zip(lines, found, strict=True):
            if self.json:
                rows = [{"source": sentence, **_row(translation)} for sentence, translation in text.sentences]
                markup = differing(line, text.text)
                print(to_json({"source": line, "translation": text.text, "differing": markup, "sentences": rows}))
            else:
                print(one_line(text.text) if self.reads_lines else text.text)

    def _print_n_best(self, number: int, line: str, found: Sequence[Translation]) -> None:
        if self.json:
            print(to_json({"source": line, "translations": list(map(_row, found))}))
        else:
            for translation in found:
                print(f"{number} ||| {one_line(translation.text)} ||| {translation.score:.4f}")


def _row(translation: Translation) -> dict[str, Any]:
    row = translation._asdict()
    return {"translation": row.pop("text"), **row, "alignment": translation.alignment.astype(float).round(4).tolist()}


@dataclass(frozen=True)
class Pairs(Columns):
    """Options of commands that read sentence pairs."""

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = STANDARD_INPUT
    """A table with lines source<TAB>target, CSV or JSON lines: plain, .gz, .bz2, .xz or .zip. Default, or "-": standard
    input. For two files, run paste es.txt en.txt | nmt ..."""

    def blocks(self, report: Callable[[str], None]) -> Iterator[list[Pair]]:
        """Yields the pairs in blocks. Only a header and a title above it are skipped; other lines must have two sides.

        Args:
            report: Receives the columns, and warnings about replaced bytes and cut lines.

        Raises:
            OSError: the file cannot be read.
            ValueError: a line does not have two sides. They may be empty.
        """
        name = STDIN if self.file == STANDARD_INPUT else self.file
        with open_text(self.file) as stream:
            if table_format(self.file, stream) == "tsv" and not self.has_names:
                yield from self._lines(text_blocks(stream, name, report), name, report)
                return
            pairs = self._table(stream, name, report)
            while block := list(itertools.islice(pairs, PAIRS_AT_ONCE)):
                yield block

    def _table(self, stream: io.BufferedIOBase, name: str, report: Callable[[str], None]) -> Iterator[Pair]:
        replaced: list[int] = []
        for row in parse_table(stream, name, self.of(self.file)):
            if isinstance(row, Layout):
                if description := str(row):
                    report(f"{name}: {description}")
            elif isinstance(row.sides[0], Fault):
                raise ValueError(f"{row.fault}: expected a pair in each line. Repair the line.")
            else:
                pair = Pair(*(BAD.sub("\ufffd", side) for side in row.pair))
                replaced += [row.line] * (pair != row.pair)
                yield pair
        tell_lines(report, REPLACED, replaced, name)

    def _lines(self, blocks: Iterable[list[str]], name: str, report: Callable[[str], None]) -> Iterator[list[Pair]]:
        """Yields the pairs of tab-separated lines as they arrive. The first block determines the columns."""
        number, layout = 0, None
        for lines in blocks:
            rows = list(map(tab_columns, lines))
            if layout is None:
                layout = self.of(name).find(rows[:SAMPLE_ROWS], name)
                number = layout.title_lines + 1 if layout.header else 0
                if description := str(layout):
                    report(f"{name}: {description}")
                rows = rows[number:]
            pairs = []
            for row in rows:
                number += 1
                most = math.inf if self.names_columns or layout.skipped else 2
                if not max(layout.source, layout.target) < len(row) <= most:
                    raise ValueError(
                        f"{name}:{number}: expected source<TAB>target in columns {layout.source} and {layout.target}, "
                        f"received {chr(9).join(row)!r:.80}. If the lines have more columns or another order, pass "
                        "--source-column and --target-column."
                    )
                pairs.append(Pair(row[layout.source], row[layout.target]))
            yield pairs


@dataclass(frozen=True)
class Align(RunCommand):
    """Print word alignments: the source word that each target word attends to most.

    Prints one line of links per pair, such as 0-0 1-2. The link 1-2 joins source word 1 and target word 2, counted from
    0. Words are separated by spaces. A target word that attends most to END has no link. To align given pairs, run
    paste es.txt en.txt | nmt align RUN. To align the model's translations, run nmt align RUN --translations < es.txt.
    """

    idle: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "--translations": ("--source-column", "--target-column", "--reverse")
    }

    pairs: Annotated[Pairs, tyro.conf.arg(name="")] = field(default_factory=Pairs)
    translations: Flag = False
    """Translate the lines of standard input, and print TRANSLATION<TAB>LINKS. Also for exported versions."""
    json: Flag = False
    """Print one JSON object per pair, with words and attention weights."""

    def check(self) -> None:
        """Raises ValueError if ``--translations`` is combined with a file."""
        given = self.pairs.file != STANDARD_INPUT
        hint = "The sentences are the lines of standard input."
        require(not (self.translations and given), "--translations", "no FILE", self.pairs.file, hint)

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        from nmt_keras.corpus.alignments import to_pharaoh
        from nmt_keras.translation.word_alignment import links, written_words

        cut: list[int] = []
        for number, (pair, aligned, truncated) in enumerate(self._aligned(console), start=1):
            cut += [number] * truncated
            words = written_words(aligned, *pair)
            linked = links(words)
            if self.json:
                row = {
                    **pair._asdict(),
                    "links": linked,
                    "source_words": words.source,
                    "target_words": words.target,
                    "weights": words.alignment.astype(float).round(4).tolist(),
                    "truncated": truncated,
                }
                print(to_json(row))
            else:
                print(f"{pair.target}\t" * self.translations + to_pharaoh(linked))
        tell_lines(console.say, CUT, cut, "the input", "line" if self.translations else "pair")

    def _aligned(self, console: Console) -> Iterator[tuple[Pair, AlignedPair, bool]]:
        """Yields each pair, its alignment, and whether a side was cut."""
        from nmt_keras.corpus.encoding import encode_pairs
        from nmt_keras.translation.model_translator import ModelTranslator
        from nmt_keras.translation.word_alignment import align_words

        translator = nmt_keras.load(self.path, *self.ensemble)
        if self.translations:
            for _, lines in console.count(sentence_blocks((), console.say)):
                for line, found in zip(lines, translator.translate(lines), strict=True):
                    aligned = align_words(found.source_tokens, found.tokens, found.alignment)
                    yield Pair(line, one_line(found.text)), aligned, found.truncated
            return
        if not isinstance(translator, ModelTranslator):
            raise ValueError(
                f"RUN: expected a run directory, received {self.path}. Exports do not align given pairs. Pass the run, "
                "or --translations."
            )
        for _, pairs in console.count(self.pairs.blocks(console.say)):
            _, _, too_long = encode_pairs(translator.codec, pairs)
            given = translator.align([pair.source for pair in pairs], [pair.target for pair in pairs])
            for pair, each, truncated in zip(pairs, given, too_long.tolist(), strict=True):
                yield pair, align_words(*each), truncated


@dataclass(frozen=True)
class Score(RunCommand):
    """Print the log-likelihood of each given translation, in nats: paste es.txt en.txt | nmt score RUN.

    Prints LOG-LIKELIHOOD<TAB>LOG-LIKELIHOOD PER TOKEN. Tokens include END, the last one.
    """

    pairs: Annotated[Pairs, tyro.conf.arg(name="")] = field(default_factory=Pairs)
    worst: int | None = None
    """Print only the N pairs with the lowest log-likelihood per token, as NUMBER<TAB>PER TOKEN<TAB>SOURCE<TAB>TARGET.
    NUMBER counts the pairs from 1. Pairs that training
    skips, such as those with an empty side, come first."""
    json: Flag = False
    """Print one JSON object per pair, with the log-probability of each token."""

    def check(self) -> None:
        """Raises ValueError if no pair would be printed."""
        require(self.worst is None or self.worst >= 1, "--worst", "at least 1", self.worst)

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        told: dict[str, list[int]] = defaultdict(list)
        rows = self._rows(console, told)
        if self.worst is not None:
            rows = iter(heapq.nsmallest(self.worst, rows, key=lambda row: (row["fault"] is None, row["per_token"])))
        for row in rows:
            if self.json:
                print(to_json(row))
            elif self.worst is None:
                print(f"{row['log_prob']:.4f}\t{row['per_token']:.4f}")
            else:
                print(row["number"], row["fault"] or f"{row['per_token']:.4f}", row["source"], row["target"], sep="\t")
        for change, numbers in told.items():
            tell_lines(console.say, change, numbers, "the input", "pair")

    def _rows(self, console: Console, told: Mapping[str, list[int]]) -> Iterator[dict[str, Any]]:
        """Yields each pair with its score. Adds the numbers of cut and of malformed pairs to ``told``."""
        translator = nmt_keras.load(self.path, *self.ensemble)
        for before, pairs in console.count(self.pairs.blocks(console.say)):
            scores = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
            for number, (pair, score) in enumerate(zip(pairs, scores, strict=True), start=before + 1):
                fault = next(filter(None, map(fault_of, pair)), None)
                for change in filter(None, (CUT * score.truncated, fault)):
                    told[change].append(number)
                per_token = score.log_prob / len(score.tokens)
                yield {"number": number, **pair._asdict(), **score._asdict(), "per_token": per_token, "fault": fault}
