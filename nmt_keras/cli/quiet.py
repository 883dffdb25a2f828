"""Imports TensorFlow in two thirds of the usual time, and hides log messages that mean nothing to users."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

UNUSED = ("matplotlib", "sklearn")
"""Packages that Keras imports, if they are installed, for functions that no command calls."""

NOISE = (
    "^I0000 ",
    "^WARNING: All log messages before absl::InitializeLog",
    "LOG(INFO)",  # of SentencePiece within TensorFlow Text
    "oneDNN supports DT_",
    "failed call to cuInit",  # no GPU
    "Unable to register cu",  # of cuFFT, cuDNN and cuBLAS
    "computation placer already registered",
    "cpu_aot_loader.cc",  # warns that the processor lacks features, but these are only preferences of the compiler
    "text-format tensorflow.XlaSerializedCacheEntry",  # cache entries are binary; TensorFlow tries to read text first
)
"""Patterns of log lines from native libraries that mean nothing to users and that no setting switches off."""


def import_tensorflow(threads: int | None = None, keras: bool = True) -> None:
    """Imports TensorFlow and initialises its devices. Only errors are logged, unless TF_CPP_MIN_LOG_LEVEL is set.

    Args:
        threads: Threads per operation. ``None``, or TF_NUM_INTRAOP_THREADS in the environment, leaves the number to
            TensorFlow.
        keras: If ``True``, also imports Keras and TensorFlow Text.
    """
    if "tensorflow" in sys.modules:
        return
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    unused = UNUSED if keras else (*UNUSED, "keras")
    hidden: dict[str, Any] = {name: None for name in unused if name not in sys.modules}
    sys.modules.update(hidden)  # None: the import fails, as if the package were not installed
    gc.disable()  # garbage collection takes a quarter of the import time and finds no garbage
    try:
        import tensorflow as tf
    finally:
        gc.freeze()
        gc.enable()
        for name in hidden:
            del sys.modules[name]
    if threads is not None and "TF_NUM_INTRAOP_THREADS" not in os.environ:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    if keras:
        importlib.import_module("nmt_keras.text")  # imports tensorflow_text, which logs the same messages again
    tf.config.list_physical_devices()
    if level == "2":
        logging.getLogger("tensorflow").setLevel(logging.ERROR)


@contextmanager
def noise_dropped() -> Iterator[None]:
    """Removes ``NOISE`` from the output of native code on file descriptor 2. Python's output bypasses the filter.

    The filter runs in its own process, so that it still prints the last messages of a crash. It runs in its own
    session, so that Ctrl-C does not end it. If TF_CPP_MIN_LOG_LEVEL is 0 or 1, all messages are shown.
    """
    sed = shutil.which("sed")
    if sed is None or os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2") in ("0", "1"):
        yield
        return
    sys.stderr.flush()
    usual, ours = os.dup(2), sys.stderr
    script = "".join(f"/{line}/d;" for line in NOISE)
    with subprocess.Popen([sed, "-u", script], stdin=subprocess.PIPE, stdout=usual, start_new_session=True) as filter_:
        assert filter_.stdin is not None
        os.dup2(filter_.stdin.fileno(), 2)
        # never closed, because handlers of loggers may hold it
        sys.stderr = os.fdopen(usual, "w", buffering=1, encoding=ours.encoding, errors=ours.errors)
        try:
            yield
        finally:
            os.dup2(usual, 2)
            sys.stderr.flush()
            sys.stderr = ours
