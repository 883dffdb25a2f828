"""``nmt export``: a run's best model as a SavedModel version."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from nmt_keras.cli.command import Command, Flag, searching
from nmt_keras.cli.console import Console
from nmt_keras.config import ExportConfig, SearchConfig
from nmt_keras.runs.origin import read_origin


@dataclass(frozen=True)
class Export(Command):
    """Export a run's best model as the next SavedModel version, and print its folder.

    The signature serving_default searches as the run's recipe says, with a beam where that is greedy: the signature
    greedy is there in any case.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The run directory."""
    to: Path | None = None
    """The model's folder; saved_models/RUN by default."""
    ensemble: tuple[Path, ...] = ()
    """More runs, of the same vocabularies, to be exported with it as one model."""
    max_to_keep: int | None = None
    """How many versions stay, the new one included; all by default."""
    labelled: tuple[int, ...] = ()
    """With --max-to-keep: versions that stay whatever their age, since a server names them."""
    verify: Flag = False
    """Ask the export everything that its contract says, in a process without Keras, and print what came out."""
    options: ExportConfig = field(default_factory=ExportConfig)
    search: SearchConfig = field(default_factory=SearchConfig)

    def __call__(self, console: Console) -> None:
        """Prints the version's folder.

        Raises:
            ValueError: the export does not verify.
        """
        from nmt_keras.export import export, serving_search, verify
        from nmt_keras.runs import Run, load_runs

        folder = self.to or Path("saved_models") / self.run.resolve().name
        search = serving_search(self.search)
        run, languages = Run(self.run), read_origin(self.run).languages
        if self.ensemble:
            translator = load_runs([self.run, *self.ensemble]).with_search(search)
            names = [folder.resolve().name for folder in (self.run, *self.ensemble)]
            facts = {**run.facts(translator, languages), "runs": names}
            version = export(
                translator, folder, facts, self.options, max_to_keep=self.max_to_keep, labelled=self.labelled
            )
        else:
            translator = searching(run.translator(), self.run, search)
            version = run.export(
                translator,
                folder,
                self.options,
                languages=languages,
                max_to_keep=self.max_to_keep,
                labelled=self.labelled,
            )
        print(version)
        if self.verify:
            found = verify(version)
            print(found)
            if not found.passed:
                raise ValueError(f"{version}: the export does not do what its contract says; see above.")
