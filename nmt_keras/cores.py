"""Processor cores that this process may use."""

import math
import os
import random
from contextlib import suppress
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of CPU time per period or "max"; the period


def available_cores() -> list[int]:
    """Returns the numbers of the cores on which this process may run: a share of the machine's under ``taskset``.

    If the CPU time of a container is limited to that of fewer cores, returns as many, drawn at random, so that two
    containers do not use the same ones. macOS has no such shares, so all cores are available there.
    """
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    cores = sorted(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # no container, or no limit
        quota, period = map(int, CPU_MAX.read_text().split())
        return sorted(random.Random().sample(cores, min(math.ceil(quota / period), len(cores))))
    return cores


def use_cores(cores: list[int]) -> None:
    """Restricts the calling thread, and processes that it starts, to ``cores``. Has no effect on macOS."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
