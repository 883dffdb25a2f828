"""``nmt align`` and ``nmt score``: word alignments and log-likelihoods of sentence pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro
from nmt_keras_serve.lines import (
    CUT,
    STANDARD_INPUT,
    STDIN,
    one_line,
    open_text,
    sentence_blocks,
    tell_lines,
    text_blocks,
)

from nmt_keras.cli.command import Flag, RunCommand, SearchCommand, load_translator
from nmt_keras.cli.console import Console
from nmt_keras.config import require
from nmt_keras.corpus.columns import SAMPLE_ROWS, Columns
from nmt_keras.corpus.reading import FaultyLine, Pair, is_csv, is_json, require_sentences, stream_pairs
from nmt_keras.files import to_json

if TYPE_CHECKING:
    from nmt_keras.translation.records import AlignedPair

PAIRS_AT_ONCE = 1024


@dataclass(frozen=True)
class PairFiles(Columns):
    """Options of commands that read sentence pairs."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")] = ()
    """A table with lines source<TAB>target, CSV or JSON lines, or a source and a target file: plain, .gz, .bz2, .xz or
    .zip. Without a file, or with -, pairs are read from standard input."""

    def __post_init__(self) -> None:
        require(len(self.files) <= 2, "FILE", "one file with lines source<TAB>target, or two files", self.files)
        self.require_readable(self.files)
        super().__post_init__()

    def blocks(self, report: Callable[[str], None]) -> Iterator[list[Pair]]:
        """Yields the pairs in blocks. Only a header is skipped, so the n-th result belongs to the n-th pair.

        Args:
            report: Receives the columns, and a warning about replaced bytes.

        Raises:
            OSError: a file cannot be read.
            ValueError: a line is not a pair, or one file is longer than the other.
        """
        names = [STDIN if file == STANDARD_INPUT else file for file in self.files or (STANDARD_INPUT,)]
        with ExitStack() as opened:
            if len(names) == 1 and (is_csv(names[0]) or is_json(names[0]) or self.has_names):
                yield from _in_blocks(self._table(report))
                return
            streams = [opened.enter_context(open_text(file)) for file in self.files or (STANDARD_INPUT,)]
            sides = [text_blocks(stream, name, report) for stream, name in zip(streams, names, strict=True)]
            yield from _in_blocks(self._parallel(sides)) if len(sides) == 2 else self._lines(sides[0], names[0], report)

    def _table(self, report: Callable[[str], None]) -> Iterator[Pair]:
        (file,) = self.files or (STANDARD_INPUT,)
        for found in stream_pairs(file, self.of(file)):
            if isinstance(found, FaultyLine):
                raise ValueError(f"{found}: expected a pair in each line. Repair the line.")
            if isinstance(found, Pair):
                yield found
            elif told := str(found):
                report(f"{file}: {told}")

    def _lines(self, blocks: Iterable[list[str]], name: str, report: Callable[[str], None]) -> Iterator[list[Pair]]:
        """Yields the pairs of tab-separated lines as they arrive. The first block determines the columns."""
        number, layout = 0, None
        for lines in blocks:
            rows = [line.split("\t") for line in lines]
            if layout is None:
                layout = self.of(name).find(rows[:SAMPLE_ROWS], name)
                number = bool(layout.header)
                if told := str(layout):
                    report(f"{name}: {told}")
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

    def _parallel(self, sides: Iterable[Iterable[list[str]]]) -> Iterator[Pair]:
        source, target = self.order
        rows = itertools.zip_longest(*map(itertools.chain.from_iterable, sides))
        first = list(itertools.islice(rows, 3))
        require_sentences([["\t" in side for side in row] for row in first if None not in row], self.files)
        for number, row in enumerate(itertools.chain(first, rows), start=1):
            if None in row:
                ended = self.files[row.index(None)]
                count = f"{number - 1} line{'s' * (number != 2)}"
                raise ValueError(
                    f"FILE: expected files with the same number of lines. {ended} has {count}, the other file has more."
                )
            yield Pair(row[source], row[target])


