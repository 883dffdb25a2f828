"""Bulk translation: lines of text in, JSON lines out, around an exported model that every worker loads once.

    lines -> without the empty ones -> batches -> Translator.translate -> records -> JSON lines

The order of a file's lines is no part of a Beam collection, so each record carries its source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, RunInference

import nmt_keras
from nmt_keras.translation.exported import ServedTranslator
from nmt_keras.translation.translator import Translator


class TranslatedLine(NamedTuple):
    """A line of the input and its translation: what is written, one JSON object each."""

    text: str
    translation: str
    score: float  # nats per token: what hypotheses are ranked by
    log_prob: float  # nats, END included
    truncated: bool  # whether the line was longer than the model reads, so that its rest is not translated


class TranslatorHandler(ModelHandler[str, TranslatedLine, Translator]):
    """Loads and calls a translator for Beam's RunInference, which batches, shares it within a process, and measures.

    Args:
        path: an exported version, a folder of versions or a run directory, as ``nmt_keras.load`` takes them; on a
            cluster every worker must be able to read it.
        batch_size: sentences that are translated together, at the most.
        greedy: whether an export is asked for greedy translations instead of the best that its beam finds, which it
            has whatever it was exported with. A run searches as its recipe says.
    """

    def __init__(self, path: str, batch_size: int, greedy: bool = False):
        super().__init__(min_batch_size=1, max_batch_size=batch_size)
        self._path, self._greedy = path, greedy

    def load_model(self) -> Translator:
        """The translator; called once in each process."""
        return nmt_keras.load(self._path)

    def run_inference(
        self, batch: Sequence[str], model: Translator, inference_args: dict[str, Any] | None = None
    ) -> Iterable[TranslatedLine]:
        """The translations of ``batch``, in its order."""
        lines = list(batch)
        if isinstance(model, ServedTranslator) and not self._greedy:
            best = [found[0] for found in model.translate_nbest(lines, batch_size=len(lines))]
        else:
            best = model.translate(lines, batch_size=len(lines))
        for text, found in zip(lines, best, strict=True):
            yield TranslatedLine(text, found.text, found.score, found.log_prob, found.truncated)


class TranslateLines(beam.PTransform):
    """Lines to TranslatedLines; empty lines are left out. Counts lines and truncated ones (metrics ``translation``).

    Args:
        model: see TranslatorHandler.
        batch_size: sentences that are translated together, at the most.
        greedy: see TranslatorHandler.
    """

    def __init__(self, model: str, batch_size: int = 64, greedy: bool = False):
        super().__init__()
        if batch_size < 1:
            raise ValueError(f"batch_size: expected 1 or more, received {batch_size}.")
        self._handler = TranslatorHandler(model, batch_size, greedy)

    def expand(self, lines: beam.PCollection) -> beam.PCollection:
        """The translated lines."""
        return (
            lines
            | "Strip" >> beam.Map(str.strip)
            | "LeaveOutEmpty" >> beam.Filter(bool)
            | "Translate" >> RunInference(self._handler)
            | "Count" >> beam.Map(_count)
        )


def _count(line: TranslatedLine) -> TranslatedLine:
    Metrics.counter("translation", "lines").inc()
    if line.truncated:
        Metrics.counter("translation", "truncated").inc()
    return line


def translate_files(
    source: str, output: str, model: str, batch_size: int, options: list[str], greedy: bool = False
) -> dict[str, int]:
    """Runs the pipeline to its end.

    Args:
        source: files of UTF-8 text, a sentence per line; a pattern like ``corpus/*.txt``; compressed ones are unpacked.
        output: prefix of the JSON lines files, ``OUTPUT-00000-of-00003.jsonl``. They appear when all is done.
        model: see TranslatorHandler.
        batch_size: sentences that are translated together, at the most.
        options: Beam's own, such as ``--runner=FlinkRunner``; none runs on this machine.
        greedy: see TranslatorHandler.

    Returns:
        The counters: ``lines``, ``truncated``.
    """
    pipeline = beam.Pipeline(argv=options)
    (
        pipeline
        | "Read" >> beam.io.ReadFromText(source)
        | TranslateLines(model, batch_size, greedy)
        | "Format" >> beam.Map(to_json)
        | "Write" >> beam.io.WriteToText(output, file_name_suffix=".jsonl")
    )
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query(beam.metrics.MetricsFilter().with_namespace("translation"))["counters"]
    return {"lines": 0, "truncated": 0} | {each.key.metric.name: each.result for each in counters}


def to_json(line: TranslatedLine) -> str:
    """A record as one line of JSON."""
    return json.dumps(line._asdict(), ensure_ascii=False)
