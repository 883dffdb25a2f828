"""Sentence pairs with gold word alignments, read from one file."""

from pathlib import Path
from typing import NamedTuple

from nmt_keras.config import require
from nmt_keras.corpus.alignments import GoldLinks, from_pharaoh
from nmt_keras.io.lines import read_lines


class GoldPair(NamedTuple):
    """A sentence pair and its word alignment. Spaces separate the words."""

    source: str
    target: str
    links: GoldLinks


def read_gold(path: Path) -> list[GoldPair]:
    """Returns the pairs of a file with three columns, separated by tabs: source words, target words and links.

    Links have Pharaoh's format: ``0-0`` is sure, ``1p2`` possible.

    Raises:
        ValueError: a line does not have three columns, or its links are malformed or beyond the words.
    """
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        require(
            len(columns) == 3, f"{path}:{number}", "source words, target words and links", f"{len(columns)} columns"
        )
        source, target, links = columns
        pairs.append(GoldPair(source, target, from_pharaoh(links, f"{path}:{number}", (source, target))))
    return pairs
