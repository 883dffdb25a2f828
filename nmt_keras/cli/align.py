"""``nmt align``: word alignments in the Pharaoh format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from nmt_keras.cli.command import Flag, SearchCommand, load_translator
from nmt_keras.cli.console import Console
from nmt_keras.cli.lines import PairFiles, one_line, text_blocks
from nmt_keras.config import require

if TYPE_CHECKING:
    from nmt_keras.translation.word_alignment import WordAlignment


@dataclass(frozen=True)
class Align(SearchCommand):
    """Print the most attended source word of each target word, a line per pair: 0-0 1-2, source-target, from 0.

    Words are separated by spaces. A word that attends most to the end of the sentence is not linked. Given pairs:
    paste es.txt en.txt | nmt align RUN. Translations of the model: nmt align RUN --translations < es.txt.
    """

    pairs: Annotated[PairFiles, tyro.conf.arg(name="")] = field(default_factory=PairFiles)
    translations: Flag = False
    """Translate source sentences from standard input, and print TRANSLATION<TAB>ALIGNMENT."""
    json: Flag = False
    """Print one JSON object per pair, with words and weights."""

    def check(self) -> None:
        """Raises ValueError if translations are asked for of a file."""
        files = self.pairs.files
        require(not self.translations or files in ((), ("-",)), "--translations", "no FILE (standard input)", files)

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        from nmt_keras.corpus.alignments import to_pharaoh
        from nmt_keras.translation.word_alignment import links, written_words

        for source, target, aligned in self._aligned(console):
            words = written_words(aligned, source, target)
            linked = links(words)
            if self.json:
                row = {
                    "source": source,
                    "target": target,
                    "links": linked,
                    "source_words": words.source,
                    "target_words": words.target,
                    "weights": words.weights.round(4).tolist(),
                }
                print(json.dumps(row, ensure_ascii=False))
            else:
                print(f"{target}\t" * self.translations + to_pharaoh(linked))

    def _aligned(self, console: Console) -> Iterator[tuple[str, str, WordAlignment]]:
        """Yields source, target and alignment; flushes the output after each block of lines."""
        from nmt_keras.translation.model_translator import ModelTranslator
        from nmt_keras.translation.word_alignment import align_words

        translator = load_translator(self.path, self.ensemble, self.search)
        if self.translations:
            for sources in console.count(text_blocks(())):
                for source, found in zip(sources, translator.translate(sources), strict=True):
                    words = align_words(found.source_tokens, found.tokens, found.alignment)
                    yield source, one_line(found.text), words
        elif isinstance(translator, ModelTranslator):
            for pairs in console.count(self.pairs.blocks()):
                sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
                for pair, given in zip(pairs, translator.align(*sides), strict=True):
                    yield pair.source, pair.target, align_words(*given)
        else:
            raise ValueError(
                f"RUN: expected a run, as exported versions do not align given pairs; received {self.path}."
            )
