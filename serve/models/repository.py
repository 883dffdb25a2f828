"""What is served: the versions that each model's policy asks for, the state of each, and the labels that point to them.

The folders are TensorFlow Serving's: BASE_PATH/VERSION/saved_model.pb. A SavedModel is a program that runs with the
server's rights: serve only models from a source that you trust. Each poll compares them with what is loaded. A
new version is loaded, and warmed up, before an old one is let go; an old one is let go only once another of the
versions asked for answers, and is closed when the last request that uses it is done.
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
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .model_config import ModelConfig, version_folders
from .status import Code, StatusError, invalid
from .versions import LoadedVersion, State, VersionStatus

if TYPE_CHECKING:
    from .servable import Servable

logger = logging.getLogger(__name__)

MAX_RETRY_SECONDS = 600.0
"""Longest pause before a version that failed is tried again, unless the first pause is longer."""

Fingerprint = frozenset[tuple[str, int, int]]
"""Path, bytes and time of change (ns) of every file of a version: equal when nobody has touched it."""


class _Failure(NamedTuple):
    """A version that could not be loaded."""

    fingerprint: Fingerprint
    """Of its files when it was tried."""
    pause: float
    """Seconds between this attempt and the next."""
    retry_at: float
    """Seconds of the monotonic clock."""


class Repository:
    """The models that are served.

    Args:
        configs: says which models there are; asked anew at every poll.
        load: Makes a servable of a version's folder. Any exception becomes the version's status.
        retry_seconds: Pause before a version that failed is tried again. It doubles with each attempt, up to 10
            minutes.
    """

    def __init__(
        self,
        configs: Callable[[], list[ModelConfig]],
        load: Callable[[Path], Servable],
        retry_seconds: float = 60.0,
    ) -> None:
        self._configs = configs
        self._load = load
        self._retry_seconds = retry_seconds
        self._changing = threading.Lock()  # held while versions are loaded, which takes seconds
        self._lock = threading.Lock()  # held for moments, around everything below
        self._statuses: dict[str, dict[int, VersionStatus]] = {}
        self._loaded: dict[str, dict[int, LoadedVersion]] = {}
        self._labels: dict[str, dict[str, int]] = {}
        self._failed: dict[tuple[str, int], _Failure] = {}

    # What requests ask

    @contextlib.contextmanager
    def using(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[LoadedVersion]:
        """The version of model ``name`` that answers a request for ``version``, for ``label``, or for the newest.

        It stays loaded for as long as it is used, whatever is published meanwhile.

        Raises:
            StatusError: NOT_FOUND if it is not loaded; INVALID_ARGUMENT for a label that is not assigned.
        """
        with self._lock:
            loaded = self._find(name, version, label)
            loaded.users += 1
        try:
            yield loaded
        finally:
            with self._lock:
                loaded.users -= 1
                is_last = loaded.is_retired and not loaded.users
            if is_last:
                self._close(loaded)

    def _find(self, name: str, version: int | None, label: str | None) -> LoadedVersion:
        if label is not None:
            if label not in self._labels.get(name, {}):
                raise invalid(f"Unrecognized servable version label: {label}")
            version = self._labels[name][label]
        versions = self._loaded.get(name, {})
        if version is None:
            if not versions:
                raise StatusError(Code.NOT_FOUND, f"Servable not found for request: Latest({name})")
            return versions[max(versions)]
        if version not in versions:
            raise StatusError(Code.NOT_FOUND, f"Servable not found for request: Specific({name}, {version})")
        return versions[version]

    def status(self, name: str, version: int | None = None) -> list[VersionStatus]:
        """The states of model ``name``'s versions, newest first, or of the one that is asked for.

        Raises:
            StatusError: NOT_FOUND if there is none.
        """
        with self._lock:
            statuses = self._statuses.get(name, {})
            if version is not None:
                if version not in statuses:
                    raise StatusError(Code.NOT_FOUND, f"Could not find version {version} of model {name}")
                return [statuses[version]]
            if not statuses:
                raise StatusError(Code.NOT_FOUND, f"Could not find any versions of model {name}")
            return [statuses[number] for number in sorted(statuses, reverse=True)]

    def available(self) -> list[tuple[str, int]]:
        """Every version that answers requests, by name and number."""
        with self._lock:
            return sorted((name, version) for name, versions in self._loaded.items() for version in versions)

    # What changes

    def start(self) -> None:
        """Loads every version that is asked for, then assigns the labels.

        Raises:
            StatusError: FAILED_PRECONDITION for a label of a version that could not be loaded.
        """
        self.poll()
        with self._changing:
            self._assign_labels(self._configs())

    def poll(self) -> None:
        """Loads the versions that have come and lets go of those that have gone; a model that fails stops no other."""
        with self._changing:
            self._update(self._configs())

    def reload(self, configs: list[ModelConfig]) -> None:
        """Serves ``configs`` from now on, and returns once they are loaded.

        Raises:
            StatusError: FAILED_PRECONDITION for a label of a version that is not loaded now; nothing has changed then.
                UNKNOWN for a new model of which no version could be loaded; the others are served.
        """
        with self._changing:
            self._assign_labels(configs)
            known = {name for name, _ in self.available()}
            self._configs = lambda: configs
            self._update(configs)
            missing = {config.name for config in configs} - known - {name for name, _ in self.available()}
        if missing:
            raise StatusError(Code.UNKNOWN, f"Some models did not become available: {{{', '.join(sorted(missing))}}}")

    def close(self) -> None:
        """Lets go of every version."""
        with self._changing:
            for name, version in self.available():
                self._let_go(name, version)

    def _assign_labels(self, configs: list[ModelConfig]) -> None:
        available = set(self.available())
        for config in configs:
            for version in config.labels.values():
                if (config.name, version) not in available:
                    reason = f"version {version} of model {config.name}, which is not currently available for inference"
                    raise StatusError(Code.FAILED_PRECONDITION, f"Request to assign label to {reason}")
        with self._lock:
            self._labels = {config.name: dict(config.labels) for config in configs}

    def _update(self, configs: list[ModelConfig]) -> None:
        for config in configs:
            try:
                folders = version_folders(config.base_path)
            except OSError as error:  # perhaps a file system that is away for a moment: what is loaded stays
                logger.warning("Model %s: cannot read %s: %s", config.name, config.base_path, error)
                continue
            self._update_model(config.name, folders, config.policy.choose(folders))
        for name, version in self.available():
            if name not in {config.name for config in configs}:
                self._let_go(name, version)

    def _update_model(self, name: str, folders: dict[int, Path], wanted: set[int]) -> None:
        for version in sorted(wanted, reverse=True):
            if (name, version) not in self.available():
                self._try_to_load(name, version, folders[version])
        serving = {version for model, version in self.available() if model == name}
        if serving & wanted or not wanted:
            for version in serving - wanted:
                self._let_go(name, version)
        with self._lock:
            for failed in [key for key in self._failed if key[0] == name and key[1] not in wanted]:
                del self._failed[failed]

    def _try_to_load(self, name: str, version: int, folder: Path) -> None:
        """Loads a version, unless it has failed before and the pause before the next attempt is not over.

        There is no pause if its files have changed, as during a copy. Attempts never end, because the cause may have
        been a temporary lack of memory.
        """
        fingerprint = _fingerprint(folder)
        failure = self._failed.get((name, version))
        pause = self._retry_seconds
        if failure is not None and failure.fingerprint == fingerprint:
            if time.monotonic() < failure.retry_at:
                return
            pause = max(pause, min(2 * failure.pause, MAX_RETRY_SECONDS))
        self._set_state(name, version, State.LOADING)
        started = time.perf_counter()
        try:
            servable = self._load(folder)
        except Exception as error:  # of any type: a model that cannot be loaded must not keep others from loading
            failed = _as_status(error)
            unexpected = None if failed is error else error
            logger.error("Model %s version %d could not be loaded: %s", name, version, failed, exc_info=unexpected)
            self._failed[name, version] = _Failure(fingerprint, pause, time.monotonic() + pause)
            self._set_state(name, version, State.END, failed.code, failed.message)
            return
        self._failed.pop((name, version), None)
        with self._lock:
            self._loaded.setdefault(name, {})[version] = LoadedVersion(name, version, folder, servable)
        self._set_state(name, version, State.AVAILABLE)
        logger.info("Model %s version %d loaded in %.1f s", name, version, time.perf_counter() - started)

    def _let_go(self, name: str, version: int) -> None:
        """Hides a version from new requests; the last of those under way closes it."""
        self._set_state(name, version, State.UNLOADING)
        with self._lock:
            loaded = self._loaded[name].pop(version)
            loaded.is_retired = True
            is_idle = not loaded.users
        if is_idle:
            self._close(loaded)

    def _close(self, loaded: LoadedVersion) -> None:
        try:
            loaded.servable.close()
        except Exception:  # of any type, as above
            logger.exception("Model %s version %d could not be closed", loaded.name, loaded.version)
        gc.collect()  # graphs refer to themselves: several would stay in memory until chance collects them
        with self._lock:
            is_reloaded = loaded.version in self._loaded.get(loaded.name, {})
        if not is_reloaded:
            self._set_state(loaded.name, loaded.version, State.END)
        _return_memory()
        logger.info("Model %s version %d unloaded", loaded.name, loaded.version)

    def _set_state(self, name: str, version: int, state: State, code: Code = Code.OK, message: str = "") -> None:
        with self._lock:
            self._statuses.setdefault(name, {})[version] = VersionStatus(version, state, code, message)


def _as_status(error: Exception) -> StatusError:
    """``error`` as a status."""
    if isinstance(error, StatusError):
        return error
    code = Code.RESOURCE_EXHAUSTED if isinstance(error, MemoryError) else Code.INTERNAL
    return StatusError(code, f"{type(error).__name__}: {error}")


def _return_memory() -> None:
    """Lets glibc give back what is free: it would keep a closed version's memory, in pieces too small for the next."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def kept_up_to_date(repository: Repository, seconds: float) -> Iterator[None]:
    """Polls ``repository`` every ``seconds`` in a thread of its own while the context lasts; 0 polls never."""
    stopped = threading.Event()

    def keep_polling() -> None:
        while not stopped.wait(seconds or None):
            try:
                repository.poll()
            except Exception:  # a defect must not end the polling
                logger.exception("Polling failed")

    poller = threading.Thread(target=keep_polling, name="poller")
    poller.start()
    try:
        yield
    finally:
        stopped.set()
        poller.join()


def _fingerprint(folder: Path) -> Fingerprint:
    """What changes when a file in ``folder`` does; incomplete while they come and go."""
    facts = set()
    with contextlib.suppress(OSError):
        for path in folder.rglob("*"):
            stat = path.stat()
            facts.add((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns))
    return frozenset(facts)
