"""The interface of translators: lists of strings in, translations out."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import tensorflow as tf

from nmt_keras.config import BATCHES_AT_ONCE, SearchConfig, require
from nmt_keras.io.lines import scalars
from nmt_keras.io.sentences import TranslatedText, translate_texts
from nmt_keras.translation.records import (
    Decoded,
    NBest,
    Scored,
    Translation,
    TranslationScore,
)

Answer = TypeVar("Answer")
Batch = TypeVar("Batch", Decoded, NBest, Scored)


GREEDY = SearchConfig()

UNEQUAL = "source, target: expected the same number of sentences."

TEXT = tf.TensorSpec([None], tf.string, name="text")

SOURCE = tf.TensorSpec([None], tf.string, name="source")

TARGET = tf.TensorSpec([None], tf.string, name="target")


class Translator(tf.Module, ABC):
    """Base class of translators. Subclasses work on tensors; users call the methods on lists.

    The methods on lists accept any number of sentences and return results in the same order. Sentences of similar
    length are processed together. ``batch_size``, the number of sentences in a batch, affects only the speed.

    Raises:
        TypeError: an argument is not a list of strings.
        ValueError: ``batch_size`` is not positive, or lists differ in length.
    """

    @abstractmethod
    def decode(self, text: tf.Tensor) -> Decoded:
        """Returns the best translation of each sentence.

        Args:
            text: [B] string. Sentences.
        """

    @abstractmethod
    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """Returns the n-best list of each sentence.

        Args:
            text: [B] string. Sentences.
        """

    @abstractmethod
    def decode_scored(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """Returns the log-probability of each target as a translation of its source.

        Args:
            source: [B] string. Sentences.
            target: [B] string. A translation of each sentence.
        """

    def translate(self, sentences: Sequence[str], batch_size: int = 64) -> list[Translation]:
        """Returns the best translation of each sentence. Any string is accepted; see ``Translation.truncated``."""
        return in_batches(lambda text: translations(self.decode(text)), {"sentences": sentences}, batch_size)

    def translate_texts(self, texts: Sequence[str], batch_size: int = 64) -> list[TranslatedText[Translation]]:
        """Splits texts into sentences, and returns the translation of each text with the white space of the source."""
        _require_strings("texts", texts)
        return translate_texts(texts, lambda sentences: self.translate(sentences, batch_size), lambda each: each.text)

    def translate_nbest(self, sentences: Sequence[str], batch_size: int = 64) -> list[list[Translation]]:
        """Returns up to ``SearchConfig.n_best`` translations of each sentence, best first. Their texts are distinct."""
        return in_batches(lambda text: _nbest_lists(self.decode_nbest(text)), {"sentences": sentences}, batch_size)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch_size: int = 64) -> list[TranslationScore]:
        """Returns the log-probability of each target as the translation of its source."""
        return in_batches(
            lambda source, target: _scores(self.decode_scored(source, target)),
            {"sources": sources, "targets": targets},
            batch_size,
        )


def in_batches(
    answer: Callable[..., list[Answer]], columns: Mapping[str, Sequence[str]], batch_size: int
) -> list[Answer]:
    """Divides the rows of ``columns`` into batches, calls ``answer`` with each, and returns the results in order.

    ``answer`` receives a string tensor of shape [B] for each column.
    """
    for name, column in columns.items():
        _require_strings(name, column)
    require(batch_size >= 1, "batch_size", "at least 1", batch_size)
    counts = [len(column) for column in columns.values()]
    require(len(set(counts)) == 1, ", ".join(columns), "lists of the same length", counts)
    # The longest come first. Some threads are idle during the last batches, so the last batches should be short.
    order = sorted(range(counts[0]), key=lambda i: [-len(column[i]) for column in columns.values()])
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]

    def answer_rows(rows: Sequence[int]) -> list[Answer]:
        return answer(*(tf.constant([scalars(column[i]) for i in rows]) for column in columns.values()))

    pool = ThreadPoolExecutor(BATCHES_AT_ONCE)
    try:
        answers = [one for batch in pool.map(answer_rows, batches) for one in batch]
    finally:
        pool.shutdown(cancel_futures=True)  # so that an interruption does not wait for the other batches
    by_row = dict(zip(order, answers, strict=True))
    return [by_row[i] for i in range(len(order))]


def _require_strings(name: str, texts: Sequence[str]) -> None:
    is_list = isinstance(texts, Sequence) and not isinstance(texts, str | bytes)
    if not is_list or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name}: expected a list of strings, received {texts!r:.80}. Pass [sentence].")


def _rows(batch: Batch) -> list[Batch]:
    """Returns the rows of a batch as records of arrays."""
    return [type(batch)(*row) for row in zip(*(column.numpy() for column in batch), strict=True)]


def _strings(tokens: np.ndarray) -> list[str]:
    return [token.decode() for token in tokens]


def translations(decoded: Decoded) -> list[Translation]:
    """Returns the rows of a batch without padding."""
    return [_translation(row) for row in _rows(decoded)]


def _translation(row: Decoded) -> Translation:
    return Translation(
        text=row.translation.decode(),
        tokens=_strings(row.target_tokens[: row.target_lengths]),
        score=float(row.score),
        log_prob=float(row.log_prob),
        alignment=row.alignment[: row.target_lengths, : row.source_lengths],
        source_tokens=_strings(row.source_tokens[: row.source_lengths]),
        truncated=bool(row.truncated),
    )


def _nbest_lists(nbest: NBest) -> list[list[Translation]]:
    """Returns the rows of a batch without padding, missing hypotheses, and texts that a better hypothesis has."""
    result = []
    for row in _rows(nbest):
        source = (row.truncated, row.source_tokens, row.source_lengths)
        hypotheses = zip(
            row.translations, row.scores, row.log_probs, row.tokens, row.lengths, row.alignment, strict=True
        )
        distinct: dict[bytes, Translation] = {}  # different pieces can spell the same text
        for text, score, log_prob, tokens, length, alignment in hypotheses:
            if length > 0 and text not in distinct:
                distinct[text] = _translation(Decoded(text, score, log_prob, *source, tokens, length, alignment))
        result.append(list(distinct.values()))
    return result


def _scores(scored: Scored) -> list[TranslationScore]:
    """Returns the rows of a batch without padding."""
    return [
        TranslationScore(
            log_prob=float(row.log_prob),
            tokens=_strings(row.tokens[: row.lengths]),
            token_log_probs=row.token_log_probs[: row.lengths].tolist(),
            truncated=bool(row.truncated),
        )
        for row in _rows(scored)
    ]
