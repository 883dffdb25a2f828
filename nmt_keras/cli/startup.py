"""Imports TensorFlow in two thirds of the usual time, without the messages of a machine without GPU.

docs/speed-history.md has the times.
"""

import gc
import logging
import os
import sys
from typing import Any

from nmt_keras.cli.cache import DRIVER
from nmt_keras.io.startup import ignore_settings_of_keras, import_quietly, keep_freed_memory

UNUSED = ("matplotlib", "sklearn")
"""Packages that Keras imports, if they are installed, for functions that no command calls."""


def import_tensorflow(threads: int | None = None) -> None:
    """Imports TensorFlow and TensorFlow Text, and initialises the devices.

    Unless TF_CPP_MIN_LOG_LEVEL is set, TensorFlow logs errors on machines with an NVIDIA driver, and only fatal errors
    on others. There, its errors are raised as exceptions, and it logs as errors that there is no GPU, and that compiled
    steps do not declare two preferences of XLA.

    Args:
        threads: Threads per operation. ``None``, or TF_NUM_INTRAOP_THREADS in the environment, leaves the number to
            TensorFlow.
    """
    if "tensorflow" in sys.modules:
        return
    keep_freed_memory()
    ignore_settings_of_keras()
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if DRIVER.exists() else "3")
    hidden: dict[str, Any] = {name: None for name in UNUSED if name not in sys.modules}
    sys.modules.update(hidden)  # None: the import fails, as if the package were not installed
    gc.disable()  # garbage collection takes a third of the import time and finds no garbage
    try:
        import_quietly("tensorflow", "tensorflow_text")  # both print
    finally:
        gc.enable()
        for name in hidden:
            del sys.modules[name]
    import tensorflow as tf

    if threads is not None and "TF_NUM_INTRAOP_THREADS" not in os.environ:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.list_physical_devices()
    if level in ("2", "3"):
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
