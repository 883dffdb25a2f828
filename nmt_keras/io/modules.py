"""Modules of the user, which register layers: the option --import, and the names of the modules in a run."""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FIELD = "imports"
"""Field of ``recipe.json`` with the names of the modules."""

IMPORTED: list[str] = []
"""Modules that ``import_modules`` has imported. Runs record them, and processes that this one starts import them."""


def import_modules(names: Sequence[str]) -> None:
    """Imports modules. The working directory is searched first, as for ``python -m``.

    Raises:
        ValueError: there is no such module.
    """
    if names and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in names:
        try:
            if not all(map(str.isidentifier, name.split("."))):
                raise ModuleNotFoundError(name=name)
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):  # raised by an import in the module
                raise
            raise ValueError(
                f"--import: expected a Python module, received {name!r}. Write it as in an import statement, and run "
                "the command in the folder of the module."
            ) from error
    IMPORTED.extend(name for name in names if name not in IMPORTED)


def require_imported(path: Path, record: dict[str, Any]) -> None:
    """Removes the names of modules from a record, and requires that the modules have been imported.

    Raises:
        ValueError: a module has not been imported.
    """
    needed = " ".join(f"--import {name}" for name in record.pop(FIELD, ()) if name not in sys.modules)
    if needed:
        raise ValueError(
            f"{path}: trained with {needed}: add {needed}. In Python, import the module first. An export does not need "
            "it."
        )
