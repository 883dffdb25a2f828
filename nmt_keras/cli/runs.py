"""``nmt recipes`` and ``nmt runs`` list recipes and runs. ``nmt export`` exports a run, ``nmt serve`` serves it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import tyro

from nmt_keras.cli.command import Command, Console, Flag, SearchCommand, load_translator
from nmt_keras.config import ExportConfig, require
from nmt_keras.io.files import make_writable_folder, read_json, read_rows
from nmt_keras.io.usage import read_options
from nmt_keras.manifest import exported_version, serving_search
from nmt_keras.recipes import RECIPES, find_recipe, to_yaml
from nmt_keras.runs.directory import LOG, RECIPE, SCORES, is_run, read_origin, read_recipe


@dataclass(frozen=True)
class Recipes(Command):
    """List the recipes, or print one as YAML.

    To train with an edited copy, write it to a file and pass the file: nmt train mine.yaml.
    """

    computes: ClassVar[bool] = False
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = None
    """Recipe to print. Default: one line about each recipe."""

    def check(self) -> None:
        """Raises ValueError if there is no such recipe."""
        if self.name is not None:
            find_recipe(self.name)

    def __call__(self, console: Console) -> None:
        """Prints one recipe, or a line about each recipe."""
        if self.name is not None:
            print(to_yaml(find_recipe(self.name)), end="")
            return
        for recipe in RECIPES.values():
            encoder, attention, decoder = recipe.model.encoder, recipe.model.attention, recipe.model.decoder
            kind = attention.kind if attention.span == "global" else f"{attention.kind} {attention.span}"
            reading = "self-attention" if encoder.kind == "self-attention" else f"{encoder.direction} {encoder.cell}"
            print(
                f"{recipe.name:22} {recipe.source.kind:8} {reading} x {encoder.layers}, "
                f"attention {kind}, decoder {decoder.units} units"
            )


@dataclass(frozen=True)
class Runs(Command):
    """List the runs in a folder and its subfolders: minutes of training, BLEU, recipe and path.

    BLEU is that of the test or validation set, which nmt train translates at its end. Before that, it is the highest
    BLEU of the sample that training translates.
    """

    computes: ClassVar[bool] = False
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = Path("runs")
    """Folder of the runs."""

    def __call__(self, console: Console) -> None:
        """Prints a line for each run."""
        runs = sorted(path.parent for path in self.folder.rglob(RECIPE))
        hint = "Pass the folder of your runs, or train one: nmt train."
        require(bool(runs), "FOLDER", "a folder with a run", str(self.folder), hint)
        print(f"{'minutes':>7} {'BLEU':>6} {'set':6} {'recipe':24} run")
        for run in runs:
            try:
                minutes, score, part = _progress(run)
                print(f"{minutes:>7} {score:>6} {part:6} {read_recipe(run).name:24} {run}")
            except (OSError, ValueError) as error:
                console.say(f"{run} is skipped: {error}")


def _progress(run: Path) -> tuple[str, str, str]:
    """Returns the minutes of a run's training, its BLEU, and the set of the BLEU. They are "-" if not recorded."""
    rows = [row for row in read_rows(run / LOG)[0] if "valid_bleu" in row]
    minutes = f"{rows[-1]['seconds'] / 60:.1f}" if rows and "seconds" in rows[-1] else "-"
    scores = read_json(run / SCORES) if (run / SCORES).exists() else {}
    for part in ("test", "valid"):
        if part in scores:
            return minutes, f"{scores[part]['bleu']:.2f}", part
    return (minutes, f"{max(row['valid_bleu'] for row in rows):.2f}", "sample") if rows else (minutes, "-", "-")


