"""A version of a model: its state, and the servable that answers its requests."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .status import Code

if TYPE_CHECKING:
    from .servable import Servable


class State(enum.Enum):
    """Where a version stands between the decision to serve it and its end."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


class VersionStatus(NamedTuple):
    """A version's state; one that could not be loaded ENDs with the reason."""

    version: int
    state: State
    code: Code
    message: str


class LoadedVersion:
    """A version that answers requests."""

    def __init__(self, name: str, version: int, folder: Path, servable: Servable) -> None:
        self.name = name
        self.version = version
        self.folder = folder
        """Where it was loaded from."""
        self.servable = servable
        self.users = 0
        """Requests under way."""
        self.is_retired = False
        """Whether no further request will find it."""
