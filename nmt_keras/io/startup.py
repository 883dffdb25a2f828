"""Settings of TensorFlow that have to be made before it starts, and what it prints then."""

import contextlib
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO

from nmt_keras.io.lines import message_stream

_HIDING = threading.RLock()
"""Held while standard error is another file, because all threads share it."""


def keep_freed_memory() -> None:
    """Lets TensorFlow use freed memory again. Has an effect before TensorFlow's first operation.

    TensorFlow does this by itself where it uses oneDNN: on processors with instructions for neural networks. On others,
    each update of a training returned its memory to the system, and the system cleared it page by page: training is 1.3
    times as fast with this setting (docs/speed.md). TF_CPU_ALLOCATOR_USE_BFC=0 in the environment switches it off.
    """
    os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")


def use_tensorflow_for_keras() -> None:
    """Lets Keras 3 run on TensorFlow, whatever the environment or ``keras.json`` choose for other projects.

    Raises:
        ImportError: Keras was imported before, and runs on another backend.
    """
    if (keras := sys.modules.get("keras")) is None:
        os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "0"}
    elif (backend := keras.config.backend()) != "tensorflow":
        raise ImportError(
            f"KERAS_BACKEND: expected 'tensorflow', received {backend!r}, with which Keras was imported. Set this "
            "environment variable before Keras is imported."
        )


def ignore_settings_of_keras() -> None:
    """Lets a program use Keras's defaults instead of ``keras.json``. Has an effect before Keras is imported."""
    os.environ["KERAS_HOME"] = os.devnull
    use_tensorflow_for_keras()


@contextlib.contextmanager
def native_messages_hidden() -> Iterator[None]:
    """Hides what native code writes to standard error within the context. If the context raises an error, shows it.

    On a machine without a GPU, TensorFlow and SentencePiece print about ten lines that look like errors, such as
    "failed call to cuInit". No setting switches them off. Messages of Python are shown. If TF_CPP_MIN_LOG_LEVEL is 0 or
    1, nothing is hidden. Only one thread at a time runs such a context.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1"):
        yield
        return
    with _HIDING, _nameless_file() as hidden, message_stream(os.dup(2)) as shown:
        ours = sys.stderr
        os.dup2(hidden.fileno(), 2)
        if getattr(ours, "name", None) in ("<stderr>", 2):  # not replaced by a program
            shown.reconfigure(encoding=ours.encoding, errors=ours.errors)
            sys.stderr = shown
        try:
            yield
        except Exception:  # raised again below, after the messages that may explain it
            hidden.seek(0)
            shown.buffer.write(hidden.read())
            shown.flush()
            raise
        finally:
            os.dup2(shown.fileno(), 2)
            sys.stderr = ours


def import_quietly(*modules: str) -> None:
    """Imports modules without the messages of native code. A new process calls this before it imports anything else."""
    with native_messages_hidden():
        for module in modules:
            importlib.import_module(module)


def _nameless_file() -> IO[bytes]:
    """Returns an empty file: in memory if the system can do so, so that a read-only disk is enough."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("hidden"), "w+b")
    return tempfile.TemporaryFile()
