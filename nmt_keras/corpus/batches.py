"""Batches of a few static shapes, in an order that is a pure function of (seed, epoch).

An epoch permutes all sentence pairs and divides them into pools. Each pool is sorted by bucket and cut into batches,
which are permuted. (Bahdanau, Cho, Bengio 2014, appendix B.2, sort pools of 1600 pairs.) Every pair occurs once per
epoch. Masked rows fill the last batch of a pool.

All batches have the same number of rows, unless the batch size is given in target positions. The number of rows then
depends on the bucket, and masked rows fill the last batch of some buckets.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from nmt_keras.config import END, PAD, TrainConfig
from nmt_keras.corpus.alignments import alignment_of

Item = TypeVar("Item")


class Bucket(NamedTuple):
    """The static lengths of a batch, in tokens."""

    source: int  # S
    target: int  # T


class Batch(NamedTuple):
    """Sentence pairs as token ids. In a masked row, the source is a single END and the target has only PAD."""

    source: np.ndarray  # [B, S] int32
    target: np.ndarray  # [B, T] int32, END included
    pairs: int  # number of rows that are not masked
    alignment: np.ndarray | None = None  # [B, T, S] float32, reference attention weights; see ``alignment_of``


class Position(NamedTuple):
    """Position in the training order: epoch, pool in the epoch and batch in the pool, each counted from 0."""

    epoch: int
    pool: int
    batch: int


class BatchSource(Protocol):
    """Batches for training. Iteration can resume at any position."""

    buckets: list[Bucket]

    def __len__(self) -> int:
        """Number of batches of an epoch. This may be an estimate if the number of rows depends on the bucket."""

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields each batch with its position, starting at ``position``. Epochs follow each other without end."""

    def masked(self, bucket: Bucket) -> Batch:
        """Returns a batch of masked rows."""


def prefetched(items: Iterator[Item], ahead: int = 8) -> Iterator[Item]:
    """Yields the items in order. A thread computes up to ``ahead`` items in advance.

    An error of ``items`` is raised after the items that precede it. The thread ends with the returned iterator.
    """
    end: Any = object()
    worker = ThreadPoolExecutor(max_workers=1)
    waiting = deque(worker.submit(next, items, end) for _ in range(ahead))
    try:
        while (item := waiting.popleft().result()) is not end:
            waiting.append(worker.submit(next, items, end))
            yield item
    finally:
        worker.shutdown(cancel_futures=True)


