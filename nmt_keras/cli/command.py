"""What every command is: a frozen dataclass whose fields are its options, called with a console."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from nmt_keras.cli.console import Console
from nmt_keras.config import Recipe, SearchConfig

if TYPE_CHECKING:
    from nmt_keras.translator import ModelTranslator, Translator

Flag = tyro.conf.FlagCreatePairsOff[bool]
"""False unless its option is given."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A command."""

    debug: Flag = False
    """Show an error's traceback."""

    @abstractmethod
    def __call__(self, console: Console) -> None:
        """Does what the command is for; answers go to standard output."""


def stored_recipe(run: Path) -> Recipe:
    """The recipe of a run directory.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    path = run / "recipe.json"
    return Recipe.from_json(path.read_text(encoding="utf-8"), str(path))


def named_run(arguments: Sequence[str]) -> Path | None:
    """The first run directory that a command line names: its recipe's values become the options' defaults."""
    return next((Path(each) for each in arguments if (Path(each) / "recipe.json").is_file()), None)


def load_translator(path: Path, ensemble: Sequence[Path], search: SearchConfig) -> Translator:
    """What translates: a run, an exported version, or several runs together.

    Args:
        path: a run, an exported version, or the folder of an export's versions.
        ensemble: more runs.
        search: what the command line says of it; its defaults are those of the run.

    Raises:
        OSError, ValueError: something cannot be loaded, or an exported version is asked to search otherwise.
    """
    import nmt_keras
    from nmt_keras.translator import ModelTranslator

    translator = nmt_keras.load(path, *ensemble)
    if isinstance(translator, ModelTranslator):
        return searching(translator, path, search)
    if search != SearchConfig():
        raise ValueError(f"--search: expected a run, received {path}. An exported version keeps its own search.")
    return translator


def searching(translator: ModelTranslator, run: Path, search: SearchConfig) -> ModelTranslator:
    """A run's translator that searches as it is told.

    Raises:
        ValueError: the run's model cannot be searched so.
    """
    replace(stored_recipe(run), search=search)
    return translator if search == translator.search else translator.with_search(search)
