"""``nmt average``: a run whose weights are the mean of another run's last checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.cli.command import Command
from nmt_keras.cli.console import Console


@dataclass(frozen=True)
class Average(Command):
    """Average a run's last checkpoints into a new run, and print its directory.

    The new run is evaluated, exported and used like any other. `nmt train --train.max-to-keep N` keeps N checkpoints.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    checkpoints: int = 2
    """Number of checkpoints; at most --train.max-to-keep of the run."""
    to: Path | None = None
    """The new run directory; RUN-averaged by default."""

    def __call__(self, console: Console) -> None:
        """Prints the new run's directory."""
        from nmt_keras.runs import Run

        folder = self.to or Path(f"{self.run}-averaged")
        Run(self.run).average(self.checkpoints, folder)
        print(folder)
