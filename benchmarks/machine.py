"""The machine, date and library versions of a measurement, its processes and its printed result."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple


def machine(libraries: Sequence[str] = ("tensorflow", "tensorflow-text", "keras")) -> dict[str, Any]:
    """Returns the date, processor, cores, load average and library versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in libraries},
    }


def print_result(
    before: Mapping[str, Any], found: Mapping[str, Any], *shown: str | Sequence[Mapping[str, Any]]
) -> None:
    """Prints a result as JSON.

    Args:
        before: The machine before the measurement.
        found: Fields of the result.
        shown: Paragraphs and tables for the documentation. ``benchmarks.measured`` describes them.
    """
    module = sys.modules["__main__"].__spec__
    command = " ".join([f"python -m {module.name if module else sys.argv[0]}", *sys.argv[1:]])
    print(json.dumps({**before, "command": command, **found, "shown": shown}, indent=2, ensure_ascii=False))


def output_of(command: Sequence[str], **options: Any) -> str:
    """Runs a command with options of ``subprocess.run``. Returns its output. Raises SystemExit if it fails."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, text=True, check=False, **(pipes | options))
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout or '')[-4000:]}")
    return done.stdout or ""


def processor() -> str:
    """Returns the processor's model name."""
    description = Path("/proc/cpuinfo")
    if description.exists():
        for line in description.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


class ProcessorTime(NamedTuple):
    """Seconds of all cores since the machine started."""

    total: float
    stolen: float  # taken by other virtual machines

    @classmethod
    def now(cls) -> ProcessorTime:
        """Reads /proc/stat. Without that file, both are 0."""
        statistics = Path("/proc/stat")
        if not statistics.exists():
            return cls(0.0, 0.0)
        ticks = [int(each) for each in statistics.read_text().split("\n", 1)[0].split()[1:9]]
        return cls(sum(ticks) / os.sysconf("SC_CLK_TCK"), ticks[7] / os.sysconf("SC_CLK_TCK"))


def stolen_percent(since: ProcessorTime) -> float:
    """Returns the percentage of all cores' time since ``since`` that other virtual machines took."""
    now = ProcessorTime.now()
    return round(100.0 * (now.stolen - since.stolen) / max(now.total - since.total, 1e-9), 1)
