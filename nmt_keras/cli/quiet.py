"""TensorFlow imported in two thirds of the time, and without the lines about GPUs which a machine does not have."""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

UNUSED = ("matplotlib", "sklearn")
"""What Keras imports where it is installed, for parts that no command calls (its pictures, its wrappers for
scikit-learn), and which then say that it is missing. Who else needs a package imports it later, as ever."""


def import_tensorflow(threads: int | None = None) -> None:
    """Imports TensorFlow and lets it look for devices; what it logs meanwhile is shown only if that fails.

    Several of these lines come before any setting is read. Whoever sets TF_CPP_MIN_LOG_LEVEL wants them, and sees all.

    Args:
        threads: within one operation; None, or TF_NUM_INTRAOP_THREADS in the environment, leaves it to TensorFlow.
    """
    if "tensorflow" in sys.modules:
        return

    def imported() -> ModuleType:
        with _without(UNUSED), _no_garbage_collected():
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
def _without(packages: Sequence[str]) -> Iterator[None]:
    """Hides packages from whoever imports them, as on a machine that has none of them."""
    hidden = [name for name in packages if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Spares the collector what is made within: modules, which stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


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
