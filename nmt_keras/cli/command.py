"""What every command is: a frozen dataclass whose fields are its options, called with a console."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import tyro

from nmt_keras.cli.console import Console
from nmt_keras.config import BATCHES_AT_ONCE, SearchConfig, require
from nmt_keras.runs.directory import is_run, read_recipe

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator
    from nmt_keras.translation.translator import Translator

Flag = tyro.conf.FlagCreatePairsOff[bool]
"""False unless its option is given."""
SIDE_BY_SIDE = max(1, (os.cpu_count() or 1) // BATCHES_AT_ONCE)
"""Threads of an operation where batches run side by side: each has its processors, and none waits for another."""
SETTINGS = (tyro.conf.OmitSubcommandPrefixes, tyro.conf.HelptextFromCommentsOff)
"""How tyro reads commands; comments are left out of helps, as looking for them takes a fifth of a help's time."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """A command."""

    computes: ClassVar[bool] = True
    """Whether TensorFlow is imported before it is called."""
    threads: ClassVar[int | None] = None
    """Within one operation; None leaves it to TensorFlow. Commands that translate have ``SIDE_BY_SIDE``."""
    debug: Flag = False
    """Show an error's traceback."""

    @property
    def shows_traceback(self) -> bool:
        """Whether an error is told with its traceback."""
        return self.debug

    def check(self) -> None:  # noqa: B027 - most commands have nothing to add
        """What options say together is looked at here, before anything is loaded.

        Raises:
            ValueError: the command line cannot be meant so.
        """

    @abstractmethod
    def __call__(self, console: Console) -> None:
        """Does what the command is for; answers go to standard output."""


def named_run(arguments: Sequence[str]) -> Path | None:
    """The first run directory that a command line names: its recipe's values become the options' defaults."""
    paths = (Path(each.removeprefix("--run=")) for each in arguments)
    return next((path for path in paths if is_run(path)), None)


def require_pair_files(files: Sequence[str], source_column: int | None, target_column: int | None) -> None:
    """Raises ValueError unless pairs can be read from ``files``, and from those columns, which are of one file."""
    require(len(files) <= 2, "FILE", "one of lines source<TAB>target, or a source and a target file", files)
    columns = pair_columns(source_column, target_column)
    if columns is None:
        return
    require(len(files) < 2, "--source-column, --target-column", "none with two files", columns)
    for option, column in zip(("--source-column", "--target-column"), columns, strict=True):
        require(column >= 0, option, "a column counted from 0", column)
    require(columns[0] != columns[1], "--target-column", "another column than --source-column names", columns[1])


def pair_columns(source: int | None, target: int | None) -> tuple[int, int] | None:
    """Source's and target's column of a file of pairs, 0 and 1 unless one is given; None where neither is."""
    if source is None and target is None:
        return None
    return (0 if source is None else source, 1 if target is None else target)


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
    from nmt_keras.translation.model_translator import ModelTranslator

    translator = nmt_keras.load(path, *ensemble)
    if isinstance(translator, ModelTranslator):
        return searching(translator, path, search)
    if search != SearchConfig():
        raise ValueError(
            f"--search: expected none for the exported version {path}, whose search is fixed: greedy, and a beam for "
            "n-best lists. Name the run that it was exported from, or export that with another --search."
        )
    return translator


def searching(translator: ModelTranslator, run: Path, search: SearchConfig) -> ModelTranslator:
    """A run's translator that searches as it is told.

    Raises:
        ValueError: the run's model cannot be searched so.
    """
    replace(read_recipe(run), search=search)
    return translator if search == translator.search else translator.with_search(search)
