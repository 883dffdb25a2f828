"""XLA's persistent cache: training steps that were compiled by an earlier process, stored in a folder of the user.

XLA looks up an entry by its computation. The machine code also depends on the version of TensorFlow, the
processor, the number of threads and XLA's flags. The name of the folder is a hash of these and of this package's code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nmt_keras
from nmt_keras.cli.memory import restart

SWITCH = "NMT_COMPILATION_CACHE"
"""Environment variable. The value ``off`` disables the cache."""

FLAGS, DIRECTORY = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"

LARGEST = 2**30
"""Maximum size of all folders at a start, in bytes. The least recently used folders are removed first."""

DRIVER = Path("/proc/driver/nvidia/version")
"""File of a machine with an NVIDIA driver. The key describes no GPU, so compiled steps are not kept there."""

REJECTED = "rejected"
"""Name of the file that marks a folder whose entries XLA could not load."""


def use_compilation_cache(say: Callable[[str], None]) -> Path | None:
    """Enables the cache. Call this before TensorFlow is imported.

    Returns:
        The folder of the cache. ``None`` if the system is not Linux or has an NVIDIA driver, if the environment
        disables the cache or names another one, or if the folder cannot be used. Only the last case prints a message.
    """
    flags = os.environ.get(FLAGS, "")
    if sys.platform != "linux" or DRIVER.exists() or os.environ.get(SWITCH) == "off" or DIRECTORY in flags:
        return None
    folder = root = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "nmt_keras"
    try:
        if not root.is_absolute() or len(str(root).split()) > 1:
            raise OSError("expected an absolute path without spaces")
        folder = root / _key()
        root.parent.mkdir(parents=True, exist_ok=True)
        _make_own(root)
        _make_own(folder)
        if (folder / REJECTED).exists():
            raise OSError("entries could not be loaded. Remove the folder to try again")
        os.utime(folder)  # its last use
        _remove_oldest(root)
        _make_own(folder)  # it may have been too large itself
    except (OSError, PackageNotFoundError) as error:
        reason = getattr(error, "strerror", None) or error
        say(f"{folder}: compiled training steps are not kept for the next start; {reason}.")
        return None
    os.environ[FLAGS] = f"{flags} {DIRECTORY}={folder}".lstrip()
    return folder


def restart_without(folder: Path, error: str, loads: bool, say: Callable[[str], None]) -> None:
    """Starts the command again without the cache if ``error`` can come from the cache. Otherwise does nothing.

    If an entry could not be written, for example because the disk is full, unfinished entries are removed. If an entry
    could not be loaded, the folder is emptied and marked, so that no later training uses it.

    Args:
        folder: The folder of the cache.
        error: Message of TensorFlow's error, before the first update.
        loads: If ``True``, the folder had entries, so the error can come from one that was loaded.
        say: Prints a message.
    """
    if str(folder) in error and (".tmp" in error or not loads):
        for entry in folder.glob("*.tmp"):
            entry.unlink(missing_ok=True)
        failed = "written"
    elif loads:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # the disk may be full
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / REJECTED).touch()
        failed = "loaded"
    else:
        return
    say(f"nmt: {folder}: compiled steps could not be {failed}; restarting without the cache.")
    os.environ[SWITCH] = "off"
    os.environ[FLAGS] = os.environ[FLAGS].replace(f"{DIRECTORY}={folder}", "").rstrip()
    restart()


def _key() -> str:
    """Returns a hash of everything that compiled code depends on, except the computation."""
    facts = [version("tensorflow"), _processor(), len(os.sched_getaffinity(0))]
    facts += [os.environ.get(name) for name in ("TF_NUM_INTRAOP_THREADS", "XLA_FLAGS", FLAGS)]
    digest, package = hashlib.sha256(repr(facts).encode()), Path(nmt_keras.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:32]


def _processor() -> list[str]:
    """Returns the kinds of processors of this machine, and their features."""
    names = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")  # the last two on ARM
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return sorted({line for line in lines if line.startswith(names)})


def _make_own(folder: Path) -> None:
    """Creates a folder for this user alone, because XLA executes the code in it.

    Raises:
        OSError: other users have access, or the folder cannot be written.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        mode = stat.filemode(found.st_mode)
        raise OSError(f"expected a folder of user {os.getuid()} with mode drwx------. Received: {found.st_uid}, {mode}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError("cannot be written")


def _remove_oldest(root: Path) -> None:
    """Removes the least recently used folders, so that the others have at most ``LARGEST`` bytes together."""
    total = 0
    folders = [each for each in root.iterdir() if each.is_dir()]
    for folder in sorted(folders, key=lambda each: each.stat().st_mtime, reverse=True):
        for entry in folder.iterdir():
            with suppress(FileNotFoundError):  # another process may rename it at this moment
                total += entry.stat().st_size
        if total > LARGEST:
            shutil.rmtree(folder, ignore_errors=True)