def rows_by_bucket(buckets: Sequence[Bucket], batch_size: int, batch_tokens: int | None) -> dict[Bucket, int]:
    """Returns the number of rows B of each bucket.

    Args:
        buckets: The buckets.
        batch_size: Number of rows of every bucket if ``batch_tokens`` is ``None``.
        batch_tokens: Maximum number of target positions of a batch. Each bucket has at least one row.
    """
    if batch_tokens is None:
        return dict.fromkeys(buckets, batch_size)
    return {bucket: max(1, batch_tokens // bucket.target) for bucket in buckets}


class TokenLists:
    """Token ids of many sentences in one flat array. Sentence i is ``flat[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, flat: np.ndarray, lengths: np.ndarray):
        self.flat = np.asarray(flat, np.int32)
        self.lengths = np.asarray(lengths, np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])

    @classmethod
    def joined(cls, parts: Sequence[TokenLists]) -> TokenLists:
        """Returns the sentences of several parts."""
        flat = np.concatenate([np.zeros([0], np.int32), *(part.flat for part in parts)])
        return cls(flat, np.concatenate([np.zeros([0], np.int64), *(part.lengths for part in parts)]))

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: np.ndarray) -> TokenLists:
        """Returns the sentences with the indices ``rows``, in that order."""
        return TokenLists(np.concatenate([self[row] for row in rows] or [self.flat[:0]]), self.lengths[rows])

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]


BATCHES_PER_BUCKET = 16
"""Minimum number of batches of an epoch for each length bucket."""

MINUTES_PER_BUCKET = 2.0
"""Minimum length of a training for each length bucket. The compilation of one takes 3 to 60 seconds."""


def bucket_count(config: TrainConfig, pairs: int) -> int:
    """Returns the number of length buckets: fewer than ``length_buckets`` for a short training or few pairs."""
    minutes = math.inf if config.minutes is None else config.minutes / MINUTES_PER_BUCKET
    return int(min(config.length_buckets, 1.0 + pairs / (BATCHES_PER_BUCKET * config.batch_size), 1.0 + minutes))


def choose_buckets(
    source_lengths: np.ndarray, target_lengths: np.ndarray, count: int, pairs: np.ndarray | None = None
) -> list[Bucket]:
    """Returns buckets with few padded positions for the given lengths, smallest bucket first.

    A pair belongs to the first bucket that is long enough for it. Pairs are ordered by their longer side, or by the
    side that is longer in relation to the mean of its side, because a sentence has more characters than words. The
    buckets are the best ones of the better order.

    Args:
        source_lengths, target_lengths: [N] int, in tokens.
        count: Maximum number of buckets. Each bucket is compiled once.
        pairs: [N] int, number of pairs with these lengths; ``None`` for one each.
    """
    weights = np.ones(len(source_lengths), np.int64) if pairs is None else pairs
    lengths = np.stack([source_lengths, target_lengths])  # [2, N]
    scales = (weights @ lengths.T)[::-1, np.newaxis]  # so that both sides have the same mean
    orders = [np.max(lengths, axis=0), np.max(lengths * scales, axis=0)]
    found = [_best_buckets(order, lengths, weights, count) for order in orders]
    return min(found, key=lambda each: each[0])[1]


def _best_buckets(
    order: np.ndarray, lengths: np.ndarray, weights: np.ndarray, count: int
) -> tuple[float, list[Bucket]]:
    """Returns the fewest positions, padding included, of buckets with neighbours in the order, and these buckets."""
    sizes, places = np.unique(order, return_inverse=True)
    widest = np.zeros([len(sizes), 2], int)
    np.maximum.at(widest, places, lengths.T)
    widest = np.maximum.accumulate(widest)
    below = np.concatenate([[0], np.cumsum(np.bincount(places, weights))])
    best = np.full((count + 1, len(sizes) + 1), np.inf)  # [k, n]: minimum positions of the first n sizes in k buckets
    best[:, 0] = 0.0
    previous = np.zeros(best.shape, int)
    for k in range(1, count + 1):
        for n in range(1, len(sizes) + 1):
            cost = best[k - 1, :n] + (below[n] - below[:n]) * widest[n - 1].sum()
            previous[k, n] = int(cost.argmin())
            best[k, n] = cost.min()
    buckets: list[Bucket] = []
    n, k = len(sizes), count
    while n > 0:
        buckets.insert(0, Bucket(*widest[n - 1].tolist()))
        n, k = previous[k, n], k - 1
    return best[count, -1], buckets


class Batches:
    """Batches of a corpus in memory.

    Args:
        source, target: The sentences of the two sides, in the same order.
        batch_size: Number of rows B, for all batches or for each bucket (see :func:`rows_by_bucket`).
        buckets: Buckets from :func:`choose_buckets`. Every pair must fit into the last one.
        pool_size: Number of sentence pairs that are sorted together.
        seed: Seed of the order.
        links: Links of each of the N pairs, from ``alignments.token_links``, for guided alignment; ``None`` for no
            links.

    Raises:
        ValueError: the sides have different numbers of sentences, or none.
    """

    def __init__(
        self,
        source: TokenLists,
        target: TokenLists,
        *,
        batch_size: int | Mapping[Bucket, int],
        buckets: Sequence[Bucket],
        pool_size: int,
        seed: int,
        links: Sequence[np.ndarray] | None = None,
    ):
        if len(source) != len(target) or not len(source):
            raise ValueError(
                f"source, target: expected the same number of sentences, at least 1; "
                f"received {len(source)} and {len(target)}."
            )
        self.source, self.target, self.buckets = source, target, list(buckets)
        self.rows = dict.fromkeys(buckets, batch_size) if isinstance(batch_size, int) else dict(batch_size)
        self.pool_size, self.seed, self.links = pool_size, seed, links
        fits = [(source.lengths <= bucket.source) & (target.lengths <= bucket.target) for bucket in buckets]
        self.bucket_of = np.argmax(fits, axis=0)  # [N] the first bucket into which the pair fits

    def __len__(self) -> int:
        """Number of batches of the first epoch. Other epochs may differ if the number of rows depends on the bucket."""
        return len(self.order(0))

    def rows_of_pools(self, epoch: int, begin: int) -> Iterator[np.ndarray]:
        """Yields the rows of each pool of an epoch, from pool ``begin``."""
        rows = np.random.default_rng([self.seed, epoch]).permutation(len(self.source))
        for number in range(begin, -(-len(rows) // self.pool_size)):
            yield rows[number * self.pool_size :][: self.pool_size]

    def shuffled(self, pool: np.ndarray, epoch: int, number: int) -> list[np.ndarray]:
        """Returns the rows of each batch of pool ``number``, in random order."""
        cuts = self.cut(pool)
        return [cuts[i] for i in np.random.default_rng([self.seed, epoch, 2, number]).permutation(len(cuts))]

    def order(self, epoch: int) -> list[np.ndarray]:
        """Returns the rows of each batch of an epoch, in the order of training."""
        pools = enumerate(self.rows_of_pools(epoch, 0))
        return [rows for number, pool in pools for rows in self.shuffled(pool, epoch, number)]

    def cut(self, pool: np.ndarray) -> list[np.ndarray]:
        """Sorts ``pool`` by bucket and cuts it into batches. The rest of a bucket joins the next bucket."""
        pool = pool[np.argsort(self.bucket_of[pool], kind="stable")]
        held = np.searchsorted(self.bucket_of[pool], range(len(self.buckets)), side="right")
        ends = [0]
        for bucket, end in zip(self.buckets, held, strict=True):
            ends.extend(range(ends[-1] + self.rows[bucket], end + 1, self.rows[bucket]))
        return [rows for rows in np.split(pool, ends[1:]) if len(rows)]

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields each batch with its position; see ``BatchSource``. A thread shuffles the next pool."""
        return iterate_batches(
            lambda epoch, begin: ((self, rows) for rows in self.rows_of_pools(epoch, begin)), position
        )

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yields the batches of an epoch."""
        return map(self.batch, self.order(epoch))

    def masked(self, bucket: Bucket) -> Batch:
        """Returns a batch of masked rows."""
        return self.batch(np.zeros([0], np.int64), bucket)

    def batch(self, rows: np.ndarray, bucket: Bucket | None = None) -> Batch:
        """Returns a batch of ``rows``, filled up with masked rows.

        Args:
            rows: Indices of the pairs.
            bucket: Lengths of the batch. Default: the largest one among the rows' buckets.
        """
        bucket = bucket or self.buckets[self.bucket_of[rows].max()]
        size = self.rows[bucket]
        source = np.full((size, bucket.source), PAD, np.int32)
        target = np.full((size, bucket.target), PAD, np.int32)
        source[len(rows) :, 0] = END
        for i, row in enumerate(rows):
            source[i, : self.source.lengths[row]] = self.source[row]
            target[i, : self.target.lengths[row]] = self.target[row]
        alignment = None
        if self.links is not None:
            alignment = alignment_of([self.links[row] for row in rows], size, bucket.target, bucket.source)
        return Batch(source, target, len(rows), alignment)


def iterate_batches(
    pools: Callable[[int, int], Iterator[tuple[Batches, np.ndarray]]], position: Position
) -> Iterator[tuple[Position, Batch]]:
    """Yields the batches of pools with their positions; see ``BatchSource``. A thread computes one pool ahead.

    Args:
        pools: Function that yields for each pool of an epoch batches that contain its pairs, and the rows of the pairs.
            Arguments: number of the epoch, number of the first pool.
        position: Position of the first batch.
    """

    def cut() -> Iterator[tuple[int, int, Batches, list[np.ndarray]]]:
        for epoch in itertools.count(position.epoch):
            begin = position.pool if epoch == position.epoch else 0
            for number, (batches, rows) in enumerate(pools(epoch, begin), begin):
                yield epoch, number, batches, batches.shuffled(rows, epoch, number)

    for epoch, number, batches, cuts in prefetched(cut(), ahead=1):
        for batch in range(position.batch if (epoch, number) == position[:2] else 0, len(cuts)):
            yield Position(epoch, number, batch), batches.batch(cuts[batch])
