"""``nmt export``: a run's best weights as a SavedModel version."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nmt_keras.cli.command import Flag, SearchCommand, load_translator
from nmt_keras.cli.console import Console
from nmt_keras.config import ExportConfig
from nmt_keras.runs.origin import read_origin


@dataclass(frozen=True)
class Export(SearchCommand):
    """Export a run's best weights as the next SavedModel version, and print its folder.

    The signature serving_default uses beam search even if the recipe is greedy. The signature greedy is always
    exported.
    """

    to: Path | None = None
    """The model's folder; saved_models/RUN by default."""
    max_to_keep: int | None = None
    """Number of versions to keep, the new one included; all by default."""
    labelled: tuple[int, ...] = ()
    """With --max-to-keep: older versions to keep because a server's configuration names them."""
    verify: Flag = False
    """Test everything that the export promises, in a process without Keras, and print the results."""
    options: ExportConfig = field(default_factory=ExportConfig)

    def __call__(self, console: Console) -> None:
        """Prints the version's folder.

        Raises:
            ValueError: the verification failed.
        """
        from nmt_keras.export import export, serving_search, verify
        from nmt_keras.runs import Run
        from nmt_keras.translation.model_translator import ModelTranslator

        folder = self.to or Path("saved_models") / self.path.resolve().name
        run, languages = Run(self.path), read_origin(self.path).languages
        translator = load_translator(self.path, self.ensemble, serving_search(self.search))
        assert isinstance(translator, ModelTranslator)
        if self.ensemble:
            names = [each.resolve().name for each in (self.path, *self.ensemble)]
            version = export(
                translator,
                folder,
                {**run.facts(translator, languages), "runs": names},
                self.options,
                max_to_keep=self.max_to_keep,
                labelled=self.labelled,
            )
        else:
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
                raise ValueError(f"--verify: {version} failed the tests above. Do not serve it.")
