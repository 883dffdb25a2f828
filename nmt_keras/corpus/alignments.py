"""Word alignments of sentence pairs in Pharaoh's format, and the token alignments derived from them.

A line such as ``0-0 1p2`` links word 0 of the source with word 0 of the target (sure) and word 1 with word 2
(possible). Spaces and tabs separate the words, as for fast_align, eflomal and awk; other white space, such as U+00A0,
is part of a word. A tokenizer may split a word into several tokens. Each token belongs to the word that contains it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from nmt_keras.io.lines import INVISIBLE, JOINERS

LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})")
_STRAY = f"(?<!\\S)[{JOINERS}]+"  # normalisation drops them, after ``INVISIBLE``
SPACE = "▁"  # stands for a space in SentencePiece tokens

Link = tuple[int, int]
"""Positions of a source word and the target word that translates it, counted from 0."""


class GoldLinks(NamedTuple):
    """Gold links of a sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # includes the sure links


def from_pharaoh(line: str, where: str = "line", pair: tuple[str, str] | None = None) -> GoldLinks:
    """Returns the links of a line in Pharaoh's format: ``i-j`` is sure, ``ipj`` possible.

    Args:
        line: The line.
        where: Name of the line in errors.
        pair: Source and target sentence. ``None`` allows all links.

    Raises:
        ValueError: the line has another format, or a link is beyond the words of ``pair``.
    """
    words = None if pair is None else [len(split_words(side)) for side in pair]
    sure: set[Link] = set()
    possible: set[Link] = set()
    for item in line.split():
        match = LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"{where}: expected links such as 0-0 (sure) or 1p2 (possible), received {item!r:.40}.")
        link = int(match[1]), int(match[3])
        if words is not None and not (link[0] < words[0] and link[1] < words[1]):
            raise ValueError(
                f"{where}: expected links between {words[0]} source and {words[1]} target words, counted from 0, "
                f"received {item}. If the file counts words from 1, subtract 1 from all numbers."
            )
        (sure if match[2] == "-" else possible).add(link)
    return GoldLinks(frozenset(sure), frozenset(sure | possible))


def to_pharaoh(links: Iterable[Link]) -> str:
    """Returns links as a line in Pharaoh's format."""
    return " ".join(f"{source}-{target}" for source, target in links)


def split_words(sentence: str) -> list[str]:
    """Returns the words that spaces and tabs separate."""
    return re.findall(r"[^ \t]+", sentence)


def normalised_words(sentence: str, written: str) -> list[list[str]]:
    """Returns the parts of each word of a sentence after normalisation: two for "10\xa0km", none for U+200B.

    Args:
        sentence: The normalised text of the sentence.
        written: The sentence as written.
    """
    parts = iter(sentence.split())
    return [
        list(islice(parts, len(re.sub(_STRAY, "", re.sub(INVISIBLE, "", word)).split())))
        for word in split_words(written)
    ]


def words_of_tokens(sentence: str, surfaces: Sequence[str], written: str) -> list[int]:
    """Returns for each token the position of the word that contains it; -1 for a token without a word, such as END.

    Args:
        sentence: The normalised text of the sentence.
        surfaces: Surfaces of its tokens; see ``text.tokens.Tokens``. The last tokens may be missing.
        written: The sentence as written.
    """
    begins = [part.start() for part in re.finditer(r"\S+", sentence)]
    word_of = [word for word, parts in enumerate(normalised_words(sentence, written)) for _ in parts]
    words, position = [], 0
    for surface in surfaces:
        sign = surface.replace(SPACE, " ").strip()
        found = sentence.find(sign, position) if sign else -1
        if found < 0:
            words.append(-1)
            continue
        words.append(word_of[bisect_right(begins, found) - 1])
        position = found + len(sign)
    return words


def token_links(links: Iterable[Link], source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """Converts links between words to links between tokens.

    Every token of one word is linked with every token of the other. Links to words beyond the tokenizer's length limit
    are dropped.

    Args:
        links: Links between words.
        source_words, target_words: Position of the word of each token; see ``words_of_tokens``.

    Returns:
        An int32 array with one row (source token, target token) per link, sorted.
    """
    found = [
        (s, t)
        for source, target in links
        for s, word in enumerate(source_words)
        if word == source
        for t, other in enumerate(target_words)
        if other == target
    ]
    return np.array(sorted(set(found)), np.int32).reshape(-1, 2)


def alignment_of(links: Sequence[np.ndarray], rows: int, target: int, source: int) -> np.ndarray:
    """Returns reference attention weights.

    The weights of a target token are uniform over its linked source tokens. They are 0 if the token has no link.

    Args:
        links: Links of each pair, from ``token_links``. The remaining rows have no links.
        rows, target, source: Shape of the batch.

    Returns:
        [rows, target, source] float32.
    """
    wanted = np.zeros([rows, target, source], np.float32)
    for row, pairs in enumerate(links):
        wanted[row, pairs[:, 1], pairs[:, 0]] = 1.0
    return wanted / np.maximum(wanted.sum(axis=2, keepdims=True), 1.0)
