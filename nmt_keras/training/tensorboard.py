"""Callbacks for TensorBoard: write the rows of the log, and a profile.

The callbacks use TensorFlow's own summary operations. The package ``tensorboard`` is needed only to view the logs.
"""

from collections.abc import Mapping
from pathlib import Path

import keras
import tensorflow as tf

FIRST_PROFILED = 10
"""Number of updates before a profile begins. The first updates compile functions and fill caches."""


class TensorBoardCallback(keras.callbacks.Callback):
    """Writes the rows of the log as scalars.

    Args:
        folder: TensorBoard's log directory.
    """

    def __init__(self, folder: Path):
        super().__init__()
        self._writer = tf.summary.create_file_writer(str(folder))

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float]) -> None:
        """Writes the row of an update that has one."""
        if logs.get("step") == batch + 1:
            self._write("training", logs)

    def on_test_end(self, logs: Mapping[str, float]) -> None:
        """Writes the row of a validation."""
        self._write("validation", logs)

    def _write(self, kind: str, row: Mapping[str, float]) -> None:
        summary = tf.compat.v1.SummaryMetadata
        metadata = summary(plugin_data=summary.PluginData(plugin_name="scalars"), data_class="DATA_CLASS_SCALAR")
        with self._writer.as_default(step=int(row["step"])):
            for name in sorted(row.keys() - {"step", "epoch"}):
                tf.summary.write(f"{kind}/{name}", tf.constant(row[name], tf.float32), metadata=metadata)
        self._writer.flush()


class ProfilerCallback(keras.callbacks.Callback):
    """Records updates with TensorFlow's profiler.

    Args:
        folder: TensorBoard's log directory.
        updates: Number of updates to record after the first ``FIRST_PROFILED``, at least 1.
    """

    def __init__(self, folder: Path, updates: int):
        super().__init__()
        self._folder, self._updates, self._seen = folder, updates, 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Begins or ends the profile."""
        self._seen += 1
        if self._seen == FIRST_PROFILED:
            tf.profiler.experimental.start(str(self._folder))
        elif self._seen == FIRST_PROFILED + self._updates:
            tf.profiler.experimental.stop()

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Ends an unfinished profile."""
        if FIRST_PROFILED <= self._seen < FIRST_PROFILED + self._updates:
            tf.profiler.experimental.stop()
