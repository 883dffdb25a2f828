"""States of versions, and loaded versions."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .status import Code

if TYPE_CHECKING:
    from .servable import Servable


class State(enum.Enum):
    """State of a version."""

    LOADING = "LOADING"
    AVAILABLE = "AVAILABLE"
    UNLOADING = "UNLOADING"
    END = "END"


class VersionStatus(NamedTuple):
    """State of a version. If it could not be loaded, the state is END and the message is the reason."""

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
        """Folder of the SavedModel."""
        self.servable = servable
        self.users = 0
        """Number of requests that use this version."""
        self.is_retired = False
        """If `True`, new requests do not find this version."""
