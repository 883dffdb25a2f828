"""Runs an export in a process with TensorFlow but without Keras and this package."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from nmt_keras.io.files import literal

# Runs a script without Keras and this package. Importing either raises ImportError, even if TensorFlow imports it.
_WITHOUT_KERAS = (
    "import runpy, sys; "
    "sys.modules.update(keras=None, tf_keras=None, nmt_keras=None, serve=None, nmt_keras_serve=None); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)


class Request(NamedTuple):
    """Feeds for a signature, sent concurrently."""

    signature: str
    feeds: Sequence[Any]  # nested lists of strings or numbers; U+DC80 to U+DCFF in a string are raw bytes
    dtype: str = "string"


class Answers(NamedTuple):
    """Output of the process."""

    libraries: dict[str, str]  # versions by name
    facts: dict[str, Any]  # see ``run_saved_model.facts``
    replies: list[list[dict[str, Any]]]  # a list for each request, with a reply to each of its feeds


def ask(
    folder: Path, requests: Sequence[Request], python: str | PathLike[str] = sys.executable, seconds: float = 1800.0
) -> Answers:
    """Loads a SavedModel in a new process, into a TF1 session on the CPU, and sends it ``requests``.

    Args:
        folder: ``saved_models/NAME/VERSION``.
        requests: Requests to send, in order.
        python: Interpreter with TensorFlow and tensorflow-text.
        seconds: Time limit of the process.

    Raises:
        FileNotFoundError: the interpreter does not exist.
        RuntimeError: the process failed or exceeded the time limit. The message names the step or request.
    """
    job = {"folder": str(literal(folder.resolve())), "requests": [request._asdict() for request in requests]}
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [python, "-I", "-c", _WITHOUT_KERAS, Path(__file__).with_name("run_saved_model.py")]
    try:
        done = subprocess.run(
            command, input=json.dumps(job).encode(), capture_output=True, env=environment, timeout=seconds, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        error.cmd = python  # the message names the interpreter, not the whole command
        asked = [f"request {str(one.feeds)[:80]} to signature {one.signature} of {folder}" for one in requests]
        steps = ["importing TensorFlow", f"loading {folder}", *asked, "shutdown"]
        reason = (error.stderr or b"").decode(errors="replace")[-2000:].strip()
        step = steps[(error.stdout or b"").count(b"\n")]  # the process writes one line after each step
        raise RuntimeError(f"{step}: {error} {reason}") from error
    libraries, facts, *replies = map(json.loads, done.stdout.splitlines())
    return Answers(libraries, facts, replies)
