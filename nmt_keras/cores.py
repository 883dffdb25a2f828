"""Processor cores that this process may use."""

import math
import os
from contextlib import suppress
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of CPU time per period or "max"; the period


def available_cores() -> int:
    """Returns the number of cores on which this process may run: a share of the machine's under ``taskset``.

    If the CPU time of a container is limited to that of fewer cores, returns their number. macOS has no such shares, so
    all cores are available there.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container, or no limit
        quota, period = map(int, CPU_MAX.read_text().split())
        return min(cores, math.ceil(quota / period))
    return cores
