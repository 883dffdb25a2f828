"""Prepares a corpus on many machines. The output is byte-identical to that of ``corpus.preparing``.

    lines -> pairs -> drop identical -> token ids -> filter by length -> shard by hash -> sort, deduplicate

Learn the vocabularies first, on one machine. Two million lines of the corpus are enough.

Each file is read by one worker, which distributes its pairs to all workers. If source and target are separate files,
merge them first with ``paste source target``.

An engine may run a step twice, for example after a worker has died. Every step is therefore a pure function of its
input: files have fixed names, and keys are numbers. (Beam's ``Reshuffle`` would draw random keys.) Counts are passed as
data. Beam metrics are not used, because some engines do not support them, and some count repeated work twice.
"""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from nmt_keras.config import FilterConfig, require
from nmt_keras.corpus.columns import Columns, is_spanish_english_text
from nmt_keras.corpus.filtering import Rejection, shard_of
from nmt_keras.corpus.preparing import encoded
from nmt_keras.corpus.reading import Fault, Pair, ReadReport, parse_table, require_usable
from nmt_keras.corpus.shards import (
    RECORD_FILE,
    SIDES,
    EncodedPair,
    ShardReport,
    complete,
    remove_leftovers,
    require_new,
    shard_name,
    write_shard,
)
from nmt_keras.io.files import read_json, sole_writer, write_whole
from nmt_keras.io.lines import unpacked
from nmt_keras.pipelines import absolute
from nmt_keras.text import Codec, load_tokenizer
from nmt_keras.text.normalisation import in_blocks

LINES = "lines"
REPORTS = f"{RECORD_FILE}.reports.partial"  # ``remove_leftovers`` removes it
TOTALS = -1  # key of the counts; the key of encoded pairs is the number of their shard


@contextmanager
def opened(path: str) -> Iterator[io.BufferedReader]:
    """Opens a text file that Beam can read, plain or packed, as a stream of bytes; see ``nmt_keras.io.lines``."""
    stream = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # ``unpacked`` decompresses
    with io.BufferedReader(cast(Any, stream)) as raw, unpacked(raw, path) as text:
        yield text


def read_batches(
    file: int, paths: Iterable[str], columns: Columns
) -> Iterator[tuple[tuple[int, int], tuple[list[Pair], Counter[str]]]]:
    """Yields batches of pairs, and finally the counts of lines.

    The key of a batch is (file number, batch number), that of the counts (file number, -1).

    Args:
        file: Number of the file.
        paths: The path of the file, as the only item.
        columns: Columns of source and target.
    """
    (path,) = paths
    with opened(path) as text:
        columns = columns.of(english_first=not columns.names_columns and is_spanish_english_text(text))
    found = ReadReport()
    with opened(path) as text:
        for number, batch in enumerate(in_blocks(found.pairs(parse_table(text, path, columns)))):
            yield (file, number), (batch, Counter())
    yield (file, -1), ([], Counter({LINES: found.lines}) + Counter[str](found.faults.elements()))


def matching(pattern: str) -> list[str]:
    """Returns the files that match ``pattern``. Raises FileNotFoundError if there are none."""
    paths = sorted(found.path for match in FileSystems.match([pattern]) for found in match.metadata_list)
    if not paths:
        raise FileNotFoundError(f"source: expected text files, found none at {pattern}. Pass another path or pattern.")
    return paths


class EncodePairs(beam.DoFn):
    """Encodes batches of pairs.

    Args:
        folder: Folder with the tokenizers ``source`` and ``target``. Every worker must be able to read it.
        filters: Filters that pairs must pass.
        shards: Number of shards.
    """

    def __init__(self, folder: Path, filters: FilterConfig, shards: int):
        super().__init__()
        self._folder, self._filters, self._shards = folder, filters, shards

    def setup(self) -> None:
        """Loads the tokenizers."""
        self._codec = Codec(*(load_tokenizer(self._folder / side) for side in SIDES))

    def process(
        self, numbered: tuple[tuple[int, int], Iterable[tuple[list[Pair], Counter[str]]]]
    ) -> Iterator[tuple[int, list[EncodedPair] | Counter[str]]]:
        """Yields the pairs of each shard that pass the filters, and counts of lines and of skipped pairs."""
        for pairs, counts in numbered[1]:
            left_out: Counter[Rejection] = Counter()
            by_shard = defaultdict(list)
            for pair in encoded(pairs, self._codec, self._filters, left_out):
                by_shard[shard_of(pair.key, self._shards)].append(pair)
            yield from by_shard.items()
            yield TOTALS, counts + Counter[str](left_out.elements())