def _in_blocks(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while block := list(itertools.islice(pairs, PAIRS_AT_ONCE)):
        yield block


@dataclass(frozen=True)
class Align(SearchCommand):
    """Print word alignments: the source word that each target word attends to most.

    Prints one line of links per pair, such as 0-0 1-2. The link 1-2 joins source word 1 and target word 2, counted from
    0. Words are separated by spaces. A target word that attends most to END has no link. To align given pairs, run
    paste es.txt en.txt | nmt align RUN. To align the model's translations, run nmt align RUN --translations < es.txt.
    """

    pairs: Annotated[PairFiles, tyro.conf.arg(name="")] = field(default_factory=PairFiles)
    translations: Flag = False
    """Translate the source sentences of standard input, and print TRANSLATION<TAB>ALIGNMENT."""
    json: Flag = False
    """Print one JSON object per pair, with words and attention weights."""

    def check(self) -> None:
        """Raises ValueError if ``--translations`` is combined with a file."""
        files = self.pairs.files
        found = not self.translations or files in ((), ("-",))
        hint = "The sentences are read from standard input."
        require(found, "--translations", "no FILE", files, hint)

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        from nmt_keras.corpus.alignments import to_pharaoh
        from nmt_keras.translation.word_alignment import links, written_words

        cut: list[int] = []
        for number, (source, target, aligned, truncated) in enumerate(self._aligned(console), start=1):
            cut += [number] * truncated
            words = written_words(aligned, source, target)
            linked = links(words)
            if self.json:
                row = {
                    "source": source,
                    "target": target,
                    "links": linked,
                    "source_words": words.source,
                    "target_words": words.target,
                    "weights": words.alignment.round(4).tolist(),
                    "truncated": truncated,
                }
                print(to_json(row))
            else:
                print(f"{target}\t" * self.translations + to_pharaoh(linked))
        tell_lines(console.say, CUT, cut, "the input")

    def _aligned(self, console: Console) -> Iterator[tuple[str, str, AlignedPair, bool]]:
        """Yields source, target and alignment of each pair, and whether a side was cut.

        Flushes the output after each block of lines.
        """
        from nmt_keras.corpus.batching import encode_pairs
        from nmt_keras.translation.exported import ServedTranslator
        from nmt_keras.translation.word_alignment import align_words

        translator = load_translator(self.path, self.ensemble, self.search)
        if self.translations:
            for sources in console.count(sentence_blocks((), console.say)):
                for source, found in zip(sources, translator.translate(sources), strict=True):
                    words = align_words(found.source_tokens, found.tokens, found.alignment)
                    yield source, one_line(found.text), words, found.truncated
        elif isinstance(translator, ServedTranslator):
            raise ValueError(
                f"RUN: expected a run directory, received {self.path}. Exported versions do not support forced "
                "alignment. Pass the run, or --translations."
            )
        else:
            from nmt_keras.translation.model_translator import ModelTranslator  # imports Keras

            assert isinstance(translator, ModelTranslator)
            for pairs in console.count(self.pairs.blocks(console.say)):
                sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
                _, _, cut = encode_pairs(translator.codec, pairs)
                for pair, given, truncated in zip(pairs, translator.align(*sides), cut.tolist(), strict=True):
                    yield pair.source, pair.target, align_words(*given), truncated


@dataclass(frozen=True)
class Score(RunCommand):
    """Print the log-likelihood of each given translation, in nats: paste es.txt en.txt | nmt score RUN.

    The probability of END, the last token, is included.
    """

    pairs: Annotated[PairFiles, tyro.conf.arg(name="")] = field(default_factory=PairFiles)
    json: Flag = False
    """Print one JSON object per pair, with the log-probability of each token."""

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        import nmt_keras

        translator = nmt_keras.load(self.path, *self.ensemble)
        cut: list[int] = []
        begin = 1
        for pairs in console.count(self.pairs.blocks(console.say)):
            scores = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
            cut += [number for number, score in enumerate(scores, begin) if score.truncated]
            begin += len(pairs)
            for pair, score in zip(pairs, scores, strict=True):
                if self.json:
                    print(to_json({**pair._asdict(), **score._asdict()}))
                else:
                    print(f"{score.log_prob:.4f}")
        tell_lines(console.say, CUT, cut, "the input")
