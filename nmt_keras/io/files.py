"""File access: written files survive a power cut, and errors name the file and the remedy.

One rule holds for every command that writes:

- A file is written under a private temporary name, synced to the disk and renamed: ``write_whole``, ``replacing``.
- A folder whose files belong together has one writer at a time. A second process fails at once if the work is long
  (``sole_writer``), and waits if it is short (``locked``).
- Leftovers of killed processes are removed by the next writer of the same file or folder: under its lock, or if they
  have not changed for an hour (``is_abandoned``).
"""

import errno
import functools
import glob
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import NAMESPACE_URL, uuid4, uuid5

import portalocker

from nmt_keras.io.errors import remedy, require, require_shallow
from nmt_keras.version import VERSION

PARTIAL = ".partial"
"""Suffix of files that are being written."""

ABANDONED_AFTER = 3600.0
"""Seconds without a change after which a partial file or folder is considered abandoned by a killed process."""


SYSTEM_REASONS = frozenset(map(os.strerror, errno.errorcode))
"""Messages of the operating system's errors."""


@contextmanager
def writing(path: Path, lost: str = "") -> Iterator[None]:
    """Replaces an error of the system, which often names no file, with the error that ``unwritable`` returns.

    TensorFlow reports such an error as an ``OpError`` with the system's reason at the end of its message.

    Args:
        path: The file or folder.
        lost: Sentence that states what is lost; empty by default.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not from the system, so it has its own message
            raise
        raise unwritable(path, error.strerror or str(error), lost) from error
    except Exception as error:
        message = str(getattr(error, "message", ""))  # of an OpError; this module does not import TensorFlow
        if _system_reason(message) is None:
            raise
        raise unwritable(path, message, lost) from error


def _system_reason(message: str) -> str | None:
    """Returns the system's reason in TensorFlow's message "{{NODE}} FILE; REASON [Op:OPERATION]"; ``None`` if absent.

    Only messages of operations that run eagerly name them.
    """
    reason = message.rpartition("; ")[2].partition(" [Op:")[0].rstrip(".")
    return reason if reason in SYSTEM_REASONS else None


def described(error: Exception) -> str:
    """Returns the message of an error. If the system raised it, adds what to do."""
    reason = error.strerror if isinstance(error, OSError) and error.errno else _system_reason(str(error))
    return f"{error}. {remedy(reason)}." if reason else str(error)


def unwritable(path: str | Path, reason: str, lost: str = "") -> OSError:
    """Returns an error that states ``path``, the reason, and the remedy. On a full disk, it states the free space.

    Args:
        path: The file or folder. If it has a scheme, such as gs://, the free space is omitted.
        reason: The reason, without a full stop, or TensorFlow's message, of which only the system's reason is shown.
        lost: Sentence that states what is lost; empty by default.
    """
    reason, free = _system_reason(reason) or reason, ""
    if "://" not in str(path) and remedy(reason).startswith("Make room"):
        # Path.is_dir would raise PermissionError below a folder without search permission
        folder = next(each for each in (path, *Path(path).absolute().parents) if os.path.isdir(each))
        free = f" {shutil.disk_usage(folder).free / 2**20:,.0f} MiB are free."
    return OSError(
        f"{path}: could not be written; {reason}.{free}{lost and ' '}{lost} {remedy(reason)}, then run the same "
        "command."
    )


def make_folder(folder: Path) -> None:
    """Creates a folder and its missing parents. After the call, they survive a power cut.

    Raises:
        OSError: the folder cannot be created.
        ValueError: the path is a URL, such as gs://bucket/runs, which would become a folder named "gs:".
    """
    require(
        not re.match(r"[A-Za-z][\w+.-]+:/", str(folder)),
        str(folder),
        "a folder on a disk",
        "a URL",
        "Mount the bucket, or pass a local folder and copy the result from there.",
    )
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    sync([each.parent for each in new])


def make_writable_folder(folder: Path) -> None:
    """Creates a folder if it is missing. Raises OSError if files cannot be written there."""
    try:
        make_folder(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"{folder}: expected a folder that can be written; {reason}. {remedy(reason)}.") from error


def literal(path: Path) -> Path:
    """Returns the path for TensorFlow to use: one through a link if it has special characters.

    TensorFlow takes the path of a checkpoint for a pattern, so "runs/[v2]" would not be found. It refuses names that
    are not UTF-8. The links are removed when the process ends.
    """
    special = [at for at, part in enumerate(path.parts, start=1) if re.search(r"[\[\]\\*?\ud800-\udfff]", part)]
    if not special:
        return path
    folder = Path(*path.parts[: special[-1]]).absolute()
    link = Path(_links().name, uuid5(NAMESPACE_URL, ascii(folder)).hex)
    with suppress(FileExistsError):
        link.symlink_to(folder)
    return link.joinpath(*path.parts[special[-1] :])


@functools.cache
def _links() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nmt_keras-")


def to_json(record: Any) -> str:
    """Returns strict JSON on one line. Numbers that are not finite become null, because JSON has none."""
    strict = json.loads(json.dumps(record), parse_constant=lambda _: None)
    return json.dumps(strict, ensure_ascii=False, allow_nan=False)


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file atomically, text in UTF-8. After the call, the content survives a power cut.

    If several processes write one file, the last one wins.

    Raises:
        OSError: the file cannot be written. The message names it.
    """
    with replacing(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path, lost: str = "") -> Iterator[Path]:
    """Yields the private path of a file to write. Renames the file to ``path`` if the block succeeds.

    After the block, the content survives a power cut. If the block fails, ``path`` is unchanged. An existing file keeps
    its permissions, and a link its target. For a pipe or a device, yields ``path`` itself.

    Args:
        path: The file.
        lost: Sentence that states what is lost if the file cannot be written; see ``writing``.

    Raises:
        OSError: the file cannot be written. The message names it.
    """
    with writing(path, lost):
        if path.exists() and not path.is_file():
            yield path
            return
        path = Path(os.path.realpath(path))
        partial = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
        _remove_abandoned(path)
        try:
            yield partial
            with suppress(FileNotFoundError):
                shutil.copymode(path, partial)
            sync([partial])
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync([path.parent])


