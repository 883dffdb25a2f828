"""Prepares a corpus on many machines. The output is byte-identical to that of ``corpus.preparing``.

    lines -> pairs -> drop identical -> token ids -> filter by length -> shard by hash -> sort, deduplicate

Learn the vocabularies beforehand on one machine. Two million lines of the corpus are enough.

Each file is read by one worker, which distributes its pairs to all workers. If source and target are separate files,
merge them first with ``paste source target``.
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
    """Yields batches of pairs from a plain, gzipped or zipped file that Beam can read, and counts its lines."""
    opened = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # ``unpacked`` detects it
    found = ReadReport()
    with io.BufferedReader(cast(Any, opened)) as raw, unpacked(raw, path) as text:
        pairs = found.count(parse_table(text, path, source_column, target_column))
        while batch := list(islice(pairs, PAIRS_AT_ONCE)):
            yield batch
    _count({LINES: found.lines})
    _count(found.faults)


class EncodePairs(beam.DoFn):
    """Encodes batches of pairs and counts skipped pairs by reason (metrics ``preparing``).

    Args:
        folder: Folder with the tokenizers ``source`` and ``target``. Every worker must be able to read it.
        filters: Filters that pairs must pass.
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
    tokenizers: str,
    filters: FilterConfig,
    *,
    source_column: int = 0,
    target_column: int = 1,
    shards: int,
    max_malformed: float = 0.01,
    options: list[str],
) -> None:
    """Runs the pipeline to completion and writes a prepared corpus into ``folder``.

    Errors on a worker, such as a damaged file or a full disk, are raised in the form that Beam's runner reports.

    Args:
        source: Path or pattern, such as ``corpus/*.tsv.gz``, of tab-separated UTF-8 files: plain, gzipped or zipped.
        folder: Output folder. Leftovers of an interrupted preparation are removed.
        tokenizers: Folder with the tokenizers ``source`` and ``target``, which are copied into ``folder``.
        filters: Filters that pairs must pass.
        source_column, target_column: Column indices, counted from 0.
        shards: Number of files to write. Use about one per 100,000 pairs.
        max_malformed: Maximum share (0 to 1) of malformed lines, which are skipped.
        options: Options of Beam, such as ``--runner=FlinkRunner``. If empty, the pipeline runs on this machine.

    Raises:
        FileExistsError: ``folder`` contains a prepared corpus.
        FileNotFoundError: no file matches ``source``.
        OSError: ``folder`` cannot be written.
        ValueError: too many lines are malformed, an argument is out of range, or the filters leave no pair.
    """
    require(shards >= 1, "shards", "at least 1", shards)
    require_columns(source_column, target_column)
    require_new(folder)
    pipeline = beam.Pipeline(argv=options)  # its options also configure file systems
    paths = [found.path for match in FileSystems.match([source]) for found in match.metadata_list]
    if not paths:
        raise FileNotFoundError(
            f"source: expected files of sentence pairs, but none match {source}. Pass another path or pattern."
        )
    reports = os.path.join(folder, REPORTS)
    if tf.io.gfile.isdir(reports):  # of an interrupted run, which may have had another number of shards
        tf.io.gfile.rmtree(reports)
    remove_leftovers(folder)
    for side in ("source", "target"):
        with writing_by_tensorflow(folder):
            tf.io.gfile.makedirs(os.path.join(folder, side))
            for name in tf.io.gfile.listdir(os.path.join(tokenizers, side)):
                place = os.path.join(side, name)
                tf.io.gfile.copy(os.path.join(tokenizers, place), os.path.join(folder, place), overwrite=True)

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
