"""Sentence pairs with gold word alignments, read from one file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from nmt_keras.config import require
from nmt_keras.corpus.alignments import GoldLinks, from_pharaoh


class GoldPair(NamedTuple):
    """A sentence pair and its word alignment. Spaces separate the words."""

    source: str
    target: str
    links: GoldLinks


def read_gold(path: Path) -> list[GoldPair]:
    """Returns the pairs of a file with three columns, separated by tabs: source words, target words and links.

    Links have Pharaoh's format: ``0-0`` is sure, ``1p2`` possible.

    Raises:
        ValueError: a line does not have three columns, or its links are malformed.
    """
    pairs = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        columns = line.split("\t")
        require(
            len(columns) == 3, f"{path}:{number}", "source words, target words and links", f"{len(columns)} columns"
        )
        pairs.append(GoldPair(columns[0], columns[1], from_pharaoh(columns[2], f"{path}:{number}")))
    return pairs
