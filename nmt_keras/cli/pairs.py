"""``nmt align`` and ``nmt score``: word alignments and log-likelihoods of sentence pairs."""

import io
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from nmt_keras_serve.lines import CUT, STANDARD_INPUT, STDIN, open_text, tell_lines, text_blocks

import nmt_keras
from nmt_keras.cli.command import Console, Flag, RunCommand
from nmt_keras.corpus.columns import SAMPLE_ROWS, Columns
from nmt_keras.corpus.reading import FaultyLine, Pair, parse_table, table_format
from nmt_keras.files import to_json

PAIRS_AT_ONCE = 1024


@dataclass(frozen=True)
class Pairs(Columns):
    """Options of commands that read sentence pairs."""

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = STANDARD_INPUT
    """A table with lines source<TAB>target, CSV or JSON lines: plain, .gz, .bz2, .xz or .zip. Default, or "-": standard
    input. For two files, run paste es.txt en.txt | nmt ..."""

    def blocks(self, report: Callable[[str], None]) -> Iterator[list[Pair]]:
        """Yields the pairs in blocks. Only a header and a title above it are skipped; other lines must be pairs.

        Args:
            report: Receives the columns, and a warning about replaced bytes.

        Raises:
            OSError: the file cannot be read.
            ValueError: a line is not a pair.
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
        for found in parse_table(stream, name, self.of(self.file)):
            if isinstance(found, FaultyLine):
                raise ValueError(f"{found}: expected a pair in each line. Repair the line.")
            if isinstance(found, Pair):
                yield found
            elif description := str(found):
                report(f"{name}: {description}")

    def _lines(self, blocks: Iterable[list[str]], name: str, report: Callable[[str], None]) -> Iterator[list[Pair]]:
        """Yields the pairs of tab-separated lines as they arrive. The first block determines the columns."""
        number, layout = 0, None
        for lines in blocks:
            rows = [line.split("\t") for line in lines]
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
    paste es.txt en.txt | nmt align RUN. Exported versions do not support forced alignment.
    """

    pairs: Annotated[Pairs, tyro.conf.arg(name="")] = field(default_factory=Pairs)
    json: Flag = False
    """Print one JSON object per pair, with words and attention weights."""

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        from nmt_keras.corpus.alignments import to_pharaoh
        from nmt_keras.corpus.encoding import encode_pairs
        from nmt_keras.translation.model_translator import ModelTranslator
        from nmt_keras.translation.word_alignment import align_words, links, written_words

        translator = nmt_keras.load(self.path, *self.ensemble)
        if not isinstance(translator, ModelTranslator):
            raise ValueError(
                f"RUN: expected a run directory, because exports do not align pairs. Received: {self.path}."
            )
        cut: list[int] = []
        for before, pairs in console.count(self.pairs.blocks(console.say)):
            _, _, too_long = encode_pairs(translator.codec, pairs)
            aligned = translator.align([pair.source for pair in pairs], [pair.target for pair in pairs])
            cut += [number for number, is_cut in enumerate(too_long.tolist(), before + 1) if is_cut]
            for pair, given, truncated in zip(pairs, aligned, too_long.tolist(), strict=True):
                words = written_words(align_words(*given), *pair)
                linked = links(words)
                if self.json:
                    row = {
                        **pair._asdict(),
                        "links": linked,
                        "source_words": words.source,
                        "target_words": words.target,
                        "weights": words.alignment.round(4).tolist(),
                        "truncated": truncated,
                    }
                    print(to_json(row))
                else:
                    print(to_pharaoh(linked))
        tell_lines(console.say, CUT, cut, "the input")


@dataclass(frozen=True)
class Score(RunCommand):
    """Print the log-likelihood of each given translation, in nats: paste es.txt en.txt | nmt score RUN.

    The probability of END, the last token, is included.
    """

    pairs: Annotated[Pairs, tyro.conf.arg(name="")] = field(default_factory=Pairs)
    json: Flag = False
    """Print one JSON object per pair, with the log-probability of each token."""

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        translator = nmt_keras.load(self.path, *self.ensemble)
        cut: list[int] = []
        for before, pairs in console.count(self.pairs.blocks(console.say)):
            scores = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs])
            cut += [number for number, score in enumerate(scores, before + 1) if score.truncated]
            for pair, score in zip(pairs, scores, strict=True):
                if self.json:
                    print(to_json({**pair._asdict(), **score._asdict()}))
                else:
                    print(f"{score.log_prob:.4f}")
        tell_lines(console.say, CUT, cut, "the input")
