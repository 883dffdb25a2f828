"""``nmt shortlist``: learns the lexical table of a run for ``--search.shortlist``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from nmt_keras.cli.command import Command
from nmt_keras.cli.console import Console
from nmt_keras.config import require
from nmt_keras.files import read_json
from nmt_keras.runs.directory import CORPUS, SHORTLIST, read_recipe
from nmt_keras.runs.origin import read_origin

if TYPE_CHECKING:
    from nmt_keras.corpus import Pair
    from nmt_keras.corpus.shards import PreparedCorpus


@dataclass(frozen=True)
class Shortlist(Command):
    """Learn the lexical table that --search.shortlist needs from a run's training pairs; print its file.

    Reads the corpus that nmt train recorded in the run. In Python, Run.learn_shortlist takes pairs.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""

    def __call__(self, console: Console) -> None:
        """Prints the file."""
        from nmt_keras.corpus import part_sha256
        from nmt_keras.corpus.loading import load_corpus
        from nmt_keras.corpus.shards import PreparedCorpus
        from nmt_keras.runs import Run

        run, options = Run(self.run), read_origin(self.run)
        corpus: Sequence[Pair] | PreparedCorpus
        if options.prepared is not None:
            corpus = PreparedCorpus(options.prepared)
            found = corpus.sha256
        else:
            corpus = load_corpus(options, read_recipe(self.run).corpus, Path("data"), console.say).train
            found = part_sha256(corpus, key_side=options.key_side)
        wanted = read_json(self.run / CORPUS)["sha256"]["train"]
        require(found == wanted, str(self.run), f"the training pairs with sha256 {wanted} (restore the corpus)", found)
        console.say(f"learning the lexical table from {len(corpus):,} pairs")
        run.learn_shortlist(corpus)
        print(self.run / SHORTLIST)
