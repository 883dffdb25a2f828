"""``nmt prepare``: a corpus larger than memory becomes shards of token ids."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.cli.command import Command
from nmt_keras.cli.console import Console
from nmt_keras.config import FilterConfig, TokenizerConfig, require


@dataclass(frozen=True)
class Prepare(Command):
    """Filter a corpus of any size, learn its vocabularies, and write it as shards of token ids.

    Then: nmt train RECIPE --prepared FOLDER --valid valid.tsv. Keep the pairs to validate and test on out of the files.
    """

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")]
    """Tab-separated text, plain, .gz or .zip; all files are one corpus."""
    to: Path
    """The folder to write."""
    corpus: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """As that of nmt train: a TSV, or two files whose lines correspond, source and target. Given again, and beside
    FILE, it adds to the corpus."""
    source_column: int = 1
    """Of a TSV: the column to translate from, counted from 0; by default as in the Spanish-English file."""
    target_column: int = 0
    """Of a TSV: the column to translate to, counted from 0."""
    shards: int | None = None
    """Files to write, of which one is held in memory at a time; by default one for each hundred thousand pairs, 16 at
    the least and 512 at the most."""
    max_malformed: float = 0.01
    """The share of malformed lines, which are left out, that is allowed."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    source: TokenizerConfig = field(default_factory=TokenizerConfig)
    target: TokenizerConfig = field(default_factory=TokenizerConfig)

    def check(self) -> None:
        """Looks for files."""
        require(bool(self.files or self.corpus), "FILE", "at least one", self.files)
        for each in self.corpus:
            require(1 <= len(each) <= 2, "--corpus", "one file, or two: source and target", each)

    def __call__(self, console: Console) -> None:
        """Prints the folder."""
        from nmt_keras.corpus.preparing import prepare

        prepare(
            [*self.files, *((each[0], each[1]) if len(each) == 2 else each[0] for each in self.corpus)],
            self.to,
            self.source,
            self.target,
            self.filters,
            source_column=self.source_column,
            target_column=self.target_column,
            shards=self.shards,
            max_malformed=self.max_malformed,
            report=console.say,
        )
        print(self.to)
