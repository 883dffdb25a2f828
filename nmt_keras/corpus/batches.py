"""Batches of a few static shapes, in an order that is a pure function of (seed, epoch).

An epoch permutes all sentence pairs, takes them in pools, sorts each pool by bucket, cuts it into batches and permutes
the batches (Bahdanau, Cho, Bengio 2014, appendix B.2, sort pools of 1600). Every pair is seen once per epoch: masked
rows fill the last batch of a pool.

Each batch has the same number of sentences. With a number of target positions instead, the number of rows depends on
the bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from nmt_keras.config import END, PAD
from nmt_keras.corpus.alignments import alignment_of

Item = TypeVar("Item")


class Bucket(NamedTuple):
    """The static lengths of a batch, in tokens."""

    source: int  # S
    target: int  # T


class Batch(NamedTuple):
    """Sentence pairs as token ids. A masked row has a source of END alone and a target of PAD alone."""

    source: np.ndarray  # [B, S] int32
    target: np.ndarray  # [B, T] int32, END included
    pairs: int  # real rows
    alignment: np.ndarray | None = None  # [B, T, S] float32: given attention weights; rows without links are 0


class Position(NamedTuple):
    """A place in the order of training: epoch, pool of the epoch and batch of the pool, each counted from 0."""

    epoch: int
    pool: int
    batch: int


class BatchSource(Protocol):
    """The batches of training, which can be resumed at any position."""

    buckets: list[Bucket]

    def __len__(self) -> int:
        """Number of batches of an epoch. It may be an estimate if the number of rows depends on the bucket."""

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields position and batch, from ``position`` on, epoch after epoch without end."""

    def masked(self, bucket: Bucket) -> Batch:
        """Returns a batch of masked rows."""

    def bucket_counts(self, epoch: int) -> dict[Bucket, int]:
        """Returns the number of batches of each bucket in an epoch."""


def iterate_pools(
    pools: Callable[[int, int], Iterator[Sequence[Item]]], position: Position
) -> Iterator[tuple[Position, Item]]:
    """Yields position and item of each pool from ``position`` on, epoch after epoch without end.

    Args:
        pools: Returns the pools of an epoch, from a number on.
        position: The first position.
    """
    epoch, first_pool, first_batch = position
    while True:
        for number, pool in enumerate(pools(epoch, first_pool), first_pool):
            for batch in range(first_batch, len(pool)):
                yield Position(epoch, number, batch), pool[batch]
            first_batch = 0
        epoch, first_pool, first_batch = epoch + 1, 0, 0


