"""What is served: the newest version of every model in a folder, and the state of each.

The folder is TensorFlow Serving's: NAME/VERSION/saved_model.pb. A child of NAME whose name is a number is a version,
anything else is none of the server's business (exports are written under other names until they are complete).
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from serve.status import Code, StatusError, invalid

if TYPE_CHECKING:
    from serve.servable import Servable

logger = logging.getLogger(__name__)


class State(enum.Enum):
    """Where a version stands between the decision to serve it and its end."""

    START = "START"
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


class LoadedVersion(NamedTuple):
    """A version that answers requests."""

    name: str
    version: int
    servable: Servable


class Repository:
    """The models in a folder.

    Args:
        folder: holds NAME/VERSION/ for each model.
        load: makes a servable of a version's folder, or raises StatusError.
    """

    def __init__(self, folder: Path, load: Callable[[Path], Servable]) -> None:
        self._folder = folder
        self._load = load
        self._statuses: dict[str, dict[int, VersionStatus]] = {}
        self._loaded: dict[str, dict[int, LoadedVersion]] = {}

    def load_latest(self) -> None:
        """Loads the newest version of every model; one that fails is logged, keeps its reason, and stops no other."""
        for name, folders in versions_on_disk(self._folder).items():
            version = max(folders)
            self._set_state(name, version, State.LOADING)
            started = time.perf_counter()
            try:
                servable = self._load(folders[version])
            except StatusError as error:
                logger.error("Model %s version %d could not be loaded: %s", name, version, error)
                self._set_state(name, version, State.END, error.code, error.message)
                continue
            self._loaded.setdefault(name, {})[version] = LoadedVersion(name, version, servable)
            self._set_state(name, version, State.AVAILABLE)
            logger.info("Model %s version %d loaded in %.1f s", name, version, time.perf_counter() - started)

    def _set_state(self, name: str, version: int, state: State, code: Code = Code.OK, message: str = "") -> None:
        self._statuses.setdefault(name, {})[version] = VersionStatus(version, state, code, message)

    def available(self) -> list[LoadedVersion]:
        """Every version that answers requests, by name and number."""
        return [loaded for _, versions in sorted(self._loaded.items()) for _, loaded in sorted(versions.items())]

    def find(self, name: str, version: int | None = None, label: str | None = None) -> LoadedVersion:
        """The version of model ``name`` that answers a request for ``version``, for ``label``, or for the newest.

        Raises:
            StatusError: NOT_FOUND if it is not loaded; INVALID_ARGUMENT for a label, as none is assigned.
        """
        if label is not None:
            raise _unknown_label(label)
        versions = self._loaded.get(name, {})
        if version is None:
            if not versions:
                raise StatusError(Code.NOT_FOUND, f"Servable not found for request: Latest({name})")
            return versions[max(versions)]
        if version not in versions:
            raise StatusError(Code.NOT_FOUND, f"Servable not found for request: Specific({name}, {version})")
        return versions[version]

    def status(self, name: str, version: int | None = None, label: str | None = None) -> list[VersionStatus]:
        """The states of model ``name``'s versions, newest first, or of the one that is asked for.

        Raises:
            StatusError: NOT_FOUND if there is none; INVALID_ARGUMENT for a label, as none is assigned.
        """
        if label is not None:
            raise _unknown_label(label)
        statuses = self._statuses.get(name, {})
        if version is not None:
            if version not in statuses:
                raise StatusError(Code.NOT_FOUND, f"Could not find version {version} of model {name}")
            return [statuses[version]]
        if not statuses:
            raise StatusError(Code.NOT_FOUND, f"Could not find any versions of model {name}")
        return [statuses[number] for number in sorted(statuses, reverse=True)]

    def close(self) -> None:
        """Frees every session."""
        for loaded in self.available():
            loaded.servable.close()


def versions_on_disk(folder: Path) -> dict[str, dict[int, Path]]:
    """The version folders of every model in ``folder``, by name and number; models without any version are left out."""
    models = {}
    for model in sorted(path for path in folder.iterdir() if path.is_dir()):
        versions = {int(path.name): path for path in sorted(model.iterdir()) if path.is_dir() and _is_number(path.name)}
        if versions:
            models[model.name] = versions
    return models


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and int(name) < 2**63


def _unknown_label(label: str) -> StatusError:
    return invalid(f"Unrecognized servable version label: {label}")
