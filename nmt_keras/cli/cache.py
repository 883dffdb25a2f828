"""XLA's persistent cache: training steps that were compiled by an earlier process, stored in a folder of the user.

Loading a step takes a quarter of the time of compiling it (docs/speed.md). XLA finds an entry by its computation.
Machine code also depends on TensorFlow's version, the processor, the number of threads and XLA's flags. The name of the
folder is a hash of these.
"""

import hashlib
import os
import stat
import sys
from importlib.metadata import version
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


def use_compilation_cache() -> Path | None:
    """Enables the cache. Call this before TensorFlow is imported.

    Returns:
        The folder of the cache. ``None`` if the system is not Linux or has an NVIDIA driver, if the environment
        disables the cache or names another one, if the user has no home folder, if the folder cannot be written or
        is open to other users, or if its path is relative or has spaces.
    """
    flags = os.environ.get(FLAGS, "")
    root = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nmt_keras")
    # spaces separate flags, and "~" remains if the user has no home folder
    unusable = sys.platform != "linux" or DRIVER.exists() or len(str(root).split()) > 1 or not root.is_absolute()
    if unusable or os.environ.get(SWITCH) == "off" or DIRECTORY in flags:
        return None
    folder = root / _key()
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        if not all(map(_is_own, (root, folder))):
            return None
        if sum(entry.stat().st_size for entry in root.rglob("*")) > LARGEST:
            for entry in filter(Path.is_file, root.rglob("*")):
                if is_abandoned(entry):  # other processes may compile into the same folders
                    entry.unlink()
    except OSError:
        return None
    os.environ[FLAGS] = f"{flags} {DIRECTORY}={folder}".lstrip()
    return folder


def _is_own(folder: Path) -> bool:
    """Creates a folder if it is missing. Returns whether only this user has access: XLA executes its content."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _key() -> str:
    """Returns a hash of everything that compiled code depends on, except the computation."""
    names = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")  # the last two on ARM
    processor = sorted({line for line in PROCESSOR.read_text().splitlines() if line.startswith(names)})
    settings = [os.environ.get(name) for name in ("TF_NUM_INTRAOP_THREADS", "XLA_FLAGS", FLAGS)]
    facts = version("tensorflow"), processor, available_cores(), settings
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
