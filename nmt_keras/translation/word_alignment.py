"""Words instead of pieces: an alignment of tokens as an alignment of words, and as links between words.

A model reads and writes words, or SentencePiece pieces such as "▁hos" "pi" "tal", where "▁" stands for the space in
front of a word. People read words: heatmaps, the page and the alignment error rate all show what ``align_words`` makes.
A sentence ends in the token "", END.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

SPACE = "▁"

Link = tuple[int, int]
"""A source word and a target word that belong together, by their positions from 0."""


class WordAlignment(NamedTuple):
    """What each target word looked at."""

    source: list[str]  # S source words; the last is END's ""
    target: list[str]  # T target words; the last is END's "" unless the length limit came first
    weights: np.ndarray  # [T, S] float; row t says where target word t looked, and sums to 1


def align_words(source_tokens: Sequence[str], target_tokens: Sequence[str], alignment: ArrayLike) -> WordAlignment:
    """The alignment of a sentence's words: summed over the pieces of a source word, averaged over a target word's.

    A piece that is but a space belongs to what follows it, be it the sentence's end. Where no token begins with "▁",
    each token is a word.

    Args:
        source_tokens: S tokens, without padding.
        target_tokens: T tokens, without padding.
        alignment: [T, S]; row t says where target token t looked.

    Raises:
        ValueError: ``alignment`` is of another shape.
    """
    weights = np.asarray(alignment)
    expected = (len(target_tokens), len(source_tokens))
    if weights.shape != expected:
        raise ValueError(
            f"alignment: expected shape [target tokens, source tokens] = {expected}, received {weights.shape}. "
            "Cut the padding off, keep END."
        )
    source, target = _grouped(source_tokens), _grouped(target_tokens)
    merged = _merged(weights, [word.positions for word in source], [word.positions for word in target])
    return WordAlignment([word.text for word in source], [word.text for word in target], merged)


def written_words(aligned: WordAlignment, source: str, target: str) -> WordAlignment:
    """The alignment of what spaces separate in ``source`` and ``target``, as other tools count words.

    A word text's tokens "casa" and "," are one word of "La casa, Tom"; END stays a word of its own. Where a word is not
    found in its sentence, in order, the words of that side stay as they are.
    """
    sides = [_in_sentence(aligned.source, source), _in_sentence(aligned.target, target)]
    weights = _merged(aligned.weights, *([word.positions for word in side] for side in sides))
    return WordAlignment([word.text for word in sides[0]], [word.text for word in sides[1]], weights)


def links(aligned: WordAlignment) -> list[Link]:
    """Each target word with the source word that it looked at most, in order.

    END is linked with nothing, and neither is a word that looked nowhere, being cut off.
    """
    ends_source, ends_target = (len(words) - 1 if words[-1] == "" else None for words in aligned[:2])
    seen = [(int(np.argmax(row)), t) for t, row in enumerate(aligned.weights) if t != ends_target and row.any()]
    return sorted((s, t) for s, t in seen if s != ends_source)


def to_pharaoh(linked: Iterable[Link]) -> str:
    """Links as a line of the Pharaoh format: "0-0 1-2", source before target, from 0."""
    return " ".join(f"{source}-{target}" for source, target in linked)


class GoldLinks(NamedTuple):
    """What annotators linked in one sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones included


def from_pharaoh(line: str, where: str = "line") -> GoldLinks:
    """The links of a Pharaoh line: ``i-j`` is sure, ``ipj`` possible.

    Raises:
        ValueError: something else stands there; ``where`` names the line.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for item in line.split():
        match = re.fullmatch(r"(\d+)([-p])(\d+)", item)
        if match is None:
            raise ValueError(f"{where}: expected links such as 0-0 (sure) or 1p2 (possible), received {item!r:.40}.")
        link = int(match[1]), int(match[3])
        (sure if match[2] == "-" else possible).add(link)
    return GoldLinks(frozenset(sure), frozenset(sure | possible))


class _Word(NamedTuple):
    text: str
    positions: list[int]


def _grouped(tokens: Sequence[str]) -> list[_Word]:
    """Tokens by word."""
    are_pieces = any(token.startswith(SPACE) for token in tokens)
    words: list[_Word] = []
    for position, token in enumerate(tokens):
        is_end = token == "" and position == len(tokens) - 1
        begins = not are_pieces or is_end or token.startswith(SPACE)
        if not words or (begins and not _is_blank(words[-1].text)):
            words.append(_Word(token, [position]))
        else:
            words[-1] = _Word(words[-1].text + token, [*words[-1].positions, position])
    return [_Word(word.text.replace(SPACE, " ").strip(), word.positions) for word in words] if are_pieces else words


def _is_blank(text: str) -> bool:
    return text != "" and text.replace(SPACE, "") == ""


def _in_sentence(words: Sequence[str], sentence: str) -> list[_Word]:
    """Words by what spaces separate in ``sentence``."""
    sentence = unicodedata.normalize("NFC", sentence)
    spans = [(match.start(), match.end()) for match in re.finditer(r"[^ \t]+", sentence)]
    found = [_Word(sentence[start:end], []) for start, end in spans]
    end = [_Word("", [len(words) - 1])] if words[-1] == "" else []
    reached = here = 0
    for position, word in enumerate(words[: len(words) - len(end)]):
        start = sentence.find(unicodedata.normalize("NFC", word), reached)
        if start < 0:
            return [_Word(text, [position]) for position, text in enumerate(words)]
        reached = start + len(word)
        while here < len(spans) - 1 and spans[here][1] <= start:
            here += 1
        found[here].positions.append(position)
    return found + end


def _merged(weights: np.ndarray, source: Sequence[list[int]], target: Sequence[list[int]]) -> np.ndarray:
    """[T, S] summed over each group of columns, averaged over each group of rows; a row of no token is 0."""
    columns = np.stack([weights[:, group].sum(axis=1) for group in source], axis=1)  # [T, source groups]
    nothing = np.zeros(columns.shape[1], columns.dtype)
    return np.stack([columns[group].mean(axis=0) if group else nothing for group in target])
