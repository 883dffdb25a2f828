"""TensorFlow imported without the lines that its native code writes about GPUs which a machine does not have."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


def import_tensorflow(threads: int | None = None) -> None:
    """Imports TensorFlow and lets it look for devices; what it logs meanwhile is shown only if that fails.

    Several of these lines come before any setting is read. Whoever sets TF_CPP_MIN_LOG_LEVEL wants them, and sees all.

    Args:
        threads: within one operation; None, or TF_NUM_INTRAOP_THREADS in the environment, leaves it to TensorFlow.
    """
    if "tensorflow" in sys.modules:
        return

    def imported() -> ModuleType:
        tensorflow = import_module("tensorflow")
        if threads is not None and "TF_NUM_INTRAOP_THREADS" not in os.environ:
            tensorflow.config.threading.set_intra_op_parallelism_threads(threads)
        return tensorflow

    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        imported()
    else:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        with _standard_error_held_back():
            tensorflow = imported()
            import_module("nmt_keras.text")  # with tensorflow_text, whose library says it once more
            tensorflow.config.list_physical_devices()
        logging.getLogger("tensorflow").setLevel(logging.ERROR)


@contextmanager
def _standard_error_held_back() -> Iterator[None]:
    """Keeps what is written to file descriptor 2, by native code too, and writes it after all if an error ends it."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        usual = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(usual, 2)
            kept.seek(0)
            sys.stderr.write(kept.read().decode("utf-8", "replace"))
            raise
        finally:
            sys.stderr.flush()
            os.dup2(usual, 2)
            os.close(usual)
