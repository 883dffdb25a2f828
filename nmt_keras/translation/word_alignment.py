"""Words instead of pieces: an alignment of tokens as an alignment of words, and as links between words.

A model reads and writes words, or SentencePiece pieces such as "▁hos" "pi" "tal", where "▁" stands for the space in
front of a word. People read words: heatmaps, the page and the alignment error rate all show what ``align_words`` makes.
A sentence ends in the token "", END.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nmt_keras.corpus.alignments import SPACE, Link, words_of_tokens


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
    """The alignment of what white space separates in ``source`` and ``target``, as other tools count words.

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
    """Returns words by what white space separates in ``sentence``; as they are if one is not found there."""
    end = [_Word("", [len(words) - 1])] if words[-1] == "" else []
    places = words_of_tokens(sentence, words[: len(words) - len(end)])
    if -1 in places:
        return [_Word(text, [position]) for position, text in enumerate(words)]
    found = [_Word(text, []) for text in unicodedata.normalize("NFC", sentence).split()]
    for position, place in enumerate(places):
        found[place].positions.append(position)
    return found + end


def _merged(weights: np.ndarray, source: Sequence[list[int]], target: Sequence[list[int]]) -> np.ndarray:
    """[T, S] summed over each group of columns, averaged over each group of rows; a row of no token is 0."""
    columns = np.stack([weights[:, group].sum(axis=1) for group in source], axis=1)  # [T, source groups]
    nothing = np.zeros(columns.shape[1], columns.dtype)
    return np.stack([columns[group].mean(axis=0) if group else nothing for group in target])
