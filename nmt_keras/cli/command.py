"""Base classes of the commands. Each command is a frozen dataclass; its fields are the options."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import tyro

from nmt_keras.cli.console import Console
from nmt_keras.config import BATCHES_AT_ONCE, SearchConfig, require
from nmt_keras.cores import available_cores
from nmt_keras.corpus import CorpusOptions
from nmt_keras.io.lines import TEXT_SUFFIXES
from nmt_keras.manifest import default_search, exported_version
from nmt_keras.runs.directory import is_run, read_origin, read_recipe, with_languages_of

if TYPE_CHECKING:
    from nmt_keras.translation.translator import Translator

Flag = tyro.conf.FlagCreatePairsOff[bool]
"""An option without a value; ``False`` by default."""

SUPPRESSED: Any = tyro.conf.Suppress  # Any, because mypy would read a subscript of it as a type
SIDE_BY_SIDE = max(1, available_cores() // BATCHES_AT_ONCE)
"""Threads per operation for commands that run batches in parallel. With more, batches would wait for each other."""

RARE = (
    *("debug", "imports", "settings", "options", "filters", "source", "target"),
    *(f"SearchConfig.{each.name}" for each in fields(SearchConfig) if each.name != "beam_size"),
    *("width", "max_malformed", "alignments", "prepared", "tables", "bleu_tokenizer"),
    *("deterministic", "previous", "tensorboard", "profile"),
)
"""Options and option groups that the short help of most commands omits, by name or by class and name."""

METAVARS = {
    **dict.fromkeys(("corpus", "valid", "test", "pairs", "gold", "source", "reference", "output"), "FILE"),
    **dict.fromkeys(("source_column", "target_column"), "COLUMN"),
    **dict.fromkeys(("source_language", "target_language"), "CODE"),
    **dict.fromkeys(("run", "ensemble", "init_from"), "RUN"),
    **dict.fromkeys(("steps", "updates", "jobs", "n_best", "worst", "beam_size", "max_to_keep", "shards"), "N"),
    **{"recipe": "RECIPE", "baseline": "RECIPE", "to": "FOLDER", "languages": "CODE-CODE", "column": "COLUMN"},
    **dict.fromkeys(("minutes", "more_minutes"), "MINUTES"),
    **dict.fromkeys(("epochs", "more_epochs"), "EPOCHS"),
}
"""Placeholders for the values of options in the short help. The full help shows types."""

SETTINGS = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff)
"""Settings of tyro. Help texts are not read from comments, because that takes a fifth of the time of --help."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Base class of the commands."""

    computes: ClassVar[bool] = True
    """If ``True``, TensorFlow is imported before the command is called."""
    threads: ClassVar[int | None] = None
    """Threads per operation; ``None`` leaves the number to TensorFlow."""
    rare: ClassVar[Collection[str]] = RARE
    """Options and option groups that only --help-all shows."""

    idle: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Beginnings of options that have no effect together with another option, by this option."""

    help_all: Flag = False
    """Show the help of all options."""
    debug: Flag = False
    """Show the traceback of an error."""
    imports: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="import", metavar="MODULE")] = ()
    """Python module that registers layers of your own with nmt_keras.register. Can be repeated. A run that was trained
    with it needs it in each command. The module can run any code."""
    typed: SUPPRESSED[tyro.conf.Fixed[tuple[str, ...]]] = ()
    """The words of the command line."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command whose field values are the options' defaults. They may depend on ``arguments``."""
        return tyro.MISSING_NONPROP

    @classmethod
    def require_effects(cls, arguments: Sequence[str]) -> None:
        """Raises ValueError if an option in ``arguments`` has no effect because of another one."""
        typed = [each.partition("=")[0].replace("_", "-") for each in arguments if each.startswith("--")]
        for option, idle in cls.idle.items():
            useless = [each for each in typed if each.startswith(idle)]
            require(option not in typed or not useless, option, f"no {', '.join(useless)}, which has no effect", option)

    def check(self) -> None:
        """Raises ValueError if the options contradict each other. Called before anything is loaded."""
        return

    @abstractmethod
    def __call__(self, console: Console) -> None:
        """Runs the command. Results go to standard output."""


