"""Prepared corpus: shards of token ids on disk. Reads them in shuffled order with constant memory, from any position.

FOLDER/
  prepared.json             counts, filters, shards, lengths, checksums of the vocabularies; written last
  source/ target/           the two tokenizers
  train-00000-of-00004.tfrecord ...

A shard is a TFRecord file of ``tf.train.Example`` with two features, ``source`` and ``target``: int64 ids, END
included. A hash assigns each pair to a shard and orders the pairs in the shard. Each shard is therefore a random sample
of the corpus. It does not depend on the order of the input or on the number of machines that wrote the shards.
"""

import dataclasses
import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from nmt_keras.config import END, FilterConfig, require
from nmt_keras.corpus.batches import (
    Batch,
    Batches,
    Bucket,
    Position,
    TokenLists,
    choose_buckets,
    iterate_batches,
    prefetched,
    rows_by_bucket,
)
from nmt_keras.corpus.filtering import Rejection
from nmt_keras.corpus.reading import Pair, ReadReport
from nmt_keras.io.files import read_json, replacing, require_format, sync, sync_folder, writing

RECORD_FILE = "prepared.json"
FORMAT = 1
SIDES = ("source", "target")
LOST = "Nothing was prepared."
SPILLED = "spilled-"  # prefix of a temporary folder of encoded pairs
# finished shards, unfinished shards and records, and temporary folders
SHARD_FILES = re.compile(
    r"train-\d{5}-of-\d{5}\.tfrecord(\.\w+\.partial)?|prepared\.json[.\w]+\.partial|" + SPILLED + r"\w+/?"
)


class EncodedPair(NamedTuple):
    """A sentence pair as token ids, with a key that determines its shard and its position in the shard."""

    key: bytes  # from filtering.pair_key
    source: np.ndarray  # [S] int32, END included
    target: np.ndarray  # [T] int32, END included


class ShardReport(NamedTuple):
    """Counts of a written shard."""

    file: str
    pairs: int
    duplicates: int  # dropped pairs that are equal to another pair
    lengths: list[list[int]]  # [source tokens, target tokens, number of pairs], END included


def shard_name(number: int, count: int) -> str:
    """Returns the file name of shard ``number``, from 0, of ``count``."""
    return f"train-{number:05d}-of-{count:05d}.tfrecord"


def require_new(folder: Path) -> None:
    """Raises FileExistsError if ``folder`` contains a prepared corpus or a run."""
    for file, what in ((RECORD_FILE, "a prepared corpus"), ("recipe.json", "the directory of a run")):
        if (folder / file).exists():
            raise FileExistsError(
                f"{folder}: expected a new folder, received {what}. Pass another folder, or remove this one."
            )


def remove_leftovers(folder: Path, keep: Collection[str] = ()) -> None:
    """Removes unfinished files from ``folder``, and all shards except ``keep``. The caller must be its sole writer.

    Raises:
        FileExistsError: there are shards but no vocabulary, so they were not written by a preparation.
    """
    inside = folder.iterdir() if folder.is_dir() else ()
    found = [path for path in inside if SHARD_FILES.fullmatch(path.name) and path.name not in keep]
    if found and not (folder / "source" / "text.json").exists():
        raise FileExistsError(
            f"{folder}: expected a new folder, or the folder of an interrupted preparation, received a folder with "
            f"{found[0].name} and no vocabulary. Pass another folder."
        )
    for path in found:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)  # a Beam worker may replace it


