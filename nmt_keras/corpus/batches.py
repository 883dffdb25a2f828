"""Batches of few static buckets, in an order that is a pure function of (seed, epoch).

An epoch permutes all sentence pairs, takes them in pools, sorts each pool by bucket, cuts it into batches and permutes
the batches (Bahdanau, Cho, Bengio 2014, appendix B.2, sort pools of 1600). Every pair is seen once per epoch: the last
batch of a pool is filled with masked rows, and nothing is dropped.

A batch has a number of sentences, or as many as a number of target positions holds: then each bucket has its own number
of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from nmt_keras.config import END, PAD
from nmt_keras.corpus.alignments import alignment_of


class Bucket(NamedTuple):
    """The static lengths of a batch, in tokens."""

    source: int  # S
    target: int  # T


class Batch(NamedTuple):
    """Sentence pairs as token ids. A masked row has a source of END alone and a target of PAD alone."""

    source: np.ndarray  # [B, S] int32
    target: np.ndarray  # [B, T] int32, END included
    pairs: int  # real rows
    alignment: np.ndarray | None = None  # [B, T, S] float32: where each target token should look; 0 where nobody says


class Position(NamedTuple):
    """A place in the order of training: a batch of a pool of an epoch, each counted from 0."""

    epoch: int
    pool: int
    batch: int


class BatchSource(Protocol):
    """What training reads: batches in an order that can be entered anywhere."""

    buckets: list[Bucket]

    def __len__(self) -> int:
        """Batches of an epoch; of one that nobody has gone through yet, as they are expected."""

    def iterate(self, position: Position) -> Iterator[tuple[Position, Batch]]:
        """Every batch from ``position`` on, epoch after epoch without end, with its own position."""

    def masked(self, bucket: Bucket) -> Batch:
        """A batch of masked rows alone."""

    def bucket_counts(self, epoch: int) -> dict[Bucket, int]:
        """How many batches of each bucket an epoch has."""


def rows_by_bucket(buckets: Sequence[Bucket], batch_size: int, batch_tokens: int | None) -> dict[Bucket, int]:
    """B of each bucket: ``batch_size`` sentences, or as many as ``batch_tokens`` target positions hold, at least 1."""
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
        """The sentences ``rows``, in that order."""
        return TokenLists(np.concatenate([self[row] for row in rows] or [self.flat[:0]]), self.lengths[rows])

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]


def choose_buckets(
    source_lengths: np.ndarray, target_lengths: np.ndarray, count: int, pairs: np.ndarray | None = None
) -> list[Bucket]:
    """At most ``count`` buckets, growing on both sides, that waste the fewest padded positions on these lengths.

    A pair belongs to the first bucket that holds its longer side. The boundaries are found exactly, by dynamic
    programming over the longer side's length.

    Args:
        source_lengths, target_lengths: [N] int, tokens.
        count: buckets; each is traced and compiled once.
        pairs: [N] int, how many pairs have these lengths; None for one each.
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
    buckets, n = [], len(sizes)
    for k in range(count, 0, -1):
        if n == 0:
            break
        buckets.append(Bucket(*(int(x) for x in widest[n - 1])))
        n = previous[k, n]
    return buckets[::-1]


