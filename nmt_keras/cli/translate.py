"""``nmt translate``: translates sentences, or the lines of standard input."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from nmt_keras_serve.lines import CUT, STANDARD_INPUT, STDIN, one_line, sentence_blocks, tell_lines
from nmt_keras_serve.startup import native_messages_hidden

from nmt_keras.cli.command import Console, Flag, SearchCommand, load_translator, require_sentences
from nmt_keras.config import require
from nmt_keras.files import to_json

if TYPE_CHECKING:
    from nmt_keras.translation.records import Translation
    from nmt_keras.translation.translator import Translator


@dataclass(frozen=True)
class Translate(SearchCommand):
    """Translate sentences, or the lines of standard input: cat es.txt | nmt translate RUN > en.txt.

    Prints one translation per line, as soon as it is ready. A line with several sentences is translated sentence by
    sentence.
    """

    sentences: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE ...")] = ()
    """Sentences to translate. Default, or "-": the lines of standard input."""
    n_best: int | None = None
    """Print the N best translations of each line, as NUMBER ||| TRANSLATION ||| SCORE. NUMBER counts the lines from 0.
    Lines are not split into sentences. If the beam size of a run is less than N, N is used as beam size."""
    split: bool = True
    """Split each line into sentences."""
    json: Flag = False
    """Print one JSON object per line, with tokens, scores and alignments."""

    def check(self) -> None:
        """Raises ValueError if a sentence is a file, or if the search cannot return an n-best list."""
        require_sentences(self.sentences)
        if self.n_best is not None:
            require(self.n_best >= 1, "--n-best", "at least 1", self.n_best)
            require(self.search.temperature == 0.0, "--search.temperature", "0 with --n-best", self.search.temperature)

    def __call__(self, console: Console) -> None:
        """Prints the translations."""
        translator = load_translator(self.path, self.ensemble, self.search, self.n_best)
        cut: list[int] = []
        for before, lines in console.count(sentence_blocks(self.sentences, console.say)):
            with native_messages_hidden() if before == 0 else contextlib.nullcontext():  # as SentencePiece loads
                if self.n_best is None:
                    shortened = self._print(lines, translator)
                else:
                    best = [found[: self.n_best] for found in translator.translate_nbest(lines)]
                    shortened = [any(each.truncated for each in found) for found in best]
                    for number, (line, found) in enumerate(zip(lines, best, strict=True), start=before):
                        self._print_n_best(number, line, found)
            cut += [number for number, is_cut in enumerate(shortened, start=before + 1) if is_cut]
        tell_lines(console.say, CUT, cut, STDIN if self.reads_lines else "the arguments")

    @property
    def reads_lines(self) -> bool:
        """``True`` if the sentences are the lines of standard input."""
        return self.sentences in ((), (STANDARD_INPUT,))

    def _print(self, lines: Sequence[str], translator: Translator) -> list[bool]:
        """Prints the translations of lines. Returns for each line whether a part of it was cut."""
        from nmt_keras.translation.records import TranslatedText

        if self.split:
            found = translator.translate_texts(lines)
        else:
            whole = zip(lines, translator.translate(lines), strict=True)
            parts = [(each.text, [(line, each)]) if line.strip() else (line, []) for line, each in whole]
            found = [TranslatedText(*part) for part in parts]
        for line, text in zip(lines, found, strict=True):
            if self.json:
                rows = [{"source": sentence, **_row(translation)} for sentence, translation in text.sentences]
                print(to_json({"source": line, "translation": text.text, "sentences": rows}))
            else:
                print(one_line(text.text) if self.reads_lines else text.text)
        return [text.truncated for text in found]

    def _print_n_best(self, number: int, line: str, found: Sequence[Translation]) -> None:
        if self.json:
            print(to_json({"source": line, "translations": list(map(_row, found))}))
        else:
            for translation in found:
                print(f"{number} ||| {one_line(translation.text)} ||| {translation.score:.4f}")


def _row(translation: Translation) -> dict[str, Any]:
    row = translation._asdict()
    return {"translation": row.pop("text"), **row, "alignment": translation.alignment.round(4).tolist()}
