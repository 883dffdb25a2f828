"""A process that has TensorFlow and nothing of ours: what an export must run in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

SCRIPT = Path(__file__).with_name("run_saved_model.py")

# Runs a script with Keras and the project out of its reach, and out of TensorFlow's: importing them raises ImportError.
_WITHOUT_KERAS = (
    "import runpy, sys; sys.modules.update(keras=None, tf_keras=None, nmt_keras=None, serve=None); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)


class Request(NamedTuple):
    """What is asked of a signature: several feeds at once."""

    signature: str
    feeds: Sequence[Any]  # nests of strings, or of numbers; U+DC80 to U+DCFF in a string are raw bytes
    dtype: str = "string"


class Answered(NamedTuple):
    """What a process said of one SavedModel."""

    facts: dict[str, Any]  # as ``run_saved_model.facts`` describes them
    replies: list[list[dict[str, Any]]]  # for each request, for each of its feeds


class Answers(NamedTuple):
    """What a process said."""

    libraries: dict[str, str]  # their versions
    models: list[Answered]  # one for each folder


def ask(
    folders: Sequence[Path],
    requests: Sequence[Request],
    python: str | PathLike[str] = sys.executable,
    seconds: float = 1800.0,
) -> Answers:
    """Loads SavedModels in a process of its own, through a TF1 session on the CPU, and asks each of them ``requests``.

    Args:
        folders: saved_models/NAME/VERSION, of each.
        requests: what to ask.
        python: an interpreter that has TensorFlow and tensorflow-text.
        seconds: until the process is stopped.

    Raises:
        FileNotFoundError: there is no such interpreter.
        RuntimeError: the process ended before its last answer, or took too long; the message says at what.
    """
    job = {"folders": [str(folder.resolve()) for folder in folders], "requests": [r._asdict() for r in requests]}
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        done = subprocess.run(
            [python, "-I", "-c", _WITHOUT_KERAS, SCRIPT],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode() if isinstance(error.stdout, bytes) else ""
        where = _where(said.count("\n"), folders, requests)
        raise RuntimeError(f"{where}: expected an answer within {seconds:g} s, received none.") from error
    if done.returncode:
        number = -done.returncode
        how = signal.Signals(number).name if number > 0 else f"exit code {done.returncode}"
        where = _where(done.stdout.count("\n"), folders, requests)
        raise RuntimeError(f"{where}: the process ended with {how}. {done.stderr[-2000:].strip()}")
    lines = map(json.loads, done.stdout.splitlines())
    libraries = next(lines)
    return Answers(libraries, [Answered(next(lines), [next(lines) for _ in requests]) for _ in folders])


def _where(lines: int, folders: Sequence[Path], requests: Sequence[Request]) -> str:
    """What a process was at that had written so many lines."""
    if lines == 0:
        return "importing TensorFlow"
    model, line = divmod(lines - 1, len(requests) + 1)
    if model == len(folders):
        return "ending"
    if line == 0:
        return f"loading {folders[model]}"
    return f"{folders[model]}, signature {requests[line - 1].signature}, asked {str(requests[line - 1].feeds)[:80]}"
