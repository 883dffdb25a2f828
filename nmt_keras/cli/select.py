"""``nmt select``: selects the pairs of a large corpus that resemble a domain."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from nmt_keras.cli.command import Command, Console
from nmt_keras.config import require

TWO_FILES = tyro.conf.arg(metavar="SOURCE TARGET")


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
    """Maximum number of target words to select."""
    to: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """Output file, gzipped text."""
    seed: int = 1
    """Seed of the random sample that the corpus's language models are trained on."""

    def check(self) -> None:
        """Raises ValueError if the output is not named as gzipped text."""
        require(self.to.suffix == ".gz", "--to", "a file name that ends in .gz", str(self.to))

    def __call__(self, console: Console) -> None:
        """Selects the pairs and prints the file."""
        from nmt_keras.corpus.selection import select

        select(self.corpus, self.domain, self.to, self.words, seed=self.seed, report=console.say)
        print(self.to)
