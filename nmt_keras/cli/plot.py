"""``nmt plot``: pictures of what models looked at, of how they learnt and of what they score."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from nmt_keras.cli.command import Command, load_translator
from nmt_keras.cli.console import Console
from nmt_keras.config import SearchConfig, require
from nmt_keras.runs.directory import is_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nmt_keras.evaluation.comparison import Comparison
    from nmt_keras.translation.records import Translation


@dataclass(frozen=True, kw_only=True)
class Picture(Command):
    """A picture."""

    to: Path
    """The file to write, .svg or .png."""

    def check(self) -> None:
        """Looks at what is to be written."""
        suffixes = (".svg", ".png")
        require(self.to.suffix.lower() in suffixes, "--to", "a file name that ends in .svg or .png", str(self.to))

    def __call__(self, console: Console) -> None:
        """Writes the picture and prints where."""
        from nmt_keras.plotting import save_figure

        save_figure(self.figure(), self.to)
        print(self.to)

    @abstractmethod
    def figure(self) -> Figure:
        """Draws it."""


@dataclass(frozen=True, kw_only=True)
class Curves(Picture):
    """Training curves of a run, or the validation curves of several."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")]
    """Run directories."""
    to: Path = Path("curves.svg")
    """The file to write, .svg or .png."""

    def check(self) -> None:
        """Looks for runs."""
        super().check()
        require(bool(self.runs), "RUN", "at least one run directory", self.runs)

    def figure(self) -> Figure:
        """Draws them."""
        from nmt_keras.plotting import compare_training, training_curves
        from nmt_keras.training import read_log

        logs = {}
        for run in self.runs:
            if not (run / "log.jsonl").exists():
                raise FileNotFoundError(f"RUN: expected a run's log in {run}, found none. Train a run there first.")
            logs[run.resolve().name if len(self.runs) == 1 else str(run)] = read_log(run / "log.jsonl")
        return training_curves(*logs.values()) if len(logs) == 1 else compare_training(logs)


@dataclass(frozen=True, kw_only=True)
class Heatmap(Picture):
    """What each word of a translation looked at; several sentences make a grid, and so does an n-best list."""

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or an exported version."""
    sentences: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE ...")]
    """What to translate."""
    n_best: int = 1
    """Translations of each sentence to draw, best first."""
    to: Path = Path("heatmap.svg")
    """The file to write, .svg or .png."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """How runs search for translations. An exported version searches greedily, and with --n-best by a beam."""

    def check(self) -> None:
        """Looks for sentences."""
        super().check()
        require(bool(self.sentences), "SENTENCE", "at least one sentence", self.sentences)
        require(self.n_best >= 1, "--n-best", "at least 1", self.n_best)

    def figure(self) -> Figure:
        """Draws them."""
        from nmt_keras.plotting import Panel, alignment_grid, alignment_heatmap
        from nmt_keras.translation.word_alignment import align_words

        panels = []
        for found in self._translations():
            for translation in found:
                words = align_words(translation.source_tokens, translation.tokens, translation.alignment)
                title = f"{translation.text} ({translation.score:.2f})" if self.n_best > 1 else None
                panels.append(Panel(words.alignment, words.source, words.target, title))
        if len(panels) > 1:
            return alignment_grid(panels, columns=self.n_best if len(self.sentences) > 1 < self.n_best else None)
        (panel,) = panels
        return alignment_heatmap(panel.alignment, panel.source_tokens, panel.target_tokens, title=panel.title)

    def _translations(self) -> list[list[Translation]]:
        if self.n_best == 1:
            translator = load_translator(self.path, (), self.search)
            return [[translation] for translation in translator.translate(self.sentences)]
        search = self.search
        if is_run(self.path):
            search = replace(search, beam_size=max(search.beam_size, self.n_best), n_best=self.n_best)
        found = load_translator(self.path, (), search).translate_nbest(self.sentences)
        return [translations[: self.n_best] for translations in found]


@dataclass(frozen=True, kw_only=True)
class Lengths(Picture):
    """BLEU by sentence length, from a report of nmt evaluate --to FOLDER."""

    report: Annotated[Path, tyro.conf.Positional]
    """report.json."""
    to: Path = Path("bleu-by-length.svg")
    """The file to write, .svg or .png."""

    def figure(self) -> Figure:
        """Draws it."""
        from nmt_keras.evaluation.comparison import length_picture

        return length_picture(_comparison(self.report))


@dataclass(frozen=True, kw_only=True)
class Scores(Picture):
    """BLEU and chrF of runs side by side, from a report of nmt evaluate --to FOLDER."""

    report: Annotated[Path, tyro.conf.Positional]
    """report.json."""
    to: Path = Path("scores.svg")
    """The file to write, .svg or .png."""

    def figure(self) -> Figure:
        """Draws it."""
        from nmt_keras.evaluation.comparison import score_picture

        return score_picture(_comparison(self.report))


def _comparison(path: Path) -> Comparison:
    from nmt_keras.evaluation.comparison import from_json

    return from_json(path.read_text(encoding="utf-8"), str(path))


PICTURES = ("curves", "heatmap", "lengths", "scores")


@dataclass(frozen=True)
class Plot(Command):
    """Draw heatmaps, training curves, BLEU by length, and runs side by side, as SVG or PNG."""

    picture: (
        Annotated[Curves, tyro.conf.subcommand("curves")]
        | Annotated[Heatmap, tyro.conf.subcommand("heatmap")]
        | Annotated[Lengths, tyro.conf.subcommand("lengths")]
        | Annotated[Scores, tyro.conf.subcommand("scores")]
    )

    @property
    def shows_traceback(self) -> bool:
        """Whether --debug stands before the picture's name or after it."""
        return self.debug or self.picture.debug

    def check(self) -> None:
        """Looks at what is to be drawn."""
        self.picture.check()

    def __call__(self, console: Console) -> None:
        """Draws it."""
        self.picture(console)
