"""The interface of translators: lists of strings in, translations out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import tensorflow as tf

from nmt_keras.config import BATCHES_AT_ONCE
from nmt_keras.translation.records import Aligned, AlignedPair, Decoded, NBest, Scored, Translation, TranslationScore

Answer = TypeVar("Answer")


UNEQUAL = "source, target: expected as many sentences of the one as of the other."

TEXT = tf.TensorSpec([None], tf.string, name="text")

SOURCE = tf.TensorSpec([None], tf.string, name="source")

TARGET = tf.TensorSpec([None], tf.string, name="target")


class Translator(tf.Module):
    """Translates sentences. Subclasses work on tensors; the methods on lists are what people call.

    Those take any number of sentences and answer in the order given. Sentences of similar length are worked on
    together, ``batch_size`` at a time, which changes speed and nothing else. They raise TypeError where a list of
    strings is expected and something else comes, ValueError where ``batch_size`` is not positive.
    """

    @abstractmethod
    def decode(self, text: tf.Tensor) -> Decoded:
        """The best translations of a batch: text [B] string."""

    @abstractmethod
    def decode_nbest(self, text: tf.Tensor) -> NBest:
        """The n-best lists of a batch: text [B] string."""

    @abstractmethod
    def decode_scored(self, source: tf.Tensor, target: tf.Tensor) -> Scored:
        """The probabilities of given translations: source [B] string, target [B] string."""

    def translate(self, sentences: Sequence[str], batch_size: int = 64) -> list[Translation]:
        """The best translation of each sentence; none is too long or too strange: see ``Translation.truncated``."""
        return _in_batches(lambda text: _translations(self.decode(text)), [sentences], ["sentences"], batch_size)

    def translate_nbest(self, sentences: Sequence[str], batch_size: int = 64) -> list[list[Translation]]:
        """The best translations of each sentence, best first: ``SearchConfig.n_best`` of them if there are so many."""
        return _in_batches(lambda text: _nbest_lists(self.decode_nbest(text)), [sentences], ["sentences"], batch_size)

    def score(self, sources: Sequence[str], targets: Sequence[str], batch_size: int = 64) -> list[TranslationScore]:
        """How probable each target is as the translation of its source.

        Raises:
            ValueError: there are more of the one than of the other.
        """
        return _in_batches(
            lambda source, target: _scores(self.decode_scored(source, target)),
            [sources, targets],
            ["sources", "targets"],
            batch_size,
        )


def _in_batches(
    answer: Callable[..., list[Answer]], columns: Sequence[Sequence[str]], names: Sequence[str], batch_size: int
) -> list[Answer]:
    """What ``answer`` says of each row of ``columns`` (lists of sentences), which it is given as [B] string tensors."""
    for name, column in zip(names, columns, strict=True):
        is_list = isinstance(column, Sequence) and not isinstance(column, str | bytes)
        if not is_list or not all(isinstance(s, str) for s in column):
            raise TypeError(f"{name}: expected a list of strings, received {column!r:.80}. Pass [sentence].")
    if batch_size < 1:
        raise ValueError(f"batch_size: expected at least 1, received {batch_size}.")
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        raise ValueError(f"{', '.join(names)}: expected one of each for a pair, received {counts}. Pair them.")
    # the longest first: what is worked on last, when some threads have nothing left to do, takes least
    order = sorted(range(counts[0]), key=lambda i: [-len(column[i]) for column in columns])
    batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]

    def answer_rows(rows: Sequence[int]) -> list[Answer]:
        texts = [tf.constant([column[i].encode("utf-8", "replace") for i in rows]) for column in columns]
        return answer(*texts)

    pool = ThreadPoolExecutor(BATCHES_AT_ONCE)
    try:
        answers = [one for batch in pool.map(answer_rows, batches) for one in batch]
    finally:
        pool.shutdown(cancel_futures=True)  # so that an interruption need not wait for the rest
    found = dict(zip(order, answers, strict=True))
    return [found[i] for i in range(len(order))]


def _translations(decoded: Decoded) -> list[Translation]:
    """The rows of a batch, without their padding."""
    columns = Decoded(*(column.numpy() for column in decoded))
    return [_translation(Decoded(*row)) for row in zip(*columns, strict=True)]


def _translation(one: Decoded) -> Translation:
    """One row of a batch, as arrays, without its padding."""
    source, target = int(one.source_lengths), int(one.target_lengths)
    return Translation(
        text=one.translation.decode(),
        tokens=[token.decode() for token in one.target_tokens[:target]],
        score=float(one.score),
        log_prob=float(one.log_prob),
        alignment=one.alignment[:target, :source],
        source_tokens=[token.decode() for token in one.source_tokens[:source]],
        truncated=bool(one.truncated),
    )


def _nbest_lists(nbest: NBest) -> list[list[Translation]]:
    """The rows of a batch, without their padding and without the hypotheses that do not exist."""
    columns = NBest(*(column.numpy() for column in nbest))
    result = []
    for row in zip(*columns, strict=True):
        one = NBest(*row)
        whole = (one.truncated, one.source_tokens, one.source_lengths)
        hypotheses = zip(
            one.translations, one.scores, one.log_probs, one.tokens, one.lengths, one.alignment, strict=True
        )
        result.append(
            [
                _translation(Decoded(text, score, log_prob, *whole, tokens, length, alignment))
                for text, score, log_prob, tokens, length, alignment in hypotheses
                if length > 0
            ]
        )
    return result


def _scores(scored: Scored) -> list[TranslationScore]:
    """The rows of a batch, without their padding."""
    columns = Scored(*(column.numpy() for column in scored))
    return [
        TranslationScore(
            log_prob=float(log_prob),
            tokens=[token.decode() for token in tokens[:length]],
            token_log_probs=token_log_probs[:length].tolist(),
            truncated=bool(truncated),
        )
        for log_prob, token_log_probs, tokens, length, truncated in zip(*columns, strict=True)
    ]


def _aligned_pairs(aligned: Aligned) -> list[AlignedPair]:
    """The rows of a batch, without their padding."""
    columns = Aligned(*(column.numpy() for column in aligned))
    result = []
    for row in zip(*columns, strict=True):
        one = Aligned(*row)
        source, target = int(one.source_lengths), int(one.target_lengths)
        result.append(
            AlignedPair(
                source=[token.decode() for token in one.source_tokens[:source]],
                target=[token.decode() for token in one.target_tokens[:target]],
                alignment=one.alignment[:target, :source],
            )
        )
    return result
