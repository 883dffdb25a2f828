"""A prepared corpus: shards of token ids on disk, read in an order that can be entered anywhere, in flat memory.

FOLDER/
  prepared.json             counts, filters, shards, lengths, checksums of the vocabularies; written last
  source/ target/           the two texts
  train-00000-of-00004.tfrecord ...

A shard is a TFRecord file of ``tf.train.Example`` with two features, ``source`` and ``target``: int64 ids, END
included. Pairs are spread over the shards by a hash, and lie there in the hash's order: a shard is a fair sample of the
corpus, and looks the same whatever the order of the input and however many machines made it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.config import END
from nmt_keras.corpus.batches import Batch, Batches, Bucket, Position, TokenLists, choose_buckets, rows_by_bucket
from nmt_keras.corpus.prefetching import prefetched
from nmt_keras.files import require_format, settle, settle_below, unwritable, writing

RECORD_FILE = "prepared.json"
FORMAT = 1
FEATURES = {side: tf.io.RaggedFeature(tf.int64) for side in ("source", "target")}


class EncodedPair(NamedTuple):
    """A sentence pair as token ids, and what decides its place."""

    key: bytes  # from filtering.pair_key
    source: np.ndarray  # [S] int32, END included
    target: np.ndarray  # [T] int32, END included


class ShardReport(NamedTuple):
    """What was written into a shard."""

    file: str
    pairs: int
    duplicates: int
    """Pairs that were left out because the shard has them already."""
    lengths: list[list[int]]
    """[source tokens, target tokens, pairs that have them], END included."""


def shard_name(number: int, count: int) -> str:
    """The file of shard ``number``, from 0, of ``count``."""
    return f"train-{number:05d}-of-{count:05d}.tfrecord"


SHARD_FILES = re.compile(r"train-\d{5}-of-\d{5}\.tfrecord(\.\w+\.partial)?|prepared\.json\.\w+\.partial")
"""Names of shards, and of shards and records that are being written."""


def require_new(folder: str) -> None:
    """Raises FileExistsError if ``folder``, wherever TensorFlow can read, holds a prepared corpus or a run."""
    for file, what in ((RECORD_FILE, "a prepared corpus"), ("recipe.json", "the directory of a run")):
        if tf.io.gfile.exists(os.path.join(folder, file)):
            raise FileExistsError(f"{folder}: expected a new folder, received {what}. Name another, or remove it.")


def remove_leftovers(folder: str, keep: Collection[str] = ()) -> None:
    """Removes from ``folder`` the shards that ``keep`` does not name, and those that somebody left half-written.

    Raises:
        FileExistsError: there are shards, but no vocabulary, which is there before them: they are somebody else's.
    """
    if not tf.io.gfile.isdir(folder):
        return
    found = [name for name in tf.io.gfile.listdir(folder) if SHARD_FILES.fullmatch(name) and name not in keep]
    if found and not tf.io.gfile.exists(os.path.join(folder, "source", "text.json")):
        raise FileExistsError(
            f"{folder}: expected a new folder, or one of an interrupted preparation, received one with {found[0]} and "
            "no vocabulary. Name another."
        )
    for name in found:
        with suppress(tf.errors.NotFoundError):  # whoever wrote it may be ending just now
            tf.io.gfile.remove(os.path.join(folder, name))


@contextmanager
def writing_by_tensorflow(path: str) -> Iterator[None]:
    """Makes an OSError that says what to do, see ``files.writing``, of what TensorFlow raises as it writes ``path``."""
    try:
        yield
    except tf.errors.OpError as error:
        # its message is "FILE; REASON", of a file that has its name for a while only
        raise unwritable(path, error.message.rpartition("; ")[2].rstrip("."), "Nothing was prepared.") from error


def write_shard(path: str, pairs: Iterable[EncodedPair], drop_duplicates: bool) -> ShardReport:
    """Writes the pairs of a shard in the order of their keys.

    Args:
        path: the file, wherever TensorFlow can write. A file of another name becomes it once it is whole; each attempt
            has a name of its own, as two workers may write one shard, the same to the byte.
        pairs: in any order; they are held in memory.
        drop_duplicates: whether equal pairs are written once.

    Raises:
        OSError: it cannot be written; what was written of it is removed.
    """
    partial = f"{path}.{uuid.uuid4().hex}.partial"
    try:
        with writing_by_tensorflow(path):
            report = _write(partial, pairs, drop_duplicates)
            _publish(partial, path)
    except BaseException:
        if tf.io.gfile.exists(partial):
            tf.io.gfile.remove(partial)
        raise
    return report._replace(file=os.path.basename(path))


def _publish(partial: str, path: str) -> None:
    """Renames ``partial``, which is whole, to ``path``. On a disk of this machine, the file outlives a power cut."""
    if "://" in path:
        tf.io.gfile.rename(partial, path, overwrite=True)
        return
    with writing(Path(path), "Nothing was prepared."):
        settle([Path(partial)])
        os.replace(partial, path)
        settle([Path(path).parent])


def _write(path: str, pairs: Iterable[EncodedPair], drop_duplicates: bool) -> ShardReport:
    """``write_shard`` under the name that is given."""
    lengths: Counter[tuple[int, int]] = Counter()
    written = duplicates = 0
    before = b""
    with tf.io.TFRecordWriter(path) as writer:
        for pair in sorted(pairs, key=lambda pair: pair.key):
            if pair.key == before and drop_duplicates:
                duplicates += 1
                continue
            before = pair.key
            writer.write(_serialised(pair))
            lengths[len(pair.source), len(pair.target)] += 1
            written += 1
    histogram = [[*sides, count] for sides, count in sorted(lengths.items())]
    return ShardReport(os.path.basename(path), written, duplicates, histogram)


def _serialised(pair: EncodedPair) -> bytes:
    features = {
        side: tf.train.Feature(int64_list=tf.train.Int64List(value=ids.tolist()))
        for side, ids in (("source", pair.source), ("target", pair.target))
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def read_shard(path: str) -> tuple[TokenLists, TokenLists]:
    """The two sides of a shard, in its order.

    Raises:
        ValueError: the file is damaged or cut short.
    """
    records: list[bytes] = []
    try:
        for chunk in tf.data.TFRecordDataset(path).batch(8192):
            records += chunk.numpy().tolist()
        if not records:
            nothing = TokenLists(np.zeros([0]), np.zeros([0]))
            return nothing, nothing
        found = tf.io.parse_example(tf.constant(records), FEATURES)
    except (tf.errors.DataLossError, tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(f"{path}: expected a whole shard of token ids; {error.message}. Prepare it again.") from error
    source, target = (
        TokenLists(found[side].flat_values.numpy(), found[side].row_lengths().numpy()) for side in ("source", "target")
    )
    return source, target


def write_record(
    folder: str, shards: Sequence[ShardReport], lines: int, rejected: Mapping[str, int], facts: Mapping[str, Any]
) -> None:
    """Writes ``prepared.json``, which makes a folder of shards a prepared corpus.

    Args:
        folder: the folder.
        shards: what was written.
        lines: lines read.
        rejected: pairs left out by reason, duplicates aside.
        facts: what the corpus was made with: filters, files.

    Raises:
        OSError: it cannot be written.
    """
    lengths: Counter[tuple[int, int]] = Counter()
    for shard in shards:
        for source, target, count in shard.lengths:
            lengths[source, target] += count
    duplicates = sum(shard.duplicates for shard in shards)
    record = {
        "format": FORMAT,
        "lines": lines,
        "pairs": sum(shard.pairs for shard in shards),
        "left_out": {**rejected, "duplicate pairs": duplicates},
        **facts,
        "vocabularies": {side: _checksums(folder, side) for side in ("source", "target")},
        "shards": [{"file": shard.file, "pairs": shard.pairs} for shard in sorted(shards)],
        "lengths": [[*sides, count] for sides, count in sorted(lengths.items())],
    }
    path = os.path.join(folder, RECORD_FILE)
    with writing_by_tensorflow(path):
        if "://" not in folder:
            with writing(Path(folder), "Nothing was prepared."):
                for side in ("source", "target"):  # the Beam pipeline copies them without syncing them
                    settle_below(Path(folder) / side)
                settle([Path(folder)])
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        with tf.io.gfile.GFile(partial, "w") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        _publish(partial, path)


def _checksums(folder: str, side: str) -> Any:
    with tf.io.gfile.GFile(os.path.join(folder, side, "text.json")) as file:
        return json.loads(file.read())["sha256"]


class PreparedCorpus:
    """A folder of shards, as ``prepare`` left it.

    Args:
        folder: the folder.

    Raises:
        FileNotFoundError: there is no ``prepared.json``: nothing was prepared, or not to its end.
        ValueError: it is of another format, or a shard is missing.
    """

    def __init__(self, folder: str | PathLike[str]):
        self.folder = Path(folder)
        path = self.folder / RECORD_FILE
        if not path.exists():
            raise FileNotFoundError(f"{path}: expected a prepared corpus, found none. Prepare one there first.")
        text = path.read_text(encoding="utf-8")
        self.record = json.loads(text)
        require_format(path, self.record.get("format"), FORMAT, "Prepare the corpus again.")
        self.sha256 = hashlib.sha256(text.encode()).hexdigest()
        self.files = [str(self.folder / shard["file"]) for shard in self.record["shards"]]
        self.sizes = np.array([shard["pairs"] for shard in self.record["shards"]], np.int64)  # pairs of each shard
        self.lengths = np.array(self.record["lengths"], np.int64).reshape(-1, 3)  # source, target, pairs
        for file in self.files:
            if not os.path.exists(file):
                raise ValueError(f"{file}: expected a shard that {path} lists, found none. Prepare the corpus again.")

    def __len__(self) -> int:
        """Pairs."""
        return int(self.sizes.sum())

    def require_its_vocabularies(self) -> None:
        """Raises ValueError if the texts in the folder are not those that the shards were encoded with."""
        for side, recorded in self.record["vocabularies"].items():
            if _checksums(str(self.folder), side) != recorded:
                raise ValueError(
                    f"{self.folder / side}: expected the vocabulary that the shards were encoded with, found another. "
                    "Prepare the corpus again, in a new folder."
                )

    def told_left_out(self) -> str:
        """How many pairs were left out for which reason, in words."""
        counts = [f"{count:,} {reason}" for reason, count in self.record["left_out"].items() if count]
        return ", ".join(counts) or "none"

    def read(self, shard: int) -> tuple[TokenLists, TokenLists]:
        """The two sides of a shard, in its order. Raises ValueError if it is not what was written."""
        source, target = read_shard(self.files[shard])
        if len(source) != self.sizes[shard]:
            raise ValueError(
                f"{self.files[shard]}: expected {self.sizes[shard]} pairs, received {len(source)}. Prepare it again."
            )
        return source, target

    def read_some(self, count: int) -> tuple[TokenLists, TokenLists]:
        """The two sides of about ``count`` pairs, or of all: those of whole shards, evenly from all of them."""
        wanted = max(1, min(len(self.files), count * len(self.files) // max(1, len(self))))
        parts = [self.read(int(shard)) for shard in np.linspace(0, len(self.files) - 1, wanted).round()]
        return joined([source for source, _ in parts]), joined([target for _, target in parts])


class ShardedBatches:
    """The pairs of a prepared corpus as batches; memory holds a shard, a pool and a few batches.

    An epoch permutes the shards, and the pairs within each; of their sequence it makes pools, which are sorted and cut
    as ``Batches`` does. All is a pure function of (seed, epoch), and a pool is found by arithmetic: whoever enters at
    pool p reads the one or two shards that p lies in.

    Args:
        corpus: prepared.
        buckets: at the most; see ``choose_buckets``.
        batch_size: rows of a batch.
        batch_tokens: target positions of a batch instead; see ``rows_by_bucket``.
        pool_size: pairs that are sorted together.
        seed: of the order.

    Raises:
        ValueError: the corpus has no pairs.
    """

    def __init__(
        self,
        corpus: PreparedCorpus,
        *,
        buckets: int,
        batch_size: int,
        batch_tokens: int | None = None,
        pool_size: int,
        seed: int,
    ):
        if not len(corpus):
            raise ValueError(f"{corpus.folder}: expected pairs to train on, the filters left none.")
        self.corpus, self.pool_size, self.seed = corpus, pool_size, seed
        source, target, pairs = corpus.lengths.T
        self.buckets = choose_buckets(source, target, buckets, pairs)
        self.rows = rows_by_bucket(self.buckets, batch_size, batch_tokens)
        fits = [(source <= bucket.source) & (target <= bucket.target) for bucket in self.buckets]
        first = np.argmax(fits, axis=0)
        self.pairs_of = {bucket: int(pairs[first == n].sum()) for n, bucket in enumerate(self.buckets)}

    def __len__(self) -> int:
        """Batches of an epoch; where rows differ by bucket, as the lengths of all pairs let expect."""
        if len(set(self.rows.values())) > 1:
            return sum(self.bucket_counts(0).values())
        size = next(iter(self.rows.values()))
        full, rest = divmod(len(self.corpus), self.pool_size)
        return full * -(-self.pool_size // size) + -(-rest // size)

    def bucket_counts(self, epoch: int) -> dict[Bucket, int]:
        """How many batches of each bucket an epoch has, as the lengths of all pairs let expect."""
        return {bucket: -(-self.pairs_of[bucket] // self.rows[bucket]) for bucket in self.buckets}

    def masked(self, bucket: Bucket) -> Batch:
        """A batch of masked rows alone."""
        end = TokenLists(np.array([END]), np.array([1]))
        return self._batches(end, end).masked(bucket)

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Every batch from ``position`` on, epoch after epoch without end, with its own position.

        A thread of its own reads a few batches ahead.
        """
        return prefetched(self._iterate(position), ahead=8)

    def _iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        epoch, first_pool, first_batch = position
        while True:
            for number, (source, target) in enumerate(self.pools(epoch, first_pool), first_pool):
                pool = self._batches(source, target)
                cuts = pool.cut(np.arange(len(source)))
                order = np.random.default_rng([self.seed, epoch, 2, number]).permutation(len(cuts))
                for batch in range(first_batch, len(cuts)):
                    yield Position(epoch, number, batch), pool.batch(cuts[order[batch]])
                first_batch = 0
            epoch, first_pool, first_batch = epoch + 1, 0, 0

    def pools(self, epoch: int, begin: int = 0) -> Iterator[tuple[TokenLists, TokenLists]]:
        """The two sides of each pool of an epoch, from number ``begin``."""
        shards = np.random.default_rng([self.seed, epoch, 0]).permutation(len(self.corpus.files))
        ends = np.cumsum(self.corpus.sizes[shards])
        held: dict[int, tuple[TokenLists, TokenLists]] = {}  # the last shard that was read
        for first in range(begin * self.pool_size, int(ends[-1]), self.pool_size):
            last = min(first + self.pool_size, int(ends[-1]))
            parts = []
            for place in range(int(np.searchsorted(ends, first, "right")), len(shards)):
                shard, start = int(shards[place]), int(ends[place] - self.corpus.sizes[shards[place]])
                if start >= last:
                    break
                if not self.corpus.sizes[shard]:
                    continue
                if shard not in held:
                    held = {shard: self.corpus.read(shard)}
                source, target = held[shard]
                rows = np.random.default_rng([self.seed, epoch, 1, shard]).permutation(len(source))
                rows = rows[max(0, first - start) : last - start]
                parts.append((source.take(rows), target.take(rows)))
            yield joined([source for source, _ in parts]), joined([target for _, target in parts])

    def _batches(self, source: TokenLists, target: TokenLists) -> Batches:
        return Batches(source, target, batch_size=self.rows, buckets=self.buckets, pool_size=self.pool_size, seed=0)


def joined(lists: Sequence[TokenLists]) -> TokenLists:
    """The sentences of several lists, one after the other."""
    return TokenLists(np.concatenate([one.flat for one in lists]), np.concatenate([one.lengths for one in lists]))