@dataclass(frozen=True)
class Export(SearchCommand):
    """Export a run's best weights as the next SavedModel version, and print its folder; or as an HTML file.

    With --to FILE.html, the file translates in a browser, without a server or a network. RUN may then be an exported
    version, too. The file has no limits of repetition, replaces no unknown words, and searches in float32.

    The signature serving_default uses beam size 5 if the recipe is greedy, unless --search.beam-size 1 is given. The
    signature greedy is always exported.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory. For an HTML file, also an exported version."""
    to: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER|FILE.html")] = None
    """Folder of the model's versions, or an HTML file to write. Default: saved_models/RUN."""
    float16: Flag = False
    """Store the weights of an HTML file in float16 instead of int8. The file is twice as large."""
    max_to_keep: int | None = None
    """Number of versions to keep, including the new one. Default: all."""
    verify: Flag = False
    """Check the exported version in a process without Keras, and print the results."""
    options: ExportConfig = field(default_factory=ExportConfig)

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command whose search is that of ``serving_default`` for the run in ``arguments``."""
        command = super().defaults(arguments)
        return replace(command, search=serving_search(command.search)) if isinstance(command, cls) else command

    @property
    def is_html(self) -> bool:
        """``True`` if the command writes an HTML file."""
        return self.to is not None and self.to.suffix.lower() == ".html"

    @property
    def _place(self) -> Path:
        """The HTML file, or the folder of the model's versions."""
        return self.to or Path("saved_models") / self.path.resolve().name

    def check(self) -> None:
        """Raises ValueError if an option has no effect on what the command writes or is invalid, OSError for --to."""
        useless = {
            "--float16": not self.is_html and self.float16,
            "--max-to-keep": self.is_html and self.max_to_keep is not None,
            "--verify": self.is_html and self.verify,
            "--ensemble": self.is_html and bool(self.ensemble),
            "--options.half-precision": self.is_html and self.options.half_precision,
            "--options.micro-batching": self.is_html and self.options.micro_batching is not None,
        }
        for option, given in useless.items():
            expected = f"{'a folder' if self.is_html else 'an HTML file'} with {option}"
            require(not given, "--to", expected, str(self.to), f"Remove {option}, or change --to.")
        require(self.max_to_keep is None or self.max_to_keep >= 1, "--max-to-keep", "at least 1", self.max_to_keep)
        require(not is_run(self._place), "--to", "another folder than a run", str(self._place))
        if self.is_html:
            make_writable_folder(self._place.parent)

    def __call__(self, console: Console) -> None:
        """Exports the run and prints what it wrote: the folder of the version, or the HTML file.

        Raises:
            ValueError: the verification failed, or a translator in an HTML file cannot compute a part of the run.
        """
        if self.is_html:
            self._write_html()
            return
        from nmt_keras.export import export, verify
        from nmt_keras.runs import Run
        from nmt_keras.translation.model_translator import ModelTranslator

        run, languages = Run(self.path), read_origin(self.path).language_tags
        translator = load_translator(self.path, self.ensemble, self.search)
        assert isinstance(translator, ModelTranslator)
        facts = run.facts(translator, languages)
        if self.ensemble:
            facts |= {"command": None, "runs": [each.resolve().name for each in (self.path, *self.ensemble)]}

        def require_verified(written: Path) -> None:
            checks = verify(written)
            for check, faults in checks.items():
                print(f"{'FAILED' if faults else 'ok':8}{check}", *faults, sep="\n        ")
            if any(checks.values()):
                raise ValueError("--verify: the export failed the checks above. No version was written.")

        check = require_verified if self.verify else None
        print(export(translator, self._place, facts, self.options, max_to_keep=self.max_to_keep, check=check))

    def _write_html(self) -> None:
        """Writes the HTML file, with the page of the server's package."""
        from importlib.resources import files

        import nmt_keras_serve

        from nmt_keras.browser import write_html
        from nmt_keras.export.rebuilding import Parts, rebuilt
        from nmt_keras.runs import Run

        if exported := exported_version(self.path):
            parts, facts = rebuilt(exported)
            name, version = exported.resolve().parent.name, exported.name
        else:
            run = Run(self.path)
            translator = run.translator()
            parts = Parts.of(translator, run.recipe.model)
            facts = run.facts(translator, read_origin(self.path).language_tags)
            name, version = self.path.resolve().name, translator.checkpoints[0].name
        given = {field: value for field, value in asdict(self.options).items() if value}
        facts |= {"version": version, "export": {**facts.get("export", {}), **given}}
        web = files(nmt_keras_serve) / "web"
        write_html(self._place, name, parts, facts, self.search, web, float16=self.float16)
        print(self.to)


@dataclass(frozen=True)
class Serve(Command):
    """Serve exported models over TensorFlow Serving's REST API, with a web page."""

    computes: ClassVar[bool] = False  # the server imports TensorFlow itself, after it has opened its ports
    options: tyro.conf.Suppress[Any] = None

    @classmethod
    def read(cls, program: str, arguments: Sequence[str]) -> Self:
        """Reads the server's command line. This command, ``export`` and ``demo`` alone import the package."""
        from nmt_keras_serve.options import Options

        return cls(options=read_options(Options, program, arguments, config=(tyro.conf.FlagCreatePairsOff,)))

    def __call__(self, console: Console) -> None:
        """Serves the models until a signal stops the process."""
        from nmt_keras_serve.server import serve

        serve(self.options)