def write_shard(path: Path, pairs: Iterable[EncodedPair], drop_duplicates: bool) -> ShardReport:
    """Writes the pairs of a shard in the order of their keys.

    Args:
        path: Path of the file. It appears when it is complete.
        pairs: The pairs in any order. All are held in memory.
        drop_duplicates: If ``True``, equal pairs are written once.

    Raises:
        OSError: the file cannot be written.
    """
    lengths: Counter[tuple[int, int]] = Counter()
    duplicates, before = 0, b""
    with replacing(path, LOST) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
        for key, source, target in sorted(pairs, key=lambda pair: pair.key):
            if key == before and drop_duplicates:
                duplicates += 1
                continue
            before = key
            features = {
                side: tf.train.Feature(int64_list=tf.train.Int64List(value=ids.tolist()))
                for side, ids in zip(SIDES, (source, target), strict=True)
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            # by default, the order of the two sides depends on the process
            writer.write(example.SerializeToString(deterministic=True))
            lengths[len(source), len(target)] += 1
    return ShardReport(path.name, lengths.total(), duplicates, _histogram(lengths))


def _histogram(lengths: Counter[tuple[int, int]]) -> list[list[int]]:
    return [[*sides, count] for sides, count in sorted(lengths.items())]


def read_shard(path: str) -> tuple[TokenLists, TokenLists]:
    """Returns the two sides of a shard, in the order of the file.

    Raises:
        ValueError: the file is damaged or incomplete.
    """
    try:
        with tf.device("/CPU:0"):  # called in a thread, and eager operations of several threads fail on a GPU
            chunks = tf.data.TFRecordDataset(path).batch(8192)
            records = [record for chunk in chunks for record in chunk.numpy().tolist()]
            features = {side: tf.io.RaggedFeature(tf.int64) for side in SIDES}
            found = tf.io.parse_example(tf.constant(records, tf.string), features)
            source, target = (
                TokenLists(found[side].flat_values.numpy(), found[side].row_lengths().numpy()) for side in SIDES
            )
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(
            f"{path}: expected an intact shard of token ids; {error.message}. Prepare the corpus again."
        ) from error
    return source, target


def complete(
    folder: Path,
    names: str,
    first: Pair,
    written: Sequence[ShardReport],
    found: ReadReport,
    left_out: Mapping[Rejection, int],
    filters: FilterConfig,
) -> None:
    """Writes ``prepared.json``, which makes a folder of shards a prepared corpus.

    Args:
        folder: Folder of the shards and the tokenizers.
        names: Names of the files that were read, for errors.
        first: The first pair, which shows the direction of the corpus.
        written: Reports of the shards.
        found: Counts of the lines.
        left_out: Number of skipped pairs by reason.
        filters: Filters that were applied.

    Raises:
        OSError: the folder cannot be written.
        ValueError: no pair is left.
    """
    rejected = {str(reason): left_out.get(reason, 0) for reason in Rejection}
    if not any(shard.pairs for shard in written):
        raise ValueError(
            f"filters: expected at least one pair of {names} that passes, received none: {_listed(rejected)}. Loosen "
            "the filters."
        )
    rejected |= {
        Rejection.DUPLICATE: sum(shard.duplicates for shard in written),
        "malformed lines": found.malformed,
    }
    lengths = sum(
        (Counter({(source, target): count for source, target, count in shard.lengths}) for shard in written),
        Counter[tuple[int, int]](),
    )
    record = {
        "format": FORMAT,
        "lines": found.lines,
        "pairs": sum(shard.pairs for shard in written),
        "left_out": rejected,
        "filters": dataclasses.asdict(filters),
        "first": first._asdict(),
        "vocabularies": {side: read_json(folder / side / "text.json")["sha256"] for side in SIDES},
        "shards": [{"file": shard.file, "pairs": shard.pairs} for shard in sorted(written)],
        "lengths": _histogram(lengths),
    }
    with writing(folder, LOST):
        for side in SIDES:  # the Beam pipeline copies the tokenizers without syncing them
            sync_folder(folder / side)
        sync([folder])
    with replacing(folder / RECORD_FILE, LOST) as partial:
        partial.write_text(json.dumps(record, ensure_ascii=False) + "\n", "utf-8")
    remove_leftovers(folder, [shard.file for shard in written])


def _listed(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.items() if count)


class PreparedCorpus:
    """A folder of shards written by ``prepare``.

    Args:
        folder: Path of the folder.

    Raises:
        FileNotFoundError: there is no ``prepared.json``, so the preparation has not finished.
        ValueError: the record has another format, or a shard is missing.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        path = self.folder / RECORD_FILE
        if not path.exists():
            raise FileNotFoundError(f"{path}: expected a prepared corpus, found none. Run nmt prepare first.")
        self.record = read_json(path)
        require_format(path, self.record, [FORMAT], "Or prepare the corpus again.")
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.files = [str(self.folder / shard["file"]) for shard in self.record["shards"]]
        self.first = Pair(**self.record["first"])
        self.sizes = np.array([shard["pairs"] for shard in self.record["shards"]], np.int64)  # pairs of each shard
        self.lengths = np.array(self.record["lengths"], np.int64).reshape(-1, 3)  # source, target, pairs
        for file in self.files:
            if not os.path.exists(file):
                raise ValueError(f"{file}: expected a shard that {path} lists, found none. Prepare the corpus again.")

    def __len__(self) -> int:
        """Number of pairs."""
        return int(self.sizes.sum())

    def require_its_vocabularies(self) -> None:
        """Raises ValueError if the shards were encoded with other tokenizers than those in the folder."""
        for side, recorded in self.record["vocabularies"].items():
            if read_json(self.folder / side / "text.json")["sha256"] != recorded:
                raise ValueError(
                    f"{self.folder / side}: expected the vocabulary with which the shards were encoded, received "
                    "another one. Prepare the corpus again, in a new folder."
                )

    def describe_skipped(self) -> str:
        """Returns the number of skipped pairs by reason, for a message."""
        return _listed(self.record["left_out"]) or "none"


class ShardedBatches:
    """Batches of a prepared corpus. Memory holds a shard, two pools and a few batches.

    An epoch permutes the shards and the pairs of each shard. This sequence of pairs is divided into pools, which are
    sorted and cut as in ``Batches``. The order is a pure function of (seed, epoch). To resume at a pool, the shards
    that contain only earlier pairs are skipped.

    Args:
        corpus: The prepared corpus.
        buckets: Maximum number of buckets; see ``choose_buckets``.
        batch_size: Number of rows of a batch if ``batch_tokens`` is ``None``.
        batch_tokens: Maximum number of target positions of a batch; see ``rows_by_bucket``.
        pool_size: Number of pairs that are sorted together.
        seed: Seed of the order.
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
        self.corpus, self.pool_size, self.seed = corpus, pool_size, seed
        source, target, pairs = corpus.lengths.T
        self.buckets = choose_buckets(source, target, buckets, pairs)
        self.rows = rows_by_bucket(self.buckets, batch_size, batch_tokens)
        first = np.argmax([(source <= bucket.source) & (target <= bucket.target) for bucket in self.buckets], axis=0)
        self.pairs_of = {bucket: int(pairs[first == n].sum()) for n, bucket in enumerate(self.buckets)}

    def __len__(self) -> int:
        """Number of batches of an epoch; an estimate if the number of rows depends on the bucket."""
        sizes = set(self.rows.values())
        if len(sizes) > 1:
            return sum(-(-self.pairs_of[bucket] // size) for bucket, size in self.rows.items())
        (size,) = sizes
        full, rest = divmod(len(self.corpus), self.pool_size)
        return full * -(-self.pool_size // size) + -(-rest // size)

    def masked(self, bucket: Bucket) -> Batch:
        """Returns a batch of masked rows."""
        end = TokenLists(np.array([END]), np.array([1]))
        return self._batches(end, end).masked(bucket)

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields each batch with its position; see ``BatchSource``. Threads read ahead."""
        return prefetched(
            iterate_batches(
                lambda epoch, begin: (
                    (self._batches(source, target), np.arange(len(source)))
                    for source, target in self.pools(epoch, begin)
                ),
                position,
            )
        )

    def pools(self, epoch: int, begin: int = 0) -> Iterator[tuple[TokenLists, TokenLists]]:
        """Yields the two sides of each pool of an epoch, from pool number ``begin``.

        Raises:
            ValueError: a shard is damaged, or does not have the recorded number of pairs.
        """
        shards = np.random.default_rng([self.seed, epoch, 0]).permutation(len(self.corpus.files)).tolist()
        bounds = np.cumsum([0, *self.corpus.sizes[shards]])
        held: dict[int, tuple[TokenLists, TokenLists]] = {}  # the shard that was read last
        for first in range(begin * self.pool_size, len(self.corpus), self.pool_size):
            last = min(first + self.pool_size, len(self.corpus))
            parts = []
            touched = (bounds[:-1] < last) & (bounds[1:] > np.maximum(first, bounds[:-1]))
            for place in np.flatnonzero(touched).tolist():
                shard, start = shards[place], bounds[place]
                if shard not in held:
                    held = {shard: read_shard(self.corpus.files[shard])}
                    require(
                        len(held[shard][0]) == self.corpus.sizes[shard],
                        self.corpus.files[shard],
                        f"{self.corpus.sizes[shard]} pairs, as {RECORD_FILE} records",
                        len(held[shard][0]),
                        "Copy the corpus again, or prepare it again.",
                    )
                rows = np.random.default_rng([self.seed, epoch, 1, shard]).permutation(len(held[shard][0]))
                rows = rows[max(0, first - start) : last - start]
                parts.append((held[shard][0].take(rows), held[shard][1].take(rows)))
            yield TokenLists.joined([source for source, _ in parts]), TokenLists.joined([target for _, target in parts])

    def _batches(self, source: TokenLists, target: TokenLists) -> Batches:
        return Batches(
            source, target, batch_size=self.rows, buckets=self.buckets, pool_size=self.pool_size, seed=self.seed
        )
