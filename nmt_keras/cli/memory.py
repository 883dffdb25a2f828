"""Settings that make malloc keep freed memory. With them, a training step takes a third less time."""

from __future__ import annotations

import os
import platform
import sys
from typing import NoReturn

MALLOC = (
    "glibc.malloc.hugetlb=1:"  # pages of 2 MiB
    "glibc.malloc.mmap_threshold=1073741824:"  # blocks of less than 1 GiB are allocated on the heap
    "glibc.malloc.trim_threshold=8589934592:"  # the heap keeps up to 8 GiB of freed memory
    "glibc.malloc.arena_max=1"  # a single heap
)


def keep_memory() -> None:
    """Restarts this process with ``MALLOC`` in its environment, because glibc reads these settings only at start-up.

    A training step allocates and frees hundreds of megabytes. By default, glibc returns them to the system each time,
    and page faults take a third of the step's time. Does nothing if GLIBC_TUNABLES is set, or if the C library is not
    glibc.
    """
    if platform.libc_ver()[0] == "glibc" and "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = MALLOC
        restart()


def restart() -> NoReturn:
    """Replaces this process by a new one with the same command and environment."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
