"""A malloc that keeps freed memory: a training step takes a third less time."""

from __future__ import annotations

import os
import platform
import sys
from typing import NoReturn

MALLOC = (
    "glibc.malloc.hugetlb=1:"  # pages of 2 MiB
    "glibc.malloc.mmap_threshold=1073741824:"  # large blocks come from the heap ...
    "glibc.malloc.trim_threshold=8589934592:"  # ... which is kept ...
    "glibc.malloc.arena_max=1"  # ... and of which there is one
)


def keep_memory() -> None:
    """Restarts this process with a malloc that keeps freed memory. glibc reads this setting only when it starts.

    A training step allocates and frees hundreds of megabytes. If they are returned to the system each time, in pages of
    4 KiB, a third of the step's time goes into page faults. Does nothing if GLIBC_TUNABLES is set, or if the C library
    is not glibc.
    """
    if platform.libc_ver()[0] == "glibc" and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = MALLOC
        restart()


def restart() -> NoReturn:
    """Starts the command of this process again, in its place and in its environment."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
