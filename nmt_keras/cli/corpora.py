"""``nmt prepare`` and ``nmt select``: commands for corpora larger than memory."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from nmt_keras.cli.command import Command, Console
from nmt_keras.config import FilterConfig, TokenizerConfig, require
from nmt_keras.corpus.columns import Columns, require_share
from nmt_keras.corpus.filtering import MAX_SHARDS

TWO_FILES = tyro.conf.arg(metavar="SOURCE TARGET")


@dataclass(frozen=True)
class Prepare(Command):
    """Learn the vocabularies of a corpus of any size, filter it, and write it as shards of token ids.

    To train on the result, run nmt train RECIPE --prepared FOLDER --valid valid.tsv. The files must not contain
    validation or test pairs.
    """

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")]
    """Tables of pairs (TSV, CSV, JSON lines): plain, .gz, .bz2, .xz or .zip. Together they form one corpus."""
    to: Path
    """Output folder."""
    corpus: tyro.conf.UseAppendAction[tuple[tuple[str, ...], ...]] = ()
    """Further input: a table, or a source and a target file whose lines correspond. Can be repeated."""
    columns: Annotated[Columns, tyro.conf.arg(name="")] = field(default_factory=Columns)
    placeholders: bool = True
    """If True, subword vocabularies have placeholders for names, numbers and addresses, which are copied."""
    shards: int | None = None
    """Number of shards to write. One shard at a time is held in memory. Default: one per 100,000 pairs, at least 16 and
    at most 512."""
    max_malformed: float = 0.01
    """Maximum share of malformed lines, from 0 to 1. Malformed lines are skipped."""
    filters: FilterConfig = field(default_factory=FilterConfig)
    source: TokenizerConfig = field(default_factory=TokenizerConfig)
    target: TokenizerConfig = field(default_factory=TokenizerConfig)

    def check(self) -> None:
        """Raises ValueError if there is no file, or an option is out of range."""
        require(bool(self.files or self.corpus), "FILE", "at least one file", self.files)
        for each in self.corpus:
            require(1 <= len(each) <= 2, "--corpus", "one file, or two: source and target", each)
        self.columns.require_readable(() if self.files else min(self.corpus, key=len))
        require(self.shards is None or 1 <= self.shards <= MAX_SHARDS, "--shards", f"1 to {MAX_SHARDS}", self.shards)
        require_share(self.max_malformed)

    def __call__(self, console: Console) -> None:
        """Prepares the corpus and prints its folder."""
        from nmt_keras.corpus.preparing import prepare

        prepare(
            [*self.files, *((each[0], each[1]) if len(each) == 2 else each[0] for each in self.corpus)],
            self.to,
            self.source,
            self.target,
            self.filters,
            **asdict(self.columns),
            placeholders=self.placeholders,
            shards=self.shards,
            max_malformed=self.max_malformed,
            report=console.say,
        )
        print(self.to)


@dataclass(frozen=True)
class Select(Command):
    """Select the pairs of a large corpus that resemble a domain, by cross-entropy difference (Axelrod et al. 2011).

    The result is one tab-separated file for nmt prepare.
    """

    computes: ClassVar[bool] = False

    corpus: Annotated[tyro.conf.UseAppendAction[tuple[tuple[str, str], ...]], TWO_FILES]
    """Source and target file of the corpus, whose lines correspond. Can be repeated."""
    domain: Annotated[tyro.conf.UseAppendAction[tuple[tuple[str, str], ...]], TWO_FILES]
    """Source and target file of the domain. Can be repeated."""
    words: int
    """Maximum number of target words to select. Each letter of a script without spaces is a word."""
    to: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """Output file, gzipped text."""
    seed: int = 1
    """Seed of the random sample that the corpus's language models are trained on."""
    max_malformed: float = 0.01
    """Maximum share of malformed lines in a pair of files, from 0 to 1. Malformed lines are skipped."""

    def check(self) -> None:
        """Raises ValueError if the output is not named as gzipped text, or an option is out of range."""
        require(self.to.suffix == ".gz", "--to", "a file name that ends in .gz", str(self.to))
        require(self.words > 0, "--words", "1 or more", self.words)
        require_share(self.max_malformed)

    def __call__(self, console: Console) -> None:
        """Selects the pairs and prints the file."""
        from nmt_keras.corpus.selection import select

        select(
            self.corpus,
            self.domain,
            self.to,
            self.words,
            seed=self.seed,
            max_malformed=self.max_malformed,
            report=console.say,
        )
        print(self.to)
