"""Alignments of words, made from alignments of tokens, and links between words.

Models read and write words, or SentencePiece pieces such as "▁hos" "pi" "tal", where "▁" stands for the space before a
word. Heatmaps, the web page and the alignment error rate use the words of ``align_words``. A sentence ends in the token
"", END.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nmt_keras.config import require
from nmt_keras.corpus.alignments import SPACE, Link, normalised_words, split_words, words_of_tokens
from nmt_keras.languages import is_apart
from nmt_keras.text import normalise_lines
from nmt_keras.translation.records import AlignedPair


def align_words(source_tokens: Sequence[str], target_tokens: Sequence[str], alignment: ArrayLike) -> AlignedPair:
    """Returns the alignment of words.

    Weights are summed over the pieces of a source word and averaged over the pieces of a target word. A piece that is
    only a space belongs to the next word, or to the end of the sentence. If no token begins with "▁", each token is a
    word. In scripts without spaces, such as Chinese, Japanese and Thai, each piece is a word.

    Args:
        source_tokens: S tokens, without padding.
        target_tokens: T tokens, without padding.
        alignment: [T, S] attention weights of each target token.

    Raises:
        ValueError: ``alignment`` has another shape.
    """
    weights = np.asarray(alignment)
    shape = (len(target_tokens), len(source_tokens))
    expected = f"shape [target tokens, source tokens] = {shape}"
    require(weights.shape == shape, "alignment", expected, weights.shape, "Remove padding, and keep END.")
    return _merged(weights, _pieces_by_word(source_tokens), _pieces_by_word(target_tokens))


def written_words(aligned: AlignedPair, source: str, target: str) -> AlignedPair:
    """Returns the alignment of the words that spaces and tabs separate in ``source`` and ``target``.

    For example, the tokens "casa" and "," of a word tokenizer are one word of "La casa, Tom". END remains a word. If
    the words of a side do not occur in its sentence in this order, they remain unchanged.
    """
    return _merged(aligned.alignment, _in_sentence(aligned.source, source), _in_sentence(aligned.target, target))


def links(aligned: AlignedPair) -> list[Link]:
    """Returns the links of each target word with the source word of its largest weight, sorted.

    END and words that were cut off have no links.
    """
    best = [(int(np.argmax(row)), t) for t, row in enumerate(aligned.alignment) if row.any()]
    ends = [len(words) - 1 if words[-1] == "" else None for words in (aligned.source, aligned.target)]
    return sorted((s, t) for s, t in best if s != ends[0] and t != ends[1])


class _Word(NamedTuple):
    text: str
    positions: list[int]  # positions of the word's tokens


def _pieces_by_word(tokens: Sequence[str]) -> list[_Word]:
    if not any(token.startswith(SPACE) for token in tokens):
        return [_Word(token, [position]) for position, token in enumerate(tokens)]
    words: list[_Word] = []
    for position, token in enumerate(tokens):
        begins = token.startswith(SPACE) or (token == "" and position == len(tokens) - 1) or _is_apart(words, token)
        if words and (not begins or (words[-1].text and not words[-1].text.strip(SPACE))):
            words[-1] = _Word(words[-1].text + token, [*words[-1].positions, position])
        else:
            words.append(_Word(token, [position]))
    return [_Word(word.text.replace(SPACE, " ").strip(), word.positions) for word in words]


def _is_apart(words: Sequence[_Word], token: str) -> bool:
    """Returns ``True`` if ``token`` begins a word without a space: at a letter of a script without spaces."""
    joint = (words[-1].text[-1:] if words else "") + token[:1]
    return len(joint) == 2 and is_apart(*joint)


def _in_sentence(words: Sequence[str], sentence: str) -> list[_Word]:
    (normalised,) = normalise_lines([sentence])
    end = [_Word("", [len(words) - 1])] if words[-1] == "" else []
    places = words_of_tokens(normalised, words[: len(words) - len(end)], sentence)
    if -1 in places:
        return [_Word(text, [position]) for position, text in enumerate(words)]
    written = zip(split_words(sentence), normalised_words(normalised, sentence), strict=True)
    sentence_words = [_Word(" ".join(parts) or word, []) for word, parts in written]
    for position, place in enumerate(places):
        sentence_words[place].positions.append(position)
    return sentence_words + end


def _merged(weights: np.ndarray, source: Sequence[_Word], target: Sequence[_Word]) -> AlignedPair:
    """Sums the columns of each source word and averages the rows of each target word. Without tokens, weights are 0."""
    columns = np.stack([weights[:, word.positions].sum(axis=1) for word in source], axis=1)
    rows = [columns[word.positions].sum(axis=0) / max(1, len(word.positions)) for word in target]
    return AlignedPair([word.text for word in source], [word.text for word in target], np.stack(rows))