def rows_by_bucket(buckets: Sequence[Bucket], batch_size: int, batch_tokens: int | None) -> dict[Bucket, int]:
    """Returns B of each bucket: ``batch_size``, or the rows that ``batch_tokens`` target positions hold, at least 1."""
    if batch_tokens is None:
        return dict.fromkeys(buckets, batch_size)
    return {bucket: max(1, batch_tokens // bucket.target) for bucket in buckets}


class TokenLists:
    """Many token lists in one flat array: sentence i is ``flat[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, flat: np.ndarray, lengths: np.ndarray):
        self.flat = np.asarray(flat, np.int32)
        self.lengths = np.asarray(lengths, np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: np.ndarray) -> TokenLists:
        """Returns the sentences ``rows``, in that order."""
        return TokenLists(np.concatenate([self[row] for row in rows] or [self.flat[:0]]), self.lengths[rows])

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]


def choose_buckets(
    source_lengths: np.ndarray, target_lengths: np.ndarray, count: int, pairs: np.ndarray | None = None
) -> list[Bucket]:
    """Returns the buckets that waste the fewest padded positions on these lengths, from the smallest to the largest.

    A pair belongs to the first bucket that holds its longer side. The boundaries are found exactly, by dynamic
    programming over the longer side's length.

    Args:
        source_lengths, target_lengths: [N] int, tokens.
        count: Maximum number of buckets; each is traced and compiled once.
        pairs: [N] int, number of pairs that have these lengths; ``None`` for one each.
    """
    weights = np.ones(len(source_lengths), np.int64) if pairs is None else pairs
    longer = np.maximum(source_lengths, target_lengths)
    sizes = np.unique(longer)
    widest = np.array([[source_lengths[longer <= n].max(), target_lengths[longer <= n].max()] for n in sizes])
    below = np.concatenate([[0], np.cumsum([weights[longer == n].sum() for n in sizes])])
    best = np.full((count + 1, len(sizes) + 1), np.inf)  # padded positions of the first n sizes in k buckets
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
    return buckets


class Batches:
    """The batches of a corpus in memory.

    Args:
        source, target: The two sides, of equal length.
        batch_size: B, rows of every batch; or by bucket, from :func:`rows_by_bucket`.
        buckets: From :func:`choose_buckets`; the last must hold every pair.
        pool_size: Number of sentence pairs that are sorted together.
        seed: Seed of the order.
        links: [N] of each pair, from ``alignments.token_links``, for guided alignment; ``None`` for none.

    Raises:
        ValueError: the sides differ in length, or there is no pair.
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
                f"source, target: expected two sides of one length, at least 1 pair; "
                f"received {len(source)} and {len(target)}."
            )
        self.source, self.target, self.buckets = source, target, list(buckets)
        self.rows = dict.fromkeys(buckets, batch_size) if isinstance(batch_size, int) else dict(batch_size)
        self.pool_size, self.seed, self.links = pool_size, seed, links
        fits = [(source.lengths <= bucket.source) & (target.lengths <= bucket.target) for bucket in buckets]
        self.bucket_of = np.argmax(fits, axis=0)  # [N] the first bucket that holds the pair

    def __len__(self) -> int:
        """Number of batches of the first epoch; others may differ if the number of rows depends on the bucket."""
        return self._length

    @cached_property
    def _length(self) -> int:
        return len(self.order(0))

    def pools(self, epoch: int, begin: int = 0) -> Iterator[list[np.ndarray]]:
        """Yields the rows of each batch of each pool of an epoch, in order, from pool number ``begin``."""
        rows = np.random.default_rng([self.seed, epoch]).permutation(len(self.source))
        for number in range(begin, -(-len(rows) // self.pool_size)):
            yield self.shuffled(rows[number * self.pool_size :][: self.pool_size], epoch, number)

    def shuffled(self, pool: np.ndarray, epoch: int, number: int) -> list[np.ndarray]:
        """Returns the rows of each batch of pool ``number``, in random order."""
        cuts = self.cut(pool)
        return [cuts[i] for i in np.random.default_rng([self.seed, epoch, 2, number]).permutation(len(cuts))]

    def order(self, epoch: int) -> list[np.ndarray]:
        """Returns the rows of each batch of an epoch, in order."""
        return [rows for pool in self.pools(epoch) for rows in pool]

    def cut(self, pool: np.ndarray) -> list[np.ndarray]:
        """Sorts ``pool`` by bucket and cuts it into batches. Rows left over in a bucket go to the next larger one."""
        pool = pool[np.argsort(self.bucket_of[pool], kind="stable")]
        held = np.searchsorted(self.bucket_of[pool], range(len(self.buckets)), side="right")
        cuts, begin = [], 0
        for bucket, end in zip(self.buckets, held, strict=True):
            size = self.rows[bucket]
            while end - begin >= size:
                cuts.append(pool[begin : begin + size])
                begin += size
        return cuts + [pool[begin:]] * (begin < len(pool))

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Yields position and batch, from ``position`` on, epoch after epoch without end."""
        return ((place, self.batch(rows)) for place, rows in iterate_pools(self.pools, position))

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yields the batches of an epoch."""
        return map(self.batch, self.order(epoch))

    def batch(self, rows: np.ndarray) -> Batch:
        """Returns the batch that holds ``rows``, at most as many as their bucket has."""
        return self.filled(rows, self._bucket(rows))

    def masked(self, bucket: Bucket) -> Batch:
        """Returns a batch of masked rows."""
        return self.filled(np.zeros([0], np.int64), bucket)

    def filled(self, rows: np.ndarray, bucket: Bucket) -> Batch:
        """Returns ``rows`` in a batch of ``bucket``, filled with masked rows."""
        size = self.rows[bucket]
        source = np.full((size, bucket.source), PAD, np.int32)
        target = np.full((size, bucket.target), PAD, np.int32)
        source[len(rows) :, 0] = END
        for i, row in enumerate(rows):
            source[i, : self.source.lengths[row]] = self.source[row]
            target[i, : self.target.lengths[row]] = self.target[row]
        batch = Batch(source, target, len(rows))
        if self.links is None:
            return batch
        links = [self.links[row] for row in rows]
        return batch._replace(alignment=alignment_of(links, size, bucket.target, bucket.source))

    def bucket_counts(self, epoch: int) -> dict[Bucket, int]:
        """Returns the number of batches of each bucket in an epoch."""
        found = [self._bucket(rows) for rows in self.order(epoch)]
        return {bucket: found.count(bucket) for bucket in self.buckets}

    def _bucket(self, rows: np.ndarray) -> Bucket:
        return self.buckets[self.bucket_of[rows].max()]
