"""``nmt export``: a run's best model as a SavedModel version."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.cli.command import Command, searching
from nmt_keras.cli.console import Console
from nmt_keras.config import SearchConfig


@dataclass(frozen=True)
class Export(Command):
    """Export a run's best model as the next SavedModel version, and print its folder."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    to: Path | None = None
    """The model's folder; saved_models/RUN by default."""
    search: SearchConfig = field(default_factory=SearchConfig)

    def __call__(self, console: Console) -> None:
        """Prints the version's folder."""
        from nmt_keras.experiment import Experiment

        experiment = Experiment(self.run)
        translator = searching(experiment.translator(), self.run, self.search)
        print(experiment.export(translator, self.to or Path("saved_models") / self.run.resolve().name))
