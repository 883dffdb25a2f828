"""Filters of training pairs, and the key that assigns a pair to a shard."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from nmt_keras.config import FilterConfig, PairFilters
from nmt_keras.corpus.reading import Pair


class Rejection(StrEnum):
    """Reason for skipping a pair."""

    IDENTICAL = "identical sides"
    TOO_LONG = "too many tokens on a side"
    RATIO = "ratio of lengths too large"


def kept_rows(pairs: Sequence[Pair], filters: PairFilters) -> tuple[list[int], dict[str, int]]:
    """Returns the indices of the pairs that pass the filters of text, and the number that each of these filters skips.

    Of equal pairs, the first is kept.
    """
    rows, skipped = list(range(len(pairs))), {}
    if filters.drop_identical:
        rows = [row for row in rows if reject_text(pairs[row], filters) is None]
        skipped[str(Rejection.IDENTICAL)] = len(pairs) - len(rows)
    if filters.drop_duplicates:
        firsts = sorted({pairs[row]: row for row in reversed(rows)}.values())
        rows, skipped["duplicates"] = firsts, len(rows) - len(firsts)
    return rows, skipped


def reject_text(pair: Pair, filters: PairFilters) -> Rejection | None:
    """Returns the reason for skipping a pair because of its text, or ``None`` to keep it."""
    same = filters.drop_identical and pair.source.strip() == pair.target.strip()
    return Rejection.IDENTICAL if same else None


def reject_lengths(source: int, target: int, truncated: bool, filters: FilterConfig) -> Rejection | None:
    """Returns the reason for skipping a pair because of its lengths, or ``None`` to keep it.

    Args:
        source, target: Number of tokens of each side, END included.
        truncated: If ``True``, a tokenizer truncated one side, so its real length is greater.
        filters: Limits of length and ratio.
    """
    longer, shorter = max(source, target), min(source, target)
    if truncated or longer > filters.max_tokens:
        return Rejection.TOO_LONG
    unlike = filters.max_ratio is not None and longer > filters.max_ratio * shorter
    return Rejection.RATIO if unlike else None


def pair_key(pair: Pair) -> bytes:
    """Returns 16 bytes that identify a pair. They determine its shard and its position there."""
    sides = f"{pair.source}\n{pair.target}".encode()
    return hashlib.blake2b(sides, digest_size=16).digest()


def shard_of(key: bytes, shards: int) -> int:
    """Returns the number of the shard of a pair with ``key``. Equal pairs are in the same shard."""
    return int.from_bytes(key[:8], "big") % shards
