"""Callbacks for TensorBoard: write the rows of the log, a few translations with their alignments, and a profile.

The callbacks use TensorFlow's own summary operations. The package ``tensorboard`` is needed only to view the logs.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tensorflow as tf

from nmt_keras.corpus import Pair
from nmt_keras.training.trainer import Callback
from nmt_keras.translation.translator import Translator

if TYPE_CHECKING:
    from nmt_keras.training.trainer import Trainer

FIRST_PROFILED = 10
"""Number of updates before a profile begins. The first updates compile functions and fill caches."""

DATA_CLASSES = {"scalars": "DATA_CLASS_SCALAR", "text": "DATA_CLASS_TENSOR", "images": "DATA_CLASS_BLOB_SEQUENCE"}
"""Data class of each TensorBoard plugin."""


class TensorBoardCallback(Callback):
    """Writes the rows of the log as scalars. After each validation, writes the translations of a few sentences.

    Args:
        folder: TensorBoard's log directory.
        translator: Translator with the model in training.
        pairs: Pairs whose sources are translated. Each translation is written with its source, reference and alignment.
    """

    def __init__(self, folder: Path, translator: Translator, pairs: Sequence[Pair]):
        self._writer = tf.summary.create_file_writer(str(folder))
        self._translator, self._pairs = translator, pairs

    def on_log(self, row: Mapping[str, float]) -> None:
        """Writes a row, and translations if the row belongs to a validation."""
        validated = "valid_loss" in row
        kind = "validation" if validated else "training"
        with self._writer.as_default(step=int(row["step"])):
            for name in sorted(row.keys() - {"step", "epoch"}):
                _write(f"{kind}/{name}", tf.constant(row[name], tf.float32), "scalars")
            if validated:
                self._write_translations()
        self._writer.flush()

    def _write_translations(self) -> None:
        from nmt_keras.plotting import alignment_heatmap  # importing matplotlib takes half a second

        translations = self._translator.translate([pair.source for pair in self._pairs])
        for number, (pair, found) in enumerate(zip(self._pairs, translations, strict=True)):
            lines = [pair.source, pair.target, found.text]
            _write(f"translation/{number}", tf.constant([["source", "reference", "model"], lines]), "text")
            buffer = io.BytesIO()
            figure = alignment_heatmap(found.alignment, found.source_tokens, found.tokens)
            figure.savefig(buffer, format="png")
            height, width = (str(int(inches * figure.dpi)) for inches in figure.get_size_inches()[::-1])
            _write(f"alignment/{number}", tf.constant([width, height, buffer.getvalue()]), "images")


def _write(tag: str, value: tf.Tensor, plugin: str) -> None:
    """Writes a tensor for a plugin of TensorBoard."""
    kind = tf.compat.v1.SummaryMetadata
    metadata = kind(plugin_data=kind.PluginData(plugin_name=plugin), data_class=DATA_CLASSES[plugin])
    tf.summary.write(tag, value, metadata=metadata)


class ProfilerCallback(Callback):
    """Records updates with TensorFlow's profiler.

    Args:
        folder: TensorBoard's log directory.
        updates: Number of updates to record after the first ``FIRST_PROFILED``, at least 1.
    """

    def __init__(self, folder: Path, updates: int):
        self._folder, self._updates, self._seen = folder, updates, 0

    def on_update_end(self, trainer: Trainer) -> None:
        """Begins or ends the profile."""
        self._seen += 1
        if self._seen == FIRST_PROFILED:
            tf.profiler.experimental.start(str(self._folder))
        elif self._seen == FIRST_PROFILED + self._updates:
            tf.profiler.experimental.stop()

    def on_train_end(self) -> None:
        """Ends an unfinished profile."""
        if FIRST_PROFILED <= self._seen < FIRST_PROFILED + self._updates:
            tf.profiler.experimental.stop()
