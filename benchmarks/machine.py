"""Description of the machine, date and library versions of a measurement."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


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


def processor() -> str:
    """Returns the processor's model name."""
    description = Path("/proc/cpuinfo")
    if description.exists():
        for line in description.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