class Batches:
    """The training pairs as batches.

    Args:
        source, target: the two sides, of equal length.
        batch_size: B, rows of every batch; or by bucket, from :func:`rows_by_bucket`.
        buckets: from :func:`choose_buckets`; the last must hold every pair.
        pool_size: sentence pairs that are sorted together.
        seed: of the order.
        links: [N] of each pair, from ``alignments.token_links``, for guided alignment; None for none.

    Raises:
        ValueError: the sides differ in length, there is no pair, or a pair fits no bucket.
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
        fits = [(source.lengths <= bucket.source) & (target.lengths <= bucket.target) for bucket in buckets]
        if not fits[-1].all():
            row = int(np.argmin(fits[-1]))
            raise ValueError(
                f"buckets: expected the last to hold every pair, received {buckets[-1]} for a pair of "
                f"{source.lengths[row]} and {target.lengths[row]} tokens. Filter the corpus or add a bucket."
            )
        self.source, self.target, self.buckets = source, target, list(buckets)
        self.rows = dict.fromkeys(buckets, batch_size) if isinstance(batch_size, int) else dict(batch_size)
        self.pool_size, self.seed, self.links = pool_size, seed, links
        self.bucket_of = np.argmax(fits, axis=0)  # [N] the first bucket that holds the pair

    def __len__(self) -> int:
        """Batches of an epoch; where rows differ by bucket, of the first."""
        return self._length

    @cached_property
    def _length(self) -> int:
        if len(set(self.rows.values())) > 1:
            return len(self.order(0))
        size = next(iter(self.rows.values()))
        full, rest = divmod(len(self.source), self.pool_size)
        return full * -(-self.pool_size // size) + -(-rest // size)

    def pools(self, epoch: int, begin: int = 0) -> Iterator[list[np.ndarray]]:
        """The rows of each batch of each pool of an epoch, in order, from pool number ``begin``."""
        rows = np.random.default_rng([self.seed, epoch]).permutation(len(self.source))
        for number in range(begin, -(-len(rows) // self.pool_size)):
            cuts = self.cut(rows[number * self.pool_size :][: self.pool_size])
            order = np.random.default_rng([self.seed, epoch, 2, number]).permutation(len(cuts))
            yield [cuts[i] for i in order]

    def order(self, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch, in order."""
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
        """Every batch from ``position`` on, epoch after epoch without end, with its own position."""
        return ((place, self.batch(rows)) for place, rows in self.places(position))

    def places(self, position: Position) -> Iterator[tuple[Position, np.ndarray]]:
        """The rows of every batch from ``position`` on, epoch after epoch without end, with its position."""
        epoch, first_pool, first_batch = position
        while True:
            for number, pool in enumerate(self.pools(epoch, first_pool), first_pool):
                for batch in range(first_batch, len(pool)):
                    yield Position(epoch, number, batch), pool[batch]
                first_batch = 0
            epoch, first_pool, first_batch = epoch + 1, 0, 0

    def epoch(self, epoch: int, begin: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from number ``begin``."""
        for rows in self.order(epoch)[begin:]:
            yield self.batch(rows)

    def batch(self, rows: np.ndarray) -> Batch:
        """The batch that holds ``rows``, at most as many as their bucket has."""
        return self.filled(rows, self._shape(rows))

    def masked(self, bucket: Bucket) -> Batch:
        """A batch of masked rows alone."""
        return self.filled(np.zeros([0], np.int64), bucket)

    def filled(self, rows: np.ndarray, bucket: Bucket) -> Batch:
        """``rows`` in a batch of ``bucket``; what is missing to its number of rows is masked."""
        size = self.rows[bucket]
        source = np.full((size, bucket.source), PAD, np.int32)
        target = np.full((size, bucket.target), PAD, np.int32)
        source[len(rows) :, 0] = END
        for i, row in enumerate(rows):
            source[i, : self.source.lengths[row]] = self.source[row]
            target[i, : self.target.lengths[row]] = self.target[row]
        if self.links is None:
            return Batch(source, target, len(rows))
        return Batch(
            source,
            target,
            len(rows),
            alignment_of([self.links[row] for row in rows], size, bucket.target, bucket.source),
        )

    def bucket_counts(self, epoch: int) -> dict[Bucket, int]:
        """How many batches of each bucket an epoch has."""
        counts = dict.fromkeys(self.buckets, 0)
        for rows in self.order(epoch):
            counts[self._shape(rows)] += 1
        return counts

    def _shape(self, rows: np.ndarray) -> Bucket:
        return self.buckets[self.bucket_of[rows].max()]
