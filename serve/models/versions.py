"""Loaded versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .servable import Servable


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