class Fields(dict[str, Any]):
    """A JSON object of a file. Reading a missing field raises ValueError with the name of the file."""

    def __init__(self, fields: Iterable[tuple[str, Any]] = (), path: Path = Path()):
        super().__init__(fields)
        self.path = path

    def __missing__(self, name: str) -> NoReturn:
        raise ValueError(f"{self.path}: expected the field {name!r}, received none. Restore the file from a copy.")


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file. If there is none, raises ValueError with the name of the file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=lambda pairs: Fields(pairs, path))
        require_shallow(found)
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        raise ValueError(f"{path}: expected a JSON object; {error}. Restore the file from a copy.") from error
    require(isinstance(found, dict), str(path), "a JSON object", str(found)[:40], "Restore the file from a copy.")
    return found


def read_rows(path: Path) -> tuple[list[dict[str, float]], list[int]]:
    """Returns the rows of a training log, without an incomplete last line, and the numbers of its damaged lines.

    A warning names the damaged lines, which are skipped: the log is not needed to resume training. Returns no rows if
    there is no file.
    """
    rows, damaged = [], []
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.append({**row, "step": int(row["step"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            damaged.append(number)
    if damaged:
        warnings.warn(
            f"{path}: skipped {len(damaged)} damaged lines, the first of which is line {damaged[0]}.", stacklevel=3
        )
    return rows, damaged


def stamped(number: int) -> dict[str, Any]:
    """Returns the fields that ``require_format`` checks: a format number, and the version of this package."""
    return {"format": number, "nmt_keras": VERSION}


def require_format(path: Path, record: Mapping[str, Any], expected: Collection[int], remedy: str) -> None:
    """Raises ValueError if a file has a format that this version does not read.

    Args:
        path: The file.
        record: Its fields; see ``stamped``.
        expected: Format numbers that this version reads.
        remedy: Last sentence of the message.
    """
    found, version = record.get("format"), record.get("nmt_keras")
    if found not in expected:
        raise ValueError(
            f"{path}: expected format {' or '.join(map(str, expected))}, received {found!r}, written by "
            f"{f'nmt_keras {version}' if version else 'another version of nmt_keras'}. Use that version. {remedy}"
        )


def _remove_abandoned(path: Path) -> None:
    """Removes partial files of ``path`` that killed processes left behind."""
    for partial in path.parent.glob(f"{glob.escape(path.name)}.*{PARTIAL}"):
        with suppress(FileNotFoundError):  # another process may replace or remove it at this moment
            if is_abandoned(partial):
                partial.unlink()


def is_abandoned(path: Path) -> bool:
    """Returns ``True`` if nothing at or below ``path`` has changed for ``ABANDONED_AFTER`` seconds.

    The present time is that of the file system, because the clock of this machine may be ahead of a file server's.

    Raises:
        FileNotFoundError: the path has been removed meanwhile.
    """
    with tempfile.TemporaryFile(dir=path.parent) as probe:
        now = os.fstat(probe.fileno()).st_mtime
    last_change = max(each.stat().st_mtime for each in (path, *path.rglob("*")))
    return now - last_change > ABANDONED_AFTER


def version_folders(model_folder: Path) -> dict[int, Path]:
    """Returns the folders of a model's versions, whose names are numbers, by number.

    Versions are written under other names until they are complete. TensorFlow Serving, too, accepts leading zeros.

    Raises:
        OSError: ``model_folder`` cannot be read.
    """
    numbered = [path for path in sorted(model_folder.iterdir()) if re.fullmatch("[0-9]{1,99}", path.name)]
    return {int(path.name): path for path in numbered if int(path.name) < 2**63 and path.is_dir()}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Serialises read-modify-write access to ``path`` across processes and threads.

    Locks the folder of ``path``, so locks on two files of one folder also exclude each other. A lock file would need
    an owner and a mode, which can shut out other users of a shared folder. A file system that cannot lock folders, such
    as some network drives, provides no exclusion.
    """
    with writing(path):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            with suppress(portalocker.LockException):
                portalocker.lock(descriptor, portalocker.LockFlags.EXCLUSIVE)
            yield
        finally:
            os.close(descriptor)


@contextmanager
def sole_writer(folder: Path, name: str = "lock") -> Iterator[None]:
    """Creates ``folder`` and locks it for this process, until the context or the process ends.

    The lock is held on a file, which is removed at the end. It has no effect on file systems without locks, such as
    some network drives. Check within the context whether another process has finished the same work meanwhile.

    Args:
        folder: The folder.
        name: Name of the lock file.

    Raises:
        OSError: the folder cannot be created or written.
        ValueError: another process holds the lock.
    """
    make_writable_folder(folder)
    path = folder / name
    while True:
        file = path.open("a")
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked as error:
            file.close()
            raise ValueError(
                f"{folder}: another process is writing to this folder. Wait until it ends, stop it, or pass another "
                "folder."
            ) from error
        except portalocker.LockException:
            break  # the file system has no locks
        with suppress(FileNotFoundError):  # the previous owner may have removed the file since it was opened
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
        file.close()
    with file:
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def sync(paths: list[Path]) -> None:
    """Flushes files and folders to disk. Does nothing on file systems without fsync, such as some network drives."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
                raise
        finally:
            os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flushes a folder and everything in it to disk; see ``sync``."""
    files_first = sorted(folder.rglob("*"), key=Path.is_dir)
    sync([path for path in (*files_first, folder) if path.is_file() or path.is_dir()])
