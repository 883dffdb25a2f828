"""Filters of pairs, and the key that assigns a pair to a shard."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from nmt_keras.config import PairFilters
from nmt_keras.corpus.reading import Pair
from nmt_keras.languages import split_words


class Rejection(StrEnum):
    """Reason for skipping a pair."""

    IDENTICAL = "identical sides"
    RATIO = "ratio of lengths too large"
    TOO_LONG = "too many tokens on a side"
    DUPLICATE = "duplicate pairs"


def kept_rows(pairs: Sequence[Pair], filters: PairFilters) -> tuple[list[int], Counter[Rejection]]:
    """Returns the indices of the pairs that pass the filters, and the number of skipped pairs by reason.

    Of equal pairs, the first is kept.
    """
    reasons = [reject_text(pair, filters) for pair in pairs]
    if filters.drop_duplicates:
        first = {pair: row for row, pair in reversed([*enumerate(pairs)])}
        reasons = [
            reason or (Rejection.DUPLICATE if first[pair] < row else None)
            for row, (pair, reason) in enumerate(zip(pairs, reasons, strict=True))
        ]
    return [row for row, reason in enumerate(reasons) if reason is None], Counter(filter(None, reasons))


def reject_text(pair: Pair, filters: PairFilters) -> Rejection | None:
    """Returns the reason for skipping a pair because of its text, or ``None`` to keep it."""
    if filters.drop_identical and pair.source.strip() == pair.target.strip():
        return Rejection.IDENTICAL
    if filters.max_ratio is None:
        return None
    shorter, longer = sorted(1 + len(split_words(side)) for side in pair)  # and END
    return Rejection.RATIO if longer > filters.max_ratio * shorter else None


def pair_key(pair: Pair) -> bytes:
    """Returns 16 bytes that identify a pair. They determine its shard and its position there."""
    return hashlib.blake2b(f"{pair.source}\n{pair.target}".encode(), digest_size=16).digest()


MAX_SHARDS = 512  # all are open at once while pairs are encoded


def shard_of(key: bytes, shards: int) -> int:
    """Returns the number of the shard of a pair with ``key``. Equal pairs are in the same shard."""
    return int.from_bytes(key[:8], "big") % shards
