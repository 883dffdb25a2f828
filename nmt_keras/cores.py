"""Processor cores that this process may use."""

import os


def available_cores() -> list[int]:
    """Returns the numbers of the cores on which this process may run: a share of the machine's under ``taskset``.

    macOS has no such shares, so all cores are available there.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def use_cores(cores: list[int]) -> None:
    """Restricts the calling thread, and processes that it starts, to ``cores``. Has no effect on macOS."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
