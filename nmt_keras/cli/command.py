"""The base classes of the commands. Each command is a frozen dataclass whose fields are its options."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import tyro

from nmt_keras.cli.console import Console
from nmt_keras.config import BATCHES_AT_ONCE, SearchConfig, require
from nmt_keras.runs.directory import is_run, read_recipe

if TYPE_CHECKING:
    from nmt_keras.translation.translator import Translator

Flag = tyro.conf.FlagCreatePairsOff[bool]
"""An option without a value; ``False`` by default."""

SUPPRESSED: Any = tyro.conf.Suppress  # mypy takes a subscript of it for a type
SIDE_BY_SIDE = max(1, (os.cpu_count() or 1) // BATCHES_AT_ONCE)
"""Threads per operation where batches run in parallel, so that batches do not wait for each other's threads."""

RARE = (
    *("debug", "settings", "options", "search", "filters", "source", "target"),
    *("width", "max_malformed", "accept_other_version", "alignments", "prepared"),
    *("deterministic", "previous", "tensorboard", "profile"),
)
"""Options, and groups of options, that most commands leave out of their short help."""

METAVARS = {
    **dict.fromkeys(("corpus", "valid", "test", "pairs", "gold"), "FILE"),
    **dict.fromkeys(("source_column", "target_column"), "COLUMN"),
    **dict.fromkeys(("source_language", "target_language"), "CODE"),
    **dict.fromkeys(("run", "ensemble", "init_from"), "RUN"),
    **dict.fromkeys(("minutes", "more_minutes"), "MINUTES"),
    **dict.fromkeys(("epochs", "more_epochs"), "EPOCHS"),
    **dict.fromkeys(("steps", "n_best", "max_to_keep", "shards"), "N"),
    **{"recipe": "RECIPE", "to": "FOLDER"},
}
"""Names of options' values in a short help. In the help of all options, a value that may be None is shown as such."""

SETTINGS = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff)
"""Settings of tyro. Looking for comments would take a fifth of a help's time."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A command."""

    computes: ClassVar[bool] = True
    """If ``True``, TensorFlow is imported before the call."""
    threads: ClassVar[int | None] = None
    """Threads per operation; ``None`` leaves the number to TensorFlow."""
    rare: ClassVar[Collection[str]] = RARE
    """Options, and groups of options, that only --help-all shows."""

    help_all: Flag = False
    """Show the help of all options, the fields of the recipe included."""
    debug: Flag = False
    """Show an error's traceback."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns the command whose values are the defaults of the options in ``arguments``."""
        return tyro.MISSING_NONPROP

    def check(self) -> None:  # noqa: B027 - most commands check nothing
        """Raises ValueError if the options contradict each other, before anything is loaded."""

    @abstractmethod
    def __call__(self, console: Console) -> None:
        """Runs the command. Results go to standard output."""


def shortened(kind: type[Any], rare: Collection[str]) -> type[Any]:
    """Returns a dataclass for a short help: ``kind`` without the options and groups ``rare``, at any depth."""
    changed: list[tuple[str, Any, Any]] = []
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        hint = hints[each.name]
        default = field(default=each.default, default_factory=each.default_factory)
        group = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if each.name in rare:
            hint = SUPPRESSED[hint]
        elif isinstance(group, type) and is_dataclass(group):
            hint, default = Annotated[shortened(group, rare), *get_args(hint)[1:]], field(default=tyro.MISSING_NONPROP)
        elif each.name in METAVARS:
            hint = Annotated[hint, tyro.conf.arg(metavar=METAVARS[each.name])]
        else:
            continue
        changed.append((each.name, hint, default))
    return make_dataclass(kind.__name__, changed, bases=(kind,), frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class RunCommand(Command):
    """A command for one run, or for an ensemble of runs."""

    threads: ClassVar[int | None] = SIDE_BY_SIDE

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """A run directory, or an exported version."""
    ensemble: tuple[Path, ...] = ()
    """More runs with the same vocabularies. RUN and they predict together: the mean of their probabilities."""


@dataclass(frozen=True, kw_only=True)
class SearchCommand(RunCommand):
    """A command that searches for translations. Options that are not given have the values of the run's recipe."""

    search: SearchConfig = field(default_factory=SearchConfig)
    """Search options. An exported version has a fixed search: greedy, and a beam for n-best lists."""

    @classmethod
    def defaults(cls, arguments: Sequence[str]) -> Any:
        """Returns a command with the search of the run in ``arguments``."""
        run = named_run(arguments)
        return tyro.MISSING_NONPROP if run is None else cls(path=tyro.MISSING, search=read_recipe(run).search)


def named_run(arguments: Sequence[str], option: str | None = None) -> Path | None:
    """Returns the first run directory in ``arguments``, except the values of ``--ensemble`` and ``--init-from``.

    With ``option``, returns the first one among its values.
    """
    current = ""
    for each in arguments:
        if each.startswith("-"):
            current, _, each = each.partition("=")
        current = current.replace("_", "-")
        wanted = current not in ("--ensemble", "--init-from") if option is None else current == option
        if wanted and each and is_run(Path(each)):
            return Path(each)
    return None


def load_translator(
    path: Path, ensemble: Sequence[Path], search: SearchConfig, n_best: int | None = None
) -> Translator:
    """Loads a run, an exported version or an ensemble of runs.

    Args:
        path: A run directory, an exported version, or the folder of an export's versions.
        ensemble: More run directories.
        search: The search of a run. An exported version accepts only the default.
        n_best: Number of translations of each sentence; a run's beam is widened to hold them.

    Raises:
        OSError, ValueError: something cannot be loaded, or cannot search like this.
    """
    import nmt_keras
    from nmt_keras.translation.model_translator import ModelTranslator

    translator = nmt_keras.load(path, *ensemble)
    if isinstance(translator, ModelTranslator):
        if n_best is not None:
            search = replace(search, beam_size=max(search.beam_size, n_best), n_best=n_best)
        replace(read_recipe(path), search=search)  # raises if the recipe's model cannot be searched like this
        return translator if search == translator.search else translator.with_search(search)
    require(
        search == SearchConfig(),
        "--search",
        f"no search options for the exported version {path}, whose search is fixed (pass the run instead)",
        str(search),
    )
    return translator
