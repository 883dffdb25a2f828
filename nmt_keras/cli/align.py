"""``nmt align``: which words belong together, in the Pharaoh format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from nmt_keras.cli.command import SIDE_BY_SIDE, Command, Flag, load_translator, pair_columns, require_pair_files
from nmt_keras.cli.console import Console
from nmt_keras.config import SearchConfig, require

if TYPE_CHECKING:
    from nmt_keras.translation.records import AlignedPair


@dataclass(frozen=True)
class Align(Command):
    """Print which source word each target word looked at most, a line per pair: 0-0 1-2, source before target, from 0.

    Words are what spaces separate; a word that looked at the sentence's end most is left out.
    paste es.txt en.txt | nmt align RUN aligns given pairs, nmt align RUN --translations the model's own.
    """

    threads: ClassVar[int | None] = SIDE_BY_SIDE

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory; with --translations an exported version, too."""
    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")] = ()
    """A file of lines source<TAB>target, or a source and a target file; none, or -, reads standard input."""
    translations: Flag = False
    """Lines are source sentences on standard input: translate them, and print TRANSLATION<TAB>ALIGNMENT."""
    source_column: int | None = None
    """Of lines in one file: the column of the source, counted from 0. Beware: nmt train and nmt evaluate take 1."""
    target_column: int | None = None
    """Of lines in one file: the column of the target, where nmt train and nmt evaluate take 0."""
    json: Flag = False
    """Print one JSON object per pair, with words and weights."""
    ensemble: tuple[Path, ...] = ()
    """More runs, of the same vocabularies: the mean of all."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """With --translations: how runs search for them. An exported version searches greedily."""

    def check(self) -> None:
        """Looks at where lines come from."""
        if self.translations:
            require(self.files in ((), ("-",)), "--translations", "sentences on standard input", self.files)
        require_pair_files(self.files, self.source_column, self.target_column)

    def __call__(self, console: Console) -> None:
        """Prints one line per pair."""
        if self.translations:
            self._align_translations(console)
        else:
            self._align_pairs(console)

    def _align_pairs(self, console: Console) -> None:
        from nmt_keras.cli.lines import pair_blocks
        from nmt_keras.translation.model_translator import ModelTranslator
        from nmt_keras.translation.word_alignment import align_words, written_words

        translator = load_translator(self.path, self.ensemble, self.search)
        if not isinstance(translator, ModelTranslator):
            raise ValueError(f"RUN: expected a run to align given pairs with, received the exported {self.path}.")
        for block in console.count(pair_blocks(self.files, pair_columns(self.source_column, self.target_column))):
            found = translator.align([pair.source for pair in block], [pair.target for pair in block])
            rows = [
                (*pair, written_words(align_words(*aligned), *pair)) for pair, aligned in zip(block, found, strict=True)
            ]
            self._print(rows)

    def _align_translations(self, console: Console) -> None:
        from nmt_keras.cli.lines import one_line, text_blocks
        from nmt_keras.translation.word_alignment import align_words, written_words

        translator = load_translator(self.path, self.ensemble, self.search)
        for block in console.count(text_blocks(())):
            rows = []
            for source, found in zip(block, translator.translate(block), strict=True):
                target = one_line(found.text)
                words = align_words(found.source_tokens, found.tokens, found.alignment)
                rows.append((source, target, written_words(words, source, target)))
            self._print(rows)

    def _print(self, rows: Sequence[tuple[str, str, AlignedPair]]) -> None:
        from nmt_keras.corpus.alignments import to_pharaoh
        from nmt_keras.translation.word_alignment import links

        for source, target, aligned in rows:
            linked = links(aligned)
            if self.json:
                row = {
                    "source": source,
                    "target": target,
                    "links": linked,
                    "source_words": aligned.source,
                    "target_words": aligned.target,
                    "weights": aligned.alignment.round(4).tolist(),
                }
                print(json.dumps(row, ensure_ascii=False))
            elif self.translations:
                print(f"{target}\t{to_pharaoh(linked)}")
            else:
                print(to_pharaoh(linked))
        print(end="", flush=True)
