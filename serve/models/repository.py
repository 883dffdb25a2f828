"""Loaded versions of the models, their states, and the labels that point to them.

The folders are TensorFlow Serving's: BASE_PATH/VERSION/saved_model.pb. A SavedModel is a program that runs with the
server's rights: serve only models from a source that you trust. Each poll compares the folders with the loaded
versions. A new version is loaded and warmed up before an old version is unloaded. An old version is unloaded only when
another wanted version is available. It is closed when the last request that uses it ends. If the newest version cannot
be loaded and no other serves, the newest of those that can be loaded is served until then.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import platform
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_keras.io.files import version_folders

from .model_config import Latest, ServedModel, Specific
from .status import Code, State, StatusError, VersionStatus, invalid

if TYPE_CHECKING:
    from .servable import Servable

logger = logging.getLogger(__name__)

RETURN_MEMORY_SECONDS = 60.0
"""Seconds between two returns of free memory to the system. Without them, large requests would fragment the memory."""

Fingerprint = frozenset[tuple[str, int, int]]
"""Path, size in bytes and modification time in nanoseconds of every file of a version."""


@dataclass(eq=False)
class LoadedVersion:
    """A version that answers requests."""

    name: str
    version: int
    folder: Path
    """Folder of the SavedModel."""
    servable: Servable
    users: int = 1
    """Number of requests that use this version, plus 1 until it is unloaded."""


class Repository:
    """The served models.

    Args:
        configs: Function that returns the models. Called at every poll.
        load: Function that loads the SavedModel in a version's folder. Any exception becomes the version's status.
        retry_seconds: Pause before another attempt to load a version, in seconds.
    """

    def __init__(
        self,
        configs: Callable[[], list[ServedModel]],
        load: Callable[[Path], Servable],
        retry_seconds: float = 60.0,
    ) -> None:
        self._configs = configs
        self._load = load
        self._retry_seconds = retry_seconds
        self._is_closing = False
        self._changing = threading.Lock()  # held while versions are loaded, which takes seconds
        # files of each version whose last attempt to load failed, and the time of the next, in monotonic seconds
        self._failed: dict[tuple[str, int], tuple[Fingerprint, float]] = {}
        self._lock = threading.RLock()  # held for moments, around everything below
        self._statuses: dict[tuple[str, int], VersionStatus] = {}
        self._loaded: dict[str, dict[int, LoadedVersion]] = {}
        self._labels: dict[str, dict[str, int]] = {}

    # Requests

    @contextlib.contextmanager
    def using(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[LoadedVersion]:
        """Yields a loaded version of a model, which is not closed before the context ends.

        Leaving the context may close the version, which takes time: enter it in a worker thread.

        Args:
            name: Name of the model.
            version: Number of the version. `None` means the newest.
            label: Label of the version, instead of its number.

        Raises:
            StatusError: NOT_FOUND if the version is not loaded; INVALID_ARGUMENT if the label is not assigned.
        """
        with self._lock:
            loaded = self.find(name, version, label)
            loaded.users += 1
        try:
            yield loaded
        finally:
            self._release(loaded)

    def find(self, name: str, version: int | None = None, label: str | None = None) -> LoadedVersion:
        """Returns a loaded version for its description. It may be closed at any time; see ``using``."""
        if label is not None:
            if label not in self._labels.get(name, {}):
                raise invalid(f"Unrecognized servable version label: {label}")
            version = self._labels[name][label]
        with self._lock:
            versions = self._loaded.get(name, {})
            found = versions.get(max(versions, default=0) if version is None else version)
        if found is None:
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise StatusError(Code.NOT_FOUND, f"Servable not found for request: {wanted}")
        return found

    def status(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """Returns the states of a model's versions, newest first.

        Args:
            name: Name of the model.
            version: Number of the only version to return.

        Raises:
            StatusError: NOT_FOUND if there is no such version.
        """
        with self._lock:
            found = [
                each for (model, _), each in self._statuses.items() if model == name and version in (None, each.version)
            ]
        if not found:
            wanted = "any versions" if version is None else f"version {version}"
            raise StatusError(Code.NOT_FOUND, f"Could not find {wanted} of model {name}")
        return sorted(found, reverse=True)

    def failed(self) -> list[tuple[str, int]]:
        """Returns name and number of every version whose last attempt to load failed."""
        return sorted([*self._failed])

    def available(self) -> list[tuple[str, int]]:
        """Returns name and number of every version that answers requests, sorted."""
        with self._lock:
            return sorted((name, version) for name, versions in self._loaded.items() for version in versions)

    # Changes

    def start(self) -> None:
        """Loads every wanted version, and assigns the labels, also those of versions that cannot be loaded yet."""
        configs = self._configs()
        self.poll()
        available = set(self.available())
        for config in configs:
            for label, version in config.labels.items():
                if (config.name, version) not in available:
                    logger.error("Model %s: label %s has 404 until version %d loads", config.name, label, version)
        self._labels = {config.name: dict(config.labels) for config in configs}

    def poll(self) -> None:
        """Loads new versions and unloads removed versions. If a folder is missing, its versions stay loaded."""
        with self._changing:
            try:
                configs = self._configs()
            except OSError as error:
                logger.warning("Cannot read the folder of the models: %s. Loaded versions stay loaded.", error)
                return
            if not configs and self.available():
                logger.warning("The folder of the models is empty. Loaded versions stay loaded. Is its volume mounted?")
                return
            self._update(configs)

    def close(self) -> bool:
        """Prevents further loads, and unloads every version. Waits a second for a running poll.

        Returns:
            `False` if a version is still being loaded, which cannot be interrupted.
        """
        self._is_closing = True
        if is_idle := self._changing.acquire(timeout=1.0):
            for name, version in self.available():
                self._unload(name, version)
            self._changing.release()
        return is_idle

    def _update(self, configs: list[ServedModel]) -> None:
        """Loads and unloads versions."""
        for config in configs:
            try:
                folders = version_folders(config.base_path)
            except OSError as error:  # the file system may be unavailable for a moment
                logger.warning("Model %s: cannot read %s: %s", config.name, config.base_path, error)
                continue
            self._update_model(config.name, folders, config.policy)
        for name in {name for name, _ in [*self.available(), *self._failed]} - {config.name for config in configs}:
            self._update_model(name, {}, Latest())

    def _update_model(self, name: str, folders: dict[int, Path], policy: Latest | Specific) -> None:
        """Loads the chosen versions. If none of the newest can be loaded and no version serves, loads an older one."""
        wanted = policy.choose(folders)
        for version in sorted(wanted, reverse=True):
            self._try_to_load(name, version, folders[version])
        older = sorted(set(folders) - wanted, reverse=True) if isinstance(policy, Latest) else []
        while older and not self._serving(name) & set(folders):
            self._try_to_load(name, older[0], folders[older[0]])
            wanted = wanted | {older.pop(0)}
        if self._serving(name) & wanted or not wanted:
            for version in self._serving(name) - wanted:
                self._unload(name, version)
        self._failed = {key: each for key, each in self._failed.items() if key[0] != name or key[1] in folders}

    def _serving(self, name: str) -> set[int]:
        return {version for model, version in self.available() if model == name}

    def _try_to_load(self, name: str, version: int, folder: Path) -> None:
        """Loads a version, but not during the pause after a failed attempt.

        If the files of the version have changed, as during a copy, there is no pause. Attempts never end, because the
        cause may have been a temporary lack of memory.
        """
        if version in self._serving(name) or self._is_closing:
            return
        fingerprint = _fingerprint(folder)
        failed_files, retry_at = self._failed.get((name, version), (None, 0.0))
        if failed_files == fingerprint and time.monotonic() < retry_at:
            return
        self._set_state(name, version, State.LOADING)
        logger.info("Model %s version %d is being loaded", name, version)
        started = time.perf_counter()
        try:
            servable = self._load(folder)
        except Exception as error:  # of any type: a model that cannot be loaded must not prevent loading other models
            failed = _as_status(error)
            logger.error("Model %s version %d could not be loaded: %s", name, version, failed)
            self._failed[name, version] = fingerprint, time.monotonic() + self._retry_seconds
            self._set_state(name, version, State.END, failed.code, failed.message)
            return
        self._failed.pop((name, version), None)
        with self._lock:
            self._loaded.setdefault(name, {})[version] = LoadedVersion(name, version, folder, servable)
        self._set_state(name, version, State.AVAILABLE)
        logger.info("Model %s version %d loaded in %.1f s", name, version, time.perf_counter() - started)

    def _unload(self, name: str, version: int) -> None:
        """Hides a version from new requests. The last request that uses it closes it."""
        self._set_state(name, version, State.UNLOADING)
        with self._lock:
            loaded = self._loaded[name].pop(version)
        self._release(loaded)

    def _release(self, loaded: LoadedVersion) -> None:
        """Ends one use of a version. The end of its last use closes it."""
        with self._lock:
            loaded.users -= 1
            if loaded.users:
                return
        loaded.servable.close()
        gc.collect()  # graphs have reference cycles: several could stay in memory until the next automatic collection
        with self._lock:
            status = self._statuses[loaded.name, loaded.version]
            if status.state is State.UNLOADING:  # else this number is being loaded again
                self._statuses[loaded.name, loaded.version] = status._replace(state=State.END)
        _return_memory()
        logger.info("Model %s version %d unloaded", loaded.name, loaded.version)

    def _set_state(self, name: str, version: int, state: State, code: Code = Code.OK, message: str = "") -> None:
        with self._lock:
            self._statuses[name, version] = VersionStatus(version, state, code, message)


def _as_status(error: Exception) -> StatusError:
    """Returns ``error`` as a status."""
    if isinstance(error, StatusError):
        return error
    codes = {MemoryError: Code.RESOURCE_EXHAUSTED, OSError: Code.NOT_FOUND, Exception: Code.INTERNAL}
    code = next(code for kind, code in codes.items() if isinstance(error, kind))
    return StatusError(code, f"{type(error).__name__}: {error}")


def _return_memory() -> None:
    """Makes glibc return free memory to the system. By default, glibc keeps free memory between blocks in use."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def kept_up_to_date(repository: Repository, seconds: float) -> Iterator[None]:
    """Polls ``repository`` and returns free memory in threads while the context lasts. The last poll may end later.

    Args:
        repository: The models.
        seconds: Pause between two polls. 0 disables polling, but not the return of memory.
    """
    stopped = threading.Event()

    def repeat(action: Callable[[], None], pause: float | None) -> None:
        while not stopped.wait(pause):
            try:
                action()
            except Exception:  # a defect must not end the polling
                logger.exception("Polling failed")

    for action, pause in ((repository.poll, seconds or None), (_return_memory, RETURN_MEMORY_SECONDS)):
        threading.Thread(target=repeat, args=(action, pause)).start()
    try:
        yield
    finally:
        stopped.set()


def _fingerprint(folder: Path) -> Fingerprint:
    """Returns path, size and modification time of each file in ``folder``; nothing if a file vanishes meanwhile."""
    files = ((path, path.stat()) for path in folder.rglob("*"))
    with contextlib.suppress(OSError):
        return frozenset((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in files)
    return frozenset()
