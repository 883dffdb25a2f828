"""The machine, date and library versions of a measurement, its processes and its printed result."""

import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nmt_keras.corpus import Pair, evaluation_pairs, read_pairs, split_pairs
from nmt_keras.corpus.split import Part

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
"""Instructions of a processor that a measurement reports, as ``CPU_INFO`` names them."""
CPU_INFO = "/proc/cpuinfo"


def machine(libraries: Sequence[str] = ("tensorflow", "tensorflow-text", "keras")) -> dict[str, Any]:
    """Returns the date, processor, cores, load average, setting of large pages, and library versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": field(CPU_INFO, r"^model name\s*:(.*)") or platform.processor(),
        "flags": [flag for flag in FLAGS if flag in field(CPU_INFO, r"^flags\s*:(.*)").split()],
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        # when the kernel uses large pages of memory: always, madvise or never
        "transparent_hugepages": field("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(.*)\]"),
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
    arguments = (Path(each).name if os.path.isabs(each) else each for each in sys.argv[1:])  # without folders
    command = " ".join([f"python -m {module.name if module else sys.argv[0]}", *arguments])
    print(json.dumps({**before, "command": command, **found, "shown": shown}, indent=2, ensure_ascii=False))


def spanish_english(path: str | Path) -> dict[Part, list[Pair]]:
    """Returns the benchmark split of the Spanish-English corpus in a file, with at most 5,000 test pairs."""
    split = split_pairs(read_pairs(Path(path), source_column=1, target_column=0).pairs, key_side="target")
    return {**split, "test": list(evaluation_pairs(split["test"], key_side="target"))}


def output_of(command: Sequence[str], **options: Any) -> str:
    """Runs a command with options of ``subprocess.run``. Returns its output. Raises SystemExit if it fails."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, text=True, check=False, **(pipes | options))
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout or '')[-4000:]}")
    return done.stdout or ""


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of a module in a new process, which imports the module. Returns its result."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def field(path: str, pattern: str) -> str:
    """Returns what the group of ``pattern`` matches first in a file of the kernel. Empty if unknown."""
    file = Path(path)
    found = re.search(pattern, file.read_text() if file.exists() else "", re.MULTILINE)
    return found[1].strip() if found else ""
