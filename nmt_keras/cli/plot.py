"""``nmt plot``: figures of alignments and training. ``nmt evaluate --to`` draws the scores."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import tyro

from nmt_keras.cli.command import Command, Console, SearchCommand, load_translator, named_search, require_sentences
from nmt_keras.config import require
from nmt_keras.io.lines import sentence_blocks
from nmt_keras.runs.directory import LOG


@dataclass(frozen=True, kw_only=True)
class Picture(Command):
    """Base class of the commands that draw a picture."""

    to: Path | None = None
    """Output file, .svg, .png or .pdf. Default: the name of the picture, such as curves.svg."""

    def check(self) -> None:
        """Raises ValueError if the file name does not end in .svg, .png or .pdf."""
        suffixes = (".svg", ".png", ".pdf")
        known = self.to is None or self.to.suffix.lower() in suffixes
        require(known, "--to", "a file name that ends in .svg, .png or .pdf", str(self.to))

    def __call__(self, console: Console) -> None:
        """Writes the picture and prints the name of its file."""
        from matplotlib import style

        file = self.to or Path(f"{type(self).__name__.lower()}.svg")
        with style.context("default"):  # a user's matplotlibrc may need LaTeX
            self.draw(file)
        print(file)

    @abstractmethod
    def draw(self, file: Path) -> None:
        """Draws the picture and writes it into ``file``."""


@dataclass(frozen=True, kw_only=True)
class Curves(Picture):
    """Training curves of a run, or validation curves of several runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run directories."""

    def check(self) -> None:
        """Raises ValueError if there is no run."""
        super().check()
        require(bool(self.runs), "RUN", "at least one run directory", self.runs)

    def draw(self, file: Path) -> None:
        """Draws the curves and writes them into ``file``."""
        from nmt_keras.plotting import compare_training, save_figure, training_curves
        from nmt_keras.training import read_log

        for run in self.runs:
            if not (run / LOG).exists():
                raise FileNotFoundError(
                    f"RUN: expected a run directory with a training log; {run / LOG} does not exist. Train a run first."
                )
        logs = {str(run): read_log(run / LOG) for run in self.runs}
        save_figure(training_curves(*logs.values()) if len(logs) == 1 else compare_training(logs), file)


@dataclass(frozen=True, kw_only=True)
class Heatmap(Picture, SearchCommand):
    """Heatmap of attention weights. Several sentences or an n-best list give a grid of heatmaps."""

    sentences: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE ...")]
    """Sentences to translate."""
    n_best: int = 1
    """Number of translations to draw for each sentence, best first."""

    def check(self) -> None:
        """Raises ValueError if there is nothing to draw."""
        super().check()
        require(bool(self.sentences), "SENTENCE", "at least one sentence", self.sentences)
        require_sentences(self.sentences)
        require(self.n_best >= 1, "--n-best", "at least 1", self.n_best)

    def draw(self, file: Path) -> None:
        """Draws the heatmaps and writes them into ``file``."""
        from nmt_keras.plotting import Panel, alignment_grid, alignment_heatmap, save_figure
        from nmt_keras.translation.word_alignment import align_words

        given = list(chain.from_iterable(sentence_blocks(self.sentences, warnings.warn)))
        if self.n_best == 1:
            translations = load_translator(self.path, self.ensemble, self.search).translate(given)
        else:
            found = load_translator(self.path, self.ensemble, self.search, self.n_best).translate_nbest(given)
            translations = [translation for best in found for translation in best[: self.n_best]]
        panels = []
        for each in translations:
            words = align_words(each.source_tokens, each.tokens, each.alignment)
            title = f"{each.text} ({each.score:.2f})" if self.n_best > 1 else None
            panels.append(Panel(words.alignment, words.source, words.target, title))
        if len(panels) == 1:
            (panel,) = panels
            figure = alignment_heatmap(panel.alignment, panel.source_tokens, panel.target_tokens, title=panel.title)
        else:
            figure = alignment_grid(panels, columns=self.n_best if len(given) > 1 < self.n_best else None)
        save_figure(figure, file)


@dataclass(frozen=True)
class Plot(Command):
    """Draw alignment heatmaps or training curves: SVG, PNG or PDF. nmt evaluate --to draws scores."""

    picture: Annotated[Curves, tyro.conf.subcommand("curves")] | Annotated[Heatmap, tyro.conf.subcommand("heatmap")]

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command whose heatmaps have the search options of the run or export in ``arguments``."""
        search = named_search(arguments)
        if "heatmap" not in arguments or search is None:
            return tyro.MISSING_NONPROP
        return cls(picture=Heatmap(path=tyro.MISSING, sentences=tyro.MISSING, search=search))

    def check(self) -> None:
        """Checks the options of the picture."""
        self.picture.check()

    def __call__(self, console: Console) -> None:
        """Draws the picture."""
        self.picture(console)