def prepare_files(
    source: str,
    folder: str,
    tokenizers: str,
    filters: FilterConfig,
    *,
    source_column: int | str | None = None,
    target_column: int | str | None = None,
    reverse: bool = False,
    shards: int,
    max_malformed: float = 0.01,
    options: list[str],
) -> None:
    """Runs the pipeline to completion and writes a prepared corpus into ``folder``.

    Errors on a worker, such as a damaged file or a full disk, are raised as Beam's runner reports them.

    Args:
        source: Path or pattern, such as ``corpus/*.tsv.gz``, of tables in UTF-8, plain or packed.
        folder: Output folder on a disk that all workers share. Leftovers of an interrupted preparation are removed.
        tokenizers: Folder with the tokenizers ``source`` and ``target``, which are copied into ``folder``.
        filters: Filters that pairs must pass.
        source_column, target_column, reverse: Columns of the text; see ``Columns``.
        shards: Number of shards to write. Use about one per 100,000 pairs.
        max_malformed: Maximum share (0 to 1) of malformed lines. Malformed lines are skipped.
        options: Options of Beam, such as ``--runner=DirectRunner``. If empty, the pipeline runs on this machine.

    Raises:
        FileExistsError: ``folder`` contains a prepared corpus.
        FileNotFoundError: no file matches ``source``, or ``tokenizers`` has no vocabularies.
        OSError: ``folder`` cannot be written.
        ValueError: too many lines are malformed, an argument is out of range, the filters leave no pair, or another
            pipeline writes ``folder`` (see ``files.sole_writer``).
    """
    require(shards >= 1, "shards", "at least 1", shards)
    columns = Columns(source_column=source_column, target_column=target_column, reverse=reverse)
    source, place = absolute(source), Path(absolute(folder))
    require_new(place)
    pipeline = beam.Pipeline(argv=options)  # its options also configure file systems
    paths = matching(source)
    with sole_writer(place):
        require_new(place)  # another pipeline may have finished meanwhile
        remove_leftovers(place)
        for side in SIDES:
            shutil.copytree(Path(tokenizers, side), place / side, dirs_exist_ok=True)

        def write(number: int, grouped: Iterable[Any]) -> tuple[int, tuple[int, dict[str, Any]]]:
            if number == TOTALS:
                return 0, (number, sum(grouped, Counter()))
            pairs = (pair for some in grouped for pair in some)
            report = write_shard(place / shard_name(number, shards), pairs, filters.drop_duplicates)
            return 0, (number, report._asdict())

        def write_reports(_: int, found: Iterable[tuple[int, dict[str, Any]]]) -> None:
            write_whole(place / REPORTS, json.dumps(dict(found)))

        encoded_pairs = (
            pipeline
            | "Files" >> beam.Create(list(enumerate(paths)))
            | "SpreadFiles" >> beam.GroupByKey()
            | "Read" >> beam.FlatMapTuple(lambda file, paths: read_batches(file, paths, columns))
            | "SpreadPairs" >> beam.GroupByKey()
            | "Encode" >> beam.ParDo(EncodePairs(place, filters, shards))
        )
        empty = pipeline | "Shards" >> beam.Create([(number, []) for number in range(shards)])
        (
            (encoded_pairs, empty)
            | beam.Flatten()
            | beam.GroupByKey()
            | "Write" >> beam.MapTuple(write)
            | "ToOne" >> beam.GroupByKey()
            | "WriteReports" >> beam.MapTuple(write_reports)
        )
        pipeline.run().wait_until_finish()
        by_number = read_json(place / REPORTS)
        counts = Counter(by_number.pop(str(TOTALS)))
        found = ReadReport(counts[LINES], +Counter({fault: counts[fault] for fault in Fault}))
        require_usable(found, source, max_malformed)
        complete(
            place,
            source,
            next(batch[0] for path in paths for _, (batch, _) in read_batches(0, [path], columns) if batch),
            [ShardReport(**report) for report in by_number.values()],
            found,
            {reason: counts[reason] for reason in Rejection},
            filters,
        )
