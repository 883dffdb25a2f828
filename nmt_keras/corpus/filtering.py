"""Filters of a prepared corpus, and the key that assigns a pair to its shard: pure functions of a pair."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from nmt_keras.config import FilterConfig
from nmt_keras.corpus.reading import Pair


class Rejection(StrEnum):
    """Why a pair is skipped."""

    IDENTICAL = "identical sides"
    TOO_LONG = "more than max_tokens of filter or text on a side"
    RATIO = "sides too unlike in length"


def reject_text(pair: Pair, filters: FilterConfig) -> Rejection | None:
    """Returns why the text of a pair is skipped; ``None`` keeps the pair."""
    same = filters.drop_identical and pair.source.strip() == pair.target.strip()
    return Rejection.IDENTICAL if same else None


def reject_lengths(source: int, target: int, truncated: bool, filters: FilterConfig) -> Rejection | None:
    """Returns why the lengths of a pair are skipped; ``None`` keeps the pair.

    Args:
        source, target: Number of tokens of each side, END included.
        truncated: If ``True``, a tokenizer cut one side, so that its true length is greater.
        filters: The limits.
    """
    longer, shorter = max(source, target), min(source, target)
    if truncated or longer > filters.max_tokens:
        return Rejection.TOO_LONG
    unlike = filters.max_ratio is not None and longer > filters.max_ratio * shorter
    return Rejection.RATIO if unlike else None


def pair_key(pair: Pair) -> bytes:
    """Returns sixteen bytes that identify a pair. They decide its shard and its place there."""
    sides = f"{pair.source}\n{pair.target}".encode()
    return hashlib.blake2b(sides, digest_size=16).digest()


def shard_of(key: bytes, shards: int) -> int:
    """Returns the shard of a pair; equal pairs have the same shard."""
    return int.from_bytes(key[:8], "big") % shards
