"""Prepares a corpus on many machines: the filters, shards and files of ``corpus.preparing``, to the byte.

    lines -> pairs -> not identical -> token ids -> not too long, not unlike -> shard by hash -> sorted, each once

Vocabularies are learnt beforehand, by one machine, from a part of the corpus: two million lines are enough.

A file is read by one worker, which hands its lines on to all: what its first line and its end are, nobody else would
know. Two files whose lines correspond are made one by ``paste source target``.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

import apache_beam as beam
import tensorflow as tf
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics, MetricsFilter

from nmt_keras.config import FilterConfig, require
from nmt_keras.corpus.archive import unpacked
from nmt_keras.corpus.filtering import Rejection, shard_of
from nmt_keras.corpus.preparing import PAIRS_AT_ONCE, complete, encoded
from nmt_keras.corpus.reading import Fault, Pair, ReadReport, parse_line, require_columns, require_usable, table_lines
from nmt_keras.corpus.shards import (
    RECORD_FILE,
    EncodedPair,
    ShardReport,
    remove_leftovers,
    require_new,
    shard_name,
    write_shard,
    writing_by_tensorflow,
)
from nmt_keras.text import load_tokenizer

NAMESPACE = "preparing"
LINES = "lines"
REPORTS = "reports-of-shards"


def read_lines(path: str) -> Iterator[list[bytes]]:
    """Batches of the lines of a file, plain, gzipped or zipped, wherever Beam can read; see ``table_lines``."""
    opened = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # its bytes tell, not its name
    with io.BufferedReader(cast(Any, opened)) as raw, unpacked(raw, path) as text:
        lines = table_lines(text)
        while batch := list(islice(lines, PAIRS_AT_ONCE)):
            yield batch


class EncodePairs(beam.DoFn):
    """Batches of lines to EncodedPairs; lines, and what is left out by reason, are counted (metrics ``preparing``).

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
        self._tokenizers = (
            load_tokenizer(os.path.join(self._folder, "source")),
            load_tokenizer(os.path.join(self._folder, "target")),
        )

    def process(self, lines: list[bytes]) -> Iterator[EncodedPair]:
        """The pairs that pass."""
        counts: Counter[str] = Counter()
        left_out: Counter[Rejection] = Counter()
        yield from encoded(self._pairs(lines, counts), self._tokenizers, self._filters, left_out)
        counts.update({reason.value: count for reason, count in left_out.items()})
        for name, count in counts.items():
            Metrics.counter(NAMESPACE, name).inc(count)

    def _pairs(self, lines: Iterable[bytes], counts: Counter[str]) -> Iterator[Pair]:
        for line in lines:
            counts[LINES] += 1
            found = parse_line(line, source_column=self._source_column, target_column=self._target_column)
            if isinstance(found, Pair):
                yield found
            else:
                counts[found.value] += 1


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
    max_malformed: float = 0.01,
    options: list[str],
) -> dict[str, Any]:
    """Runs the pipeline to its end and makes ``folder`` a prepared corpus.

    What goes wrong on a worker, a damaged file or a full disk say, comes as its runner tells it.

    Args:
        source: files of tab-separated UTF-8 text, plain, gzipped or zipped; a pattern like ``corpus/*.tsv.gz``.
        folder: where the shards go; what an interrupted preparation left in it is removed.
        texts: a folder with ``source`` and ``target``, fitted texts; they are copied into ``folder``.
        filters: what is left out.
        source_column, target_column: counted from 0.
        shards: files to write, about one for each hundred thousand pairs.
        max_malformed: the share of malformed lines up to which they are left out.
        options: Beam's own, such as ``--runner=FlinkRunner``; none runs on this machine.

    Returns:
        What ``prepared.json`` holds.

    Raises:
        FileExistsError: ``folder`` holds a prepared corpus.
        FileNotFoundError: no file is at ``source``.
        OSError: ``folder`` cannot be written.
        ValueError: too many lines are malformed; an argument is out of its range; the filters leave nothing.
    """
    require(shards >= 1, "shards", "at least 1", shards)
    require_columns(source_column, target_column)
    require_new(folder)
    pipeline = beam.Pipeline(argv=options)  # whose options say how to reach files, too
    paths = [found.path for match in FileSystems.match([source]) for found in match.metadata_list]
    if not paths:
        raise FileNotFoundError(
            f"source: expected files of sentence pairs, found nothing at {source}. Pass a path or a pattern of files."
        )
    reports = os.path.join(folder, REPORTS)
    if tf.io.gfile.isdir(reports):  # of a run that was interrupted: they may tell of other shards
        tf.io.gfile.rmtree(reports)
    remove_leftovers(folder)
    for side in ("source", "target"):
        names = tf.io.gfile.listdir(os.path.join(texts, side))
        with writing_by_tensorflow(folder):
            tf.io.gfile.makedirs(os.path.join(folder, side))
            for name in names:
                place = os.path.join(side, name)
                tf.io.gfile.copy(os.path.join(texts, place), os.path.join(folder, place), overwrite=True)
    (
        pipeline
        | "Files" >> beam.Create(paths)
        | "SpreadFiles" >> beam.Reshuffle()
        | "Read" >> beam.FlatMap(read_lines)
        | "SpreadLines" >> beam.Reshuffle()
        | "Encode" >> beam.ParDo(EncodePairs(folder, filters, source_column, target_column))
        | WriteShards(folder, shards, filters.drop_duplicates)
        | "Format" >> beam.Map(lambda report: json.dumps(report._asdict()))
        | "Report" >> beam.io.WriteToText(os.path.join(reports, "shard"))
    )
    result = pipeline.run()
    result.wait_until_finish()
    counted = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    counts = Counter({each.key.metric.name: each.result for each in counted})
    found = ReadReport(counts[LINES], {fault: counts[fault.value] for fault in Fault if counts[fault.value]}, ())
    require_usable(found, source, max_malformed)
    written = []
    for name in tf.io.gfile.listdir(reports):
        if name.startswith("shard"):  # nothing of Beam's own
            with tf.io.gfile.GFile(os.path.join(reports, name)) as file:
                written += [ShardReport(**json.loads(line)) for line in file]
    complete(folder, source, written, found, {reason: counts[reason.value] for reason in Rejection}, filters)
    tf.io.gfile.rmtree(reports)
    with tf.io.gfile.GFile(os.path.join(folder, RECORD_FILE)) as file:
        return dict(json.loads(file.read()))
