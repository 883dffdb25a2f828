"""Word alignments of training pairs, given from outside, as the tokens of a batch need them (guided alignment).

An alignment is a line in Pharaoh's format, ``0-0 1-2``: word 0 of the source with word 0 of the target, and so on,
words being what white space parts. A text cuts words into other tokens; a token belongs to the word that it stands in.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

LINK = re.compile(r"(\d+)-(\d+)")
SPACE = "▁"  # what SentencePiece writes for it


def parse_links(line: str, where: str) -> list[tuple[int, int]]:
    """The (source word, target word) pairs of a line in Pharaoh's format. Raises ValueError naming ``where``."""
    links = []
    for part in line.split():
        found = LINK.fullmatch(part)
        if found is None:
            raise ValueError(f"{where}: expected links such as 0-0 1-2, received {part!r:.40}. Repair the line.")
        links.append((int(found[1]), int(found[2])))
    return links


def words_of_tokens(sentence: str, surfaces: Sequence[str]) -> list[int]:
    """The number of the word that each token stands in, from 0; -1 for one that stands in none, as END.

    Args:
        sentence: as it is written.
        surfaces: its tokens as they are displayed; the ones that a text cut off may be missing.
    """
    sentence = unicodedata.normalize("NFC", sentence)
    begins = [word.start() for word in re.finditer(r"\S+", sentence)]
    words, position = [], 0
    for surface in surfaces:
        sign = unicodedata.normalize("NFC", surface).replace(SPACE, " ").strip()
        found = sentence.find(sign, position) if sign else -1
        if found < 0:
            words.append(-1)
            continue
        words.append(bisect_right(begins, found) - 1)
        position = found + len(sign)
    return words


def token_links(
    links: Sequence[tuple[int, int]], source_words: Sequence[int], target_words: Sequence[int]
) -> np.ndarray:
    """The links between tokens, [L, 2] int32 (source token, target token), that links between words mean.

    Every token of the one word is linked with every token of the other. Links to words that are not there, because a
    text has cut the sentence, mean none.
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
    """[rows, target, source] float32: where each target token should look, evenly over its links; 0 where it has none.

    Args:
        links: of the first rows, from ``token_links``.
        rows, target, source: the shape of the batch.
    """
    wanted = np.zeros([rows, target, source], np.float32)
    for row, pairs in enumerate(links):
        wanted[row, pairs[:, 1], pairs[:, 0]] = 1.0
    return wanted / np.maximum(wanted.sum(axis=2, keepdims=True), 1.0)
