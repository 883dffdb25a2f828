"""``nmt translate``: lines in, translations out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from nmt_keras.cli.command import SIDE_BY_SIDE, Command, Flag, load_translator
from nmt_keras.cli.console import Console
from nmt_keras.config import SearchConfig, require
from nmt_keras.runs.directory import is_run

if TYPE_CHECKING:
    from nmt_keras.translation.records import Translation
    from nmt_keras.translation.translator import Translator


@dataclass(frozen=True)
class Translate(Command):
    """Translate sentences, or the lines of standard input: cat es.txt | nmt translate RUN > en.txt.

    Answers come out as lines come in, one line each. A line of several sentences is translated sentence by sentence.
    """

    threads: ClassVar[int | None] = SIDE_BY_SIDE

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or an exported version."""
    sentences: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE ...")] = ()
    """What to translate; none, or -, reads lines from standard input."""
    n_best: int | None = None
    """Print so many translations of each line, best first: LINE ||| TRANSLATION ||| SCORE, lines from 0. Lines are not
    cut into sentences then. A beam of a run grows to hold them."""
    split: bool = True
    """Whether a line is cut into its sentences."""
    json: Flag = False
    """Print one JSON object per line, with tokens, scores and alignments."""
    ensemble: tuple[Path, ...] = ()
    """More runs, of the same vocabularies: all translate together by the mean of their probabilities."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """How runs search for translations. An exported version searches greedily, whatever it was exported with, and with
    --n-best by a beam."""

    def check(self) -> None:
        """Looks at whether there is an n-best list to print."""
        if self.n_best is not None:
            require(self.n_best >= 1, "--n-best", "at least 1", self.n_best)
            drawn = self.search.temperature
            require(drawn == 0.0, "--n-best", "--search.temperature 0, which searches and draws no tokens", drawn)

    def __call__(self, console: Console) -> None:
        """Prints the answers."""
        from nmt_keras.cli.lines import text_blocks

        search = self.search
        if self.n_best is not None and is_run(self.path):
            search = replace(search, beam_size=max(search.beam_size, self.n_best), n_best=self.n_best)
        translator = load_translator(self.path, self.ensemble, search)
        begin = 0
        for block in console.count(text_blocks(self.sentences)):
            if self.n_best is None:
                self._print(block, translator)
            else:
                self._print_n_best(block, translator, self.n_best, begin)
            begin += len(block)

    def _print(self, lines: Sequence[str], translator: Translator) -> None:
        from nmt_keras_serve.client import sentences

        from nmt_keras.cli.lines import one_line

        pieces = [sentences.split(line) if self.split else [sentences.Piece(line, "")] for line in lines]
        spoken = [piece.sentence for line in pieces for piece in line if piece.sentence]
        answers = iter(translator.translate(spoken))
        for line, text in zip(pieces, lines, strict=True):
            found = [(piece.sentence, next(answers)) for piece in line if piece.sentence]
            whole = sentences.rejoin(line, [one_line(translation.text) for _, translation in found])
            if self.json:
                parts = [{"source": sentence, **_row(translation)} for sentence, translation in found]
                print(_json({"source": text, "translation": whole, "sentences": parts}))
            else:
                print(whole)
        print(end="", flush=True)

    def _print_n_best(self, lines: Sequence[str], translator: Translator, count: int, begin: int) -> None:
        from nmt_keras.cli.lines import one_line

        for number, (line, found) in enumerate(zip(lines, translator.translate_nbest(lines), strict=True), begin):
            if self.json:
                print(_json({"source": line, "translations": [_row(translation) for translation in found[:count]]}))
            else:
                for translation in found[:count]:
                    print(f"{number} ||| {one_line(translation.text)} ||| {translation.score:.4f}")
        print(end="", flush=True)


def _row(translation: Translation) -> dict[str, Any]:
    row = translation._asdict()
    return {"translation": row.pop("text"), **row, "alignment": translation.alignment.round(4).tolist()}


def _json(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
