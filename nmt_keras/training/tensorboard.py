"""What TensorBoard shows of a run: the rows of its log, a few translations and their alignments, a profile.

Written with TensorFlow's own summary operations; the package ``tensorboard`` is needed only where one looks.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import tensorflow as tf

from nmt_keras.corpus import Pair
from nmt_keras.translation.translator import Translator

FIRST_PROFILED = 10
"""Updates that pass before a profile begins: the first ones compile, and fill caches."""

DATA_CLASSES = {"scalars": "DATA_CLASS_SCALAR", "text": "DATA_CLASS_TENSOR", "images": "DATA_CLASS_BLOB_SEQUENCE"}
"""How TensorBoard keeps what each of its plugins reads."""


class TensorBoardCallback:
    """Writes the rows of a log as scalars; and at each validation what the model makes of a few sentences.

    Args:
        folder: the log directory to give TensorBoard.
        translator: translates with the model as it is.
        pairs: sentences whose translations are written beside their references, with their alignments as pictures.
    """

    def __init__(self, folder: Path, translator: Translator, pairs: Sequence[Pair]):
        self._writer = tf.summary.create_file_writer(str(folder))
        self._translator, self._pairs = translator, pairs

    def observe(self, row: Mapping[str, float]) -> None:
        """Takes a row of the log: a validation's if it has a ``valid_loss``."""
        validated = "valid_loss" in row
        with self._writer.as_default(step=int(row["step"])):
            for name in sorted(row.keys() - {"step", "epoch"}):
                part = "validation" if validated else "training"
                _write(f"{part}/{name}", tf.constant(row[name], tf.float32), "scalars")
            if validated:
                self._write_translations()
        self._writer.flush()

    def _write_translations(self) -> None:
        from nmt_keras.plotting import alignment_heatmap  # matplotlib takes half a second, which most commands can save

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
    """Writes a tensor in the form that a plugin of TensorBoard reads."""
    kind = tf.compat.v1.SummaryMetadata
    metadata = kind(plugin_data=kind.PluginData(plugin_name=plugin), data_class=DATA_CLASSES[plugin])
    tf.summary.write(tag, value, metadata=metadata)


class Profiler:
    """Records a number of updates with TensorFlow's profiler; leaving its context ends a profile that is under way.

    Args:
        folder: the log directory to give TensorBoard.
        updates: how many to record, after the first ``FIRST_PROFILED``; 0 records nothing.
    """

    def __init__(self, folder: Path, updates: int):
        self._folder, self._updates, self._seen = folder, updates, 0

    def count(self) -> None:
        """Is told of each update."""
        self._seen += 1
        if not self._updates:
            return
        if self._seen == FIRST_PROFILED:
            tf.profiler.experimental.start(str(self._folder))
        elif self._seen == FIRST_PROFILED + self._updates:
            tf.profiler.experimental.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._updates and FIRST_PROFILED <= self._seen < FIRST_PROFILED + self._updates:
            tf.profiler.experimental.stop()
