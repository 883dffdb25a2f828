"""XLA's persistent cache: training steps that were compiled by an earlier process, stored in a folder of the user.

Loading a step takes a quarter of the time of compiling it (docs/speed.md). XLA finds an entry by its computation.
Machine code also depends on TensorFlow's version, the processor, the number of threads and XLA's flags. The name of the
folder is a hash of these.
"""

import hashlib
import os
import stat
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nmt_keras.cores import available_cores
from nmt_keras.io.files import is_abandoned

SWITCH = "NMT_COMPILATION_CACHE"
"""Environment variable. The value ``off`` disables the cache."""

FLAGS, DIRECTORY = "TF_XLA_FLAGS", "--tf_xla_persistent_cache_directory"

LARGEST = 2**30
"""Maximum size at a start, in bytes. In a larger cache, entries older than an hour are removed."""

PROCESSOR = Path("/proc/cpuinfo")

DRIVER = Path("/proc/driver/nvidia/version")
"""File of a machine with an NVIDIA driver. The key describes no GPU, so compiled steps are not kept there."""


def use_compilation_cache(say: Callable[[str], None]) -> Path | None:
    """Enables the cache. Call this before TensorFlow is imported.

    Returns:
        The folder of the cache. ``None`` if the system is not Linux or has an NVIDIA driver, if the environment
        disables the cache or names another one, or if the folder cannot be used. Only the last case prints a message.
    """
    flags = os.environ.get(FLAGS, "")
    if sys.platform != "linux" or DRIVER.exists() or os.environ.get(SWITCH) == "off" or DIRECTORY in flags:
        return None
    root = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "nmt_keras"
    try:
        if not root.is_absolute() or len(str(root).split()) > 1:
            raise OSError("expected an absolute path without spaces")
        root.parent.mkdir(parents=True, exist_ok=True)
        _make_own(root)
        if sum(entry.lstat().st_size for entry in root.rglob("*")) > LARGEST:
            for entry in filter(Path.is_file, root.rglob("*")):
                if is_abandoned(entry):  # other processes may compile into the same folders
                    entry.unlink()
        folder = root / _key()
        _make_own(folder)
    except (OSError, PackageNotFoundError) as error:
        reason = getattr(error, "strerror", None) or error
        say(f"{root}: compiled training steps are not kept for the next start; {reason}.")
        return None
    os.environ[FLAGS] = f"{flags} {DIRECTORY}={folder}".lstrip()
    return folder


def _key() -> str:
    """Returns a hash of everything that compiled code depends on, except the computation."""
    names = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")  # the last two on ARM
    lines = PROCESSOR.read_text().splitlines()
    processor = sorted({line for line in lines if line.startswith(names)})
    settings = [os.environ.get(name) for name in ("TF_NUM_INTRAOP_THREADS", "XLA_FLAGS", FLAGS)]
    facts = version("tensorflow"), processor, len(available_cores()), settings
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _make_own(folder: Path) -> None:
    """Creates a folder for this user alone, because XLA executes the code in it.

    Raises:
        OSError: other users have access, or the folder cannot be written.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        mode = stat.filemode(found.st_mode)
        raise OSError(f"expected a folder of user {os.getuid()} with mode drwx------, received {found.st_uid}, {mode}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError("cannot be written")
