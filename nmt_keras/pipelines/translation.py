"""Bulk translation from lines of text to JSON lines. Each worker process loads the exported model once.

    lines -> drop empty lines -> batches -> Translator.translate -> records -> JSON lines

Beam does not preserve the order of lines, so each record contains its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.ml.inference.base import ModelHandler, RunInference

import nmt_keras
from nmt_keras.config import require
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.translator import Translator

NAMESPACE = "translation"


class TranslatedLine(NamedTuple):
    """An input line and its translation, written as one JSON object."""

    text: str
    translation: str
    score: float  # nats per token; hypotheses are ranked by it
    log_prob: float  # nats, END included
    truncated: bool  # True if the line exceeded the length limit; the rest is not translated


class TranslatorHandler(ModelHandler[str, TranslatedLine, Translator]):
    """Loads and calls a translator for Beam's RunInference.

    RunInference forms batches, shares the translator within a process, and collects metrics.

    Args:
        path: Exported version, folder of versions or run directory; see ``nmt_keras.load``. Every worker must be able
            to read it.
        batch_size: Maximum number of sentences in a batch.
        greedy: If ``True``, uses the greedy search of an export, else its beam search. A run directory always uses the
            search of its recipe.
    """

    def __init__(self, path: str, batch_size: int, greedy: bool = False):
        super().__init__(min_batch_size=1, max_batch_size=batch_size)
        self._path, self._greedy = path, greedy

    def load_model(self) -> Translator:
        """Returns the translator. Called once per process."""
        return nmt_keras.load(self._path)

    def run_inference(
        self, batch: Sequence[str], model: Translator, inference_args: dict[str, Any] | None = None
    ) -> Iterable[TranslatedLine]:
        """Yields the translations of ``batch`` in order and counts them."""
        if isinstance(model, ServedTranslator) and not self._greedy:
            best = [found[0] for found in model.translate_nbest(batch, batch_size=len(batch))]
        else:
            best = model.translate(batch, batch_size=len(batch))
        Metrics.counter(NAMESPACE, "lines").inc(len(best))
        Metrics.counter(NAMESPACE, "truncated").inc(sum(found.truncated for found in best))
        for text, found in zip(batch, best, strict=True):
            yield TranslatedLine(text, found.text, found.score, found.log_prob, found.truncated)


def translate_files(
    source: str, output: str, model: str, batch_size: int, options: list[str], greedy: bool = False
) -> dict[str, int]:
    """Runs the pipeline to completion. Empty lines are skipped.

    Args:
        source: Path or pattern, such as ``corpus/*.txt``, of UTF-8 files with one sentence per line. Compressed files
            are decompressed.
        output: Prefix of the JSON lines files ``OUTPUT-00000-of-00003.jsonl``. They appear when the pipeline ends.
        model: See ``TranslatorHandler``.
        batch_size: Maximum number of sentences in a batch.
        options: Options of Beam, such as ``--runner=FlinkRunner``. If empty, the pipeline runs on this machine.
        greedy: See ``TranslatorHandler``.

    Returns:
        The numbers of translated ``lines`` and of ``truncated`` ones.
    """
    require(batch_size >= 1, "batch_size", "1 or more", batch_size)
    pipeline = beam.Pipeline(argv=options)
    (
        pipeline
        | "Read" >> beam.io.ReadFromText(source)
        | "Strip" >> beam.Map(str.strip)
        | "SkipEmpty" >> beam.Filter(bool)
        | "Translate" >> RunInference(TranslatorHandler(model, batch_size, greedy))
        | "Format" >> beam.Map(lambda line: json.dumps(line._asdict(), ensure_ascii=False))
        | "Write" >> beam.io.WriteToText(output, file_name_suffix=".jsonl")
    )
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {"lines": 0, "truncated": 0} | {each.key.metric.name: each.result for each in counters}
