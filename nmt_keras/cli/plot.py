"""``nmt plot``: figures of alignments and training. ``nmt evaluate --to`` draws the scores."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import tyro

from nmt_keras.cli.command import (
    Command,
    Console,
    SearchCommand,
    load_translator,
    named_model,
    own_search,
    require_sentences,
)
from nmt_keras.config import require
from nmt_keras.io.files import make_writable_folder
from nmt_keras.io.lines import sentence_blocks
from nmt_keras.runs.directory import LOG

SUFFIXES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, kw_only=True)
class Curves(Command):
    """Training curves of a run, or validation curves of several runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run directories."""
    to: Path = Path("curves.svg")
    """Output file, .svg, .png or .pdf."""

    def check(self) -> None:
        """Raises ValueError if there is no run."""
        require(bool(self.runs), "RUN", "at least one run directory", self.runs)

    def __call__(self, console: Console) -> None:
        """Writes the curves."""
        from nmt_keras.plotting import compare_training, save_figure, training_curves
        from nmt_keras.training import read_log

        for run in self.runs:
            if not (run / LOG).exists():
                raise FileNotFoundError(
                    f"RUN: expected a run directory with a training log; {run / LOG} does not exist. Train a run first."
                )
        logs = {str(run): read_log(run / LOG) for run in self.runs}
        save_figure(training_curves(*logs.values()) if len(logs) == 1 else compare_training(logs), self.to)


@dataclass(frozen=True, kw_only=True)
class Heatmap(SearchCommand):
    """Heatmap of attention weights. Several sentences give a grid of heatmaps."""

    sentences: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE ...")]
    """Sentences to translate."""
    to: Path = Path("heatmap.svg")
    """Output file, .svg, .png or .pdf."""

    def check(self) -> None:
        """Raises ValueError if there is nothing to draw."""
        require(bool(self.sentences), "SENTENCE", "at least one sentence", self.sentences)
        require_sentences(self.sentences)

    def __call__(self, console: Console) -> None:
        """Writes the heatmaps."""
        from nmt_keras.plotting import Panel, alignment_grid, save_figure
        from nmt_keras.translation.word_alignment import align_words

        given = list(chain.from_iterable(sentence_blocks(self.sentences, warnings.warn)))
        found = load_translator(self.path, self.ensemble, self.search).translate(given)
        aligned = (align_words(each.source_tokens, each.tokens, each.alignment) for each in found)
        panels = [Panel(words.alignment, words.source, words.target) for words in aligned]
        save_figure(alignment_grid(panels), self.to)


@dataclass(frozen=True)
class Plot(Command):
    """Draw alignment heatmaps or training curves: SVG, PNG or PDF. nmt evaluate --to draws scores."""

    picture: Annotated[Curves, tyro.conf.subcommand("curves")] | Annotated[Heatmap, tyro.conf.subcommand("heatmap")]

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command whose heatmaps have the search options of the run or export in ``arguments``."""
        model = named_model(arguments)
        if "heatmap" not in arguments or model is None:
            return tyro.MISSING_NONPROP
        return cls(picture=Heatmap(path=tyro.MISSING, sentences=tyro.MISSING, search=own_search(model)))

    def check(self) -> None:
        """Raises ValueError if the options of the picture are invalid, or OSError if it cannot be written."""
        to = self.picture.to
        require(to.suffix.lower() in SUFFIXES, "--to", "a file name that ends in .svg, .png or .pdf", str(to))
        self.picture.check()
        make_writable_folder(to.parent)

    def __call__(self, console: Console) -> None:
        """Writes the picture and prints the name of its file."""
        from matplotlib import style

        with style.context("default"):  # a user's matplotlibrc may need LaTeX
            self.picture(console)
        print(self.picture.to)
