"""Prepares a corpus on many machines. The output equals that of ``corpus.preparing``, to the byte.

    lines -> pairs -> not identical -> token ids -> not too long, not unlike -> shard by hash -> sorted, deduplicated

Vocabularies are learnt beforehand, on one machine, from a part of the corpus: two million lines are enough.

One worker reads a file and distributes its pairs to all. Merge two files whose lines correspond first, with ``paste
source target``.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, cast

import apache_beam as beam
import tensorflow as tf
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics, MetricsFilter

from nmt_keras.config import FilterConfig, require
from nmt_keras.corpus.archive import unpacked
from nmt_keras.corpus.columns import require_columns
from nmt_keras.corpus.filtering import Rejection, shard_of
from nmt_keras.corpus.preparing import PAIRS_AT_ONCE, complete, encoded
from nmt_keras.corpus.reading import Fault, Pair, ReadReport, parse_table, require_usable
from nmt_keras.corpus.shards import (
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


def _count(counts: Mapping[Any, int]) -> None:
    for name, count in counts.items():
        Metrics.counter(NAMESPACE, name).inc(count)


def read_batches(path: str, source_column: int, target_column: int) -> Iterator[list[Pair]]:
    """Yields batches of the pairs of a plain, gzipped or zipped file anywhere Beam can read; counts its lines."""
    opened = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # decided by bytes, not by name
    found = ReadReport()
    with io.BufferedReader(cast(Any, opened)) as raw, unpacked(raw, path) as text:
        pairs = found.count(parse_table(text, path, source_column, target_column))
        while batch := list(islice(pairs, PAIRS_AT_ONCE)):
            yield batch
    _count({LINES: found.lines})
    _count(found.faults)


class EncodePairs(beam.DoFn):
    """Encodes batches of pairs and counts the skipped ones by reason (metrics ``preparing``).

    Args:
        folder: Holds the tokenizers ``source`` and ``target``. Every worker must be able to read it.
        filters: Which pairs are skipped.
    """

    def __init__(self, folder: str, filters: FilterConfig):
        super().__init__()
        self._folder, self._filters = folder, filters

    def setup(self) -> None:
        """Loads the tokenizers, once in each process."""
        source, target = (load_tokenizer(os.path.join(self._folder, side)) for side in ("source", "target"))
        self._tokenizers = source, target

    def process(self, pairs: list[Pair]) -> Iterator[EncodedPair]:
        """Yields the encoded pairs that pass the filters."""
        left_out: Counter[Rejection] = Counter()
        yield from encoded(pairs, self._tokenizers, self._filters, left_out)
        _count(left_out)


def prepare_files(
    source: str,
    folder: str,
    texts: str,
    filters: FilterConfig,
    *,
    source_column: int = 0,
    target_column: int = 1,
    shards: int,
    max_malformed: float = 0.01,
    options: list[str],
) -> None:
    """Runs the pipeline to its end and makes ``folder`` a prepared corpus.

    Errors on a worker, such as a damaged file or a full disk, are raised as Beam's runner reports them.

    Args:
        source: Files of tab-separated UTF-8 text, plain, gzipped or zipped; a pattern such as ``corpus/*.tsv.gz``.
        folder: Folder for the shards. Leftovers of an interrupted preparation are removed.
        texts: A folder with the tokenizers ``source`` and ``target``; they are copied into ``folder``.
        filters: Which pairs are skipped.
        source_column, target_column: Columns, counted from 0.
        shards: Number of files to write, about one per hundred thousand pairs.
        max_malformed: Maximum share of malformed lines; they are skipped.
        options: Beam's own options, such as ``--runner=FlinkRunner``; by default the pipeline runs on this machine.

    Raises:
        FileExistsError: ``folder`` holds a prepared corpus.
        FileNotFoundError: there is no file at ``source``.
        OSError: ``folder`` cannot be written.
        ValueError: too many lines are malformed; an argument is out of its range; the filters leave no pair.
    """
    require(shards >= 1, "shards", "at least 1", shards)
    require_columns(source_column, target_column)
    require_new(folder)
    pipeline = beam.Pipeline(argv=options)  # its options also tell how to reach files
    paths = [found.path for match in FileSystems.match([source]) for found in match.metadata_list]
    if not paths:
        raise FileNotFoundError(
            f"source: expected files of sentence pairs, received none at {source}. Pass a path or a pattern."
        )
    reports = os.path.join(folder, REPORTS)
    if tf.io.gfile.isdir(reports):  # of an interrupted run, which may have had other shards
        tf.io.gfile.rmtree(reports)
    remove_leftovers(folder)
    for side in ("source", "target"):
        with writing_by_tensorflow(folder):
            tf.io.gfile.makedirs(os.path.join(folder, side))
            for name in tf.io.gfile.listdir(os.path.join(texts, side)):
                place = os.path.join(side, name)
                tf.io.gfile.copy(os.path.join(texts, place), os.path.join(folder, place), overwrite=True)

    def write(number: int, pairs: Iterable[list[EncodedPair]]) -> str:
        path = os.path.join(folder, shard_name(number, shards))
        report = write_shard(path, (pair for some in pairs for pair in some), filters.drop_duplicates)
        return json.dumps(report._asdict())

    numbered = (
        pipeline
        | "Files" >> beam.Create(paths)
        | "SpreadFiles" >> beam.Reshuffle()
        | "Read" >> beam.FlatMap(read_batches, source_column, target_column)
        | "SpreadPairs" >> beam.Reshuffle()
        | "Encode" >> beam.ParDo(EncodePairs(folder, filters))
        | "ToShard" >> beam.Map(lambda pair: (shard_of(pair.key, shards), [pair]))
    )
    nothing: list[EncodedPair] = []
    empty = pipeline | "Shards" >> beam.Create([(number, nothing) for number in range(shards)])
    (
        (numbered, empty)
        | beam.Flatten()
        | beam.GroupByKey()
        | "Write" >> beam.MapTuple(write)
        | "Report" >> beam.io.WriteToText(os.path.join(reports, "shard"))
    )
    result = pipeline.run()
    result.wait_until_finish()
    counted = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    counts = Counter({each.key.metric.name: each.result for each in counted})
    found = ReadReport(counts[LINES], +Counter({fault: counts[fault] for fault in Fault}))
    require_usable(found, source, max_malformed)
    written = []
    for path in tf.io.gfile.glob(os.path.join(reports, "shard*")):
        with tf.io.gfile.GFile(path) as file:
            written += [ShardReport(**json.loads(line)) for line in file]
    complete(folder, source, written, found, {reason: counts[reason] for reason in Rejection}, filters)
    tf.io.gfile.rmtree(reports)
