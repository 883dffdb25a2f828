"""Which pairs of a large corpus are worth training on: pure functions of a pair, for one machine and for many."""

from __future__ import annotations

import hashlib
from enum import Enum

from nmt_keras.config import FilterConfig
from nmt_keras.corpus.reading import Pair


class Rejection(Enum):
    """Why a pair is left out of a prepared corpus."""

    IDENTICAL = "identical sides"
    TOO_LONG = "more than max_tokens of filter or text on a side"
    RATIO = "sides too unlike in length"
    DUPLICATE = "duplicate pairs"


def reject_text(pair: Pair, filters: FilterConfig) -> Rejection | None:
    """Why a pair is left out for its text; None keeps it."""
    if filters.drop_identical and pair.source.strip() == pair.target.strip():
        return Rejection.IDENTICAL
    return None


def reject_lengths(source: int, target: int, truncated: bool, filters: FilterConfig) -> Rejection | None:
    """Why a pair is left out for its lengths in tokens, END included; None keeps it.

    Args:
        source, target: tokens of each side.
        truncated: whether a text cut one of them, so that its true length is greater.
        filters: the limits.
    """
    if truncated or max(source, target) > filters.max_tokens:
        return Rejection.TOO_LONG
    if filters.max_ratio is not None and max(source, target) > filters.max_ratio * min(source, target):
        return Rejection.RATIO
    return None


def pair_key(pair: Pair) -> bytes:
    """Sixteen bytes that tell a pair from every other one; they decide its shard and its place there."""
    sides = f"{pair.source}\n{pair.target}".encode()
    return hashlib.blake2b(sides, digest_size=16).digest()


def shard_of(key: bytes, shards: int) -> int:
    """The shard that a pair belongs to: equal pairs meet in one, whoever reads them."""
    return int.from_bytes(key[:8], "big") % shards