def shortened(kind: type[Any], rare: Collection[str]) -> type[Any]:
    """Returns a subclass of dataclass ``kind`` whose help omits the options and groups in ``rare``, at any depth."""
    changed: list[tuple[str, Any, Any]] = []
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint = hints[each.name]
        default = field(default=each.default, default_factory=each.default_factory, metadata=each.metadata)
        group = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if not {each.name, f"{kind.__name__}.{each.name}"}.isdisjoint(rare):
            hint = SUPPRESSED[hint]
        elif isinstance(group, type) and is_dataclass(group):
            hint = shortened(group, rare) if hint is group else Annotated[shortened(group, rare), *get_args(hint)[1:]]
            default = field(default=tyro.MISSING_NONPROP, metadata=each.metadata)
        else:
            markers = getattr(hint, "__metadata__", ())
            own = (marker.metavar for marker in markers if getattr(marker, "metavar", None))
            # the help text describes these better than "(default: None)" and "(default: )"
            absent = each.default in (None, ()) or tyro.conf.Positional in markers
            metavar = next(own, METAVARS.get(each.name))
            hint = Annotated[hint, tyro.conf.arg(metavar=metavar, help_behavior_hint="" if absent else None)]
        changed.append((each.name, hint, default))
    return make_dataclass(kind.__name__, changed, bases=(kind,), frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class RunCommand(Command):
    """A command for one run, or for an ensemble of runs."""

    threads: ClassVar[int | None] = SIDE_BY_SIDE

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or an exported version."""
    ensemble: tuple[Path, ...] = ()
    """More runs with the same vocabularies. Their probabilities are averaged with those of RUN."""


@dataclass(frozen=True, kw_only=True)
class SearchCommand(RunCommand):
    """A command that searches for translations. The defaults of the search options are those of the run or export."""

    search: SearchConfig = field(default_factory=SearchConfig)
    """Search options. An exported version accepts only beam size 1."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command with the search options of the run or the exported version in ``arguments``."""
        model = named_model(arguments)
        return tyro.MISSING_NONPROP if model is None else cls(path=tyro.MISSING, search=own_search(model))


def require_sentences(sentences: Sequence[str]) -> None:
    """Raises ValueError if one of the sentences on a command line is the name of a file, such as es.txt."""
    for each in sentences:
        is_file = each.endswith(TEXT_SUFFIXES) and not re.search(r"\s", each)  # also one that does not exist
        is_file |= bool(Path(each).suffix) and os.path.isfile(each)
        require(not is_file, "SENTENCE", "a sentence", each, f"To read a file, run nmt translate RUN < {each}.")


def values_of(option: str, arguments: Sequence[str]) -> list[str]:
    """Returns the first value of each occurrence of ``option``. Words after ``--`` are sentences."""
    options = takewhile(lambda each: each != "--", arguments)
    words = [word for each in options for word in (each.split("=", 1) if each.startswith("--") else [each])]
    return [value for name, value in pairwise(words) if name.replace("_", "-") == option]


def named_run(arguments: Sequence[str], option: str | None = None) -> Path | None:
    """Returns the first run directory in ``arguments``. Ignores the values of ``--ensemble`` and ``--init-from``.

    If ``option`` is given, returns the first run directory or exported version among the values of that option.
    """
    current = ""
    for each in arguments:
        if each.startswith("-"):
            current, _, each = each.partition("=")
        current = current.replace("_", "-")
        wanted = current not in ("--ensemble", "--init-from") if option is None else current == option
        if wanted and each and (is_run(Path(each)) or (option and exported_version(Path(each)))):
            return Path(each)
    return None


def named_model(arguments: Sequence[str]) -> Path | None:
    """Returns the first run directory in ``arguments``, else the first exported version."""
    exported = (exported_version(Path(each)) for each in arguments if each and not each.startswith("-"))
    return named_run(arguments) or next(filter(None, exported), None)


def own_search(model: Path) -> SearchConfig:
    """Returns the search of a run directory or an exported version."""
    return read_recipe(model).search if is_run(model) else default_search(model)


def named_corpus(arguments: Sequence[str]) -> CorpusOptions:
    """Returns the corpus options of the first run directory in ``arguments``, else those of a new run.

    The file of --corpus replaces the download of a run: it has the same languages and columns.
    """
    run = named_run(arguments)
    data, to_read = CorpusOptions() if run is None else read_origin(run), values_of("--corpus", arguments)
    return with_languages_of(run, data).downloaded() if run and data.languages and to_read else data


def load_translator(
    path: Path, ensemble: Sequence[Path], search: SearchConfig | None, n_best: int | None = None
) -> Translator:
    """Loads a run, an exported version or an ensemble of runs.

    Args:
        path: A run directory, an exported version, or a folder of exported versions.
        ensemble: More run directories.
        search: Search options; ``None`` for those of the run or export. An export accepts only another beam size, 1.
        n_best: Number of translations of each sentence. If the beam size of a run is smaller, ``n_best`` is used as
            beam size.

    Raises:
        OSError, ValueError: a file cannot be loaded, or the model does not support the search options.
    """
    import nmt_keras
    from nmt_keras.translation.exported import ServedTranslator

    translator = nmt_keras.load(path, *ensemble)
    search = search or translator.search
    if not isinstance(translator, ServedTranslator):
        from nmt_keras.translation.model_translator import ModelTranslator  # imports Keras

        assert isinstance(translator, ModelTranslator)
        if n_best is not None:
            search = replace(search, beam_size=max(search.beam_size, n_best), n_best=n_best)
        replace(read_recipe(path), search=search)  # raises ValueError if the model does not support these options
        return translator if search == translator.search else translator.with_search(search)
    if n_best is not None:
        most = translator.hypotheses
        wanted = f"at most {most}, the number of hypotheses of the exported version {path}"
        require(n_best <= most, "--n-best", wanted, n_best, "Pass a lower number, or the run.")
    require(
        search in translator.searches[: 1 if n_best else 2],  # the signature ``beam`` gives the n best
        "--search",
        f"the search of the exported version {path} ({translator.searches[0]}), or --search.beam-size 1",
        str(search),
        "Remove the options, or pass the run.",
    )
    return translator.with_search(search)
