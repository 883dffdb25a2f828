"""Prepares a corpus on many machines: the filters, shards and files of ``corpus.preparing``, to the byte.

    lines -> pairs -> not identical -> token ids -> not too long, not unlike -> shard by hash -> sorted, each once

Vocabularies are learnt beforehand, by one machine, from a part of the corpus: two million lines are enough.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import tensorflow as tf
from apache_beam.metrics import Metrics, MetricsFilter

from nmt_keras.config import FilterConfig, require
from nmt_keras.corpus.filtering import Rejection, shard_of
from nmt_keras.corpus.preparing import PAIRS_AT_ONCE, encoded
from nmt_keras.corpus.reading import Pair, parse_line
from nmt_keras.corpus.shards import EncodedPair, ShardReport, shard_name, write_record, write_shard
from nmt_keras.text import load_text

NAMESPACE = "preparing"
LINES, MALFORMED = "lines", "malformed lines"
REPORTS = "reports"


class EncodePairs(beam.DoFn):
    """Batches of lines to EncodedPairs; what is left out is counted by reason (metrics ``preparing``).

    Args:
        folder: holds ``source`` and ``target``, the texts; every worker must be able to read it.
        filters: what is left out.
        source_column, target_column: counted from 0.
    """

    def __init__(self, folder: str, filters: FilterConfig, source_column: int, target_column: int):
        super().__init__()
        self._folder, self._filters = folder, filters
        self._source_column, self._target_column = source_column, target_column

    def setup(self) -> None:
        """Loads the texts, once in each process."""
        self._texts = load_text(os.path.join(self._folder, "source")), load_text(os.path.join(self._folder, "target"))

    def process(self, lines: list[bytes]) -> Iterator[EncodedPair]:
        """The pairs that pass."""
        counts: Counter[str] = Counter()
        left_out: Counter[Rejection] = Counter()
        yield from encoded(self._pairs(lines, counts), self._texts, self._filters, left_out)
        counts.update({reason.value: count for reason, count in left_out.items()})
        for name, count in counts.items():
            Metrics.counter(NAMESPACE, name).inc(count)

    def _pairs(self, lines: Iterable[bytes], counts: Counter[str]) -> Iterator[Pair]:
        for line in lines:
            counts[LINES] += 1
            line = line.removeprefix(codecs.BOM_UTF8)
            found = parse_line(line, source_column=self._source_column, target_column=self._target_column)
            if isinstance(found, Pair):
                yield found
            else:
                counts[MALFORMED] += 1


class WriteShards(beam.PTransform):
    """EncodedPairs to shards in a folder; gives a ShardReport for each, those without pairs included.

    Args:
        folder: wherever TensorFlow can write.
        shards: files; one is held in memory at a time.
        drop_duplicates: whether equal pairs are written once.
    """

    def __init__(self, folder: str, shards: int, drop_duplicates: bool):
        super().__init__()
        self._folder, self._shards, self._drop_duplicates = folder, shards, drop_duplicates

    def expand(self, pairs: beam.PCollection) -> beam.PCollection:
        """The reports."""
        nothing: list[EncodedPair] = []
        empty = pairs.pipeline | "Shards" >> beam.Create([(number, nothing) for number in range(self._shards)])
        shards = self._shards
        numbered = pairs | "ToShard" >> beam.Map(lambda pair: (shard_of(pair.key, shards), [pair]))
        return (numbered, empty) | beam.Flatten() | beam.GroupByKey() | "Write" >> beam.MapTuple(self._write)

    def _write(self, number: int, pairs: Iterable[list[EncodedPair]]) -> ShardReport:
        path = os.path.join(self._folder, shard_name(number, self._shards))
        return write_shard(path, (pair for some in pairs for pair in some), self._drop_duplicates)


def prepare_files(
    source: str,
    folder: str,
    texts: str,
    filters: FilterConfig,
    *,
    source_column: int,
    target_column: int,
    shards: int,
    options: list[str],
) -> dict[str, Any]:
    """Runs the pipeline to its end and makes ``folder`` a prepared corpus.

    Args:
        source: files of tab-separated UTF-8 text; a pattern like ``corpus/*.tsv.gz``. Empty lines count for nothing.
        folder: where the shards go.
        texts: a folder with ``source`` and ``target``, fitted texts; they are copied into ``folder``.
        filters: what is left out.
        source_column, target_column: counted from 0.
        shards: files to write, about one for each hundred thousand pairs.
        options: Beam's own, such as ``--runner=FlinkRunner``; none runs on this machine.

    Returns:
        What ``prepared.json`` holds.

    Raises:
        ValueError: ``shards`` is out of its range, or no line gives a pair.
    """
    require(shards >= 1, "shards", "at least 1", shards)
    for side in ("source", "target"):
        tf.io.gfile.makedirs(os.path.join(folder, side))
        for name in tf.io.gfile.listdir(os.path.join(texts, side)):
            place = os.path.join(side, name)
            tf.io.gfile.copy(os.path.join(texts, place), os.path.join(folder, place), overwrite=True)
    reports = os.path.join(folder, REPORTS)
    pipeline = beam.Pipeline(argv=options)
    (
        pipeline
        | "Read" >> beam.io.ReadFromText(source, coder=beam.coders.BytesCoder())
        | "LeaveOutEmpty" >> beam.Filter(bool)
        | "Batch" >> beam.BatchElements(min_batch_size=256, max_batch_size=PAIRS_AT_ONCE)
        | "Encode" >> beam.ParDo(EncodePairs(folder, filters, source_column, target_column))
        | WriteShards(folder, shards, filters.drop_duplicates)
        | "Format" >> beam.Map(lambda report: json.dumps(report._asdict()))
        | "Report" >> beam.io.WriteToText(os.path.join(reports, "shard"))
    )
    result = pipeline.run()
    result.wait_until_finish()
    counted = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    counts = {each.key.metric.name: each.result for each in counted}
    written = []
    for path in tf.io.gfile.glob(os.path.join(reports, "shard*")):
        with tf.io.gfile.GFile(path) as file:
            written += [ShardReport(**json.loads(line)) for line in file]
    if not sum(report.pairs for report in written):
        raise ValueError(f"source: expected sentence pairs in {source}, received {counts or 'no lines'}.")
    rejected = {reason.value: counts.get(reason.value, 0) for reason in Rejection if reason is not Rejection.DUPLICATE}
    rejected[MALFORMED] = counts.get(MALFORMED, 0)
    write_record(folder, written, counts[LINES], rejected, {"filters": dataclasses.asdict(filters)})
    tf.io.gfile.rmtree(reports)
    with tf.io.gfile.GFile(os.path.join(folder, "prepared.json")) as file:
        return dict(json.loads(file.read()))
