"""Translations and scores as Python values, and batches of them as tensors."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

MAX_BYTES = 65_536
"""Maximum number of bytes of a text that is translated sentence by sentence, the limit of the embedded server."""


class Checkpoint(NamedTuple):
    """Identity of the checkpoint that the weights of a translator were read from."""

    name: str
    step: int  # training step
    sha256: str  # of the index file, which has a checksum of each tensor


class Translation(NamedTuple):
    """One translation of a sentence."""

    text: str
    tokens: list[str]  # T target tokens; the last is "" (END) unless the length limit was reached
    score: float  # log_prob after length normalisation and coverage penalty; higher is better
    log_prob: float  # nats: log p(tokens | source), END included
    alignment: np.ndarray  # [T, S] float32 attention weights; each row sums to 1
    source_tokens: list[str]  # S source tokens as the user wrote them; the last is "" (END)
    truncated: bool  # True if the source exceeded the length limit; the rest is not translated


class TranslationScore(NamedTuple):
    """The log-probability of a given translation."""

    log_prob: float  # nats: log p(tokens | source), END included
    tokens: list[str]  # T target tokens; the last is "" (END)
    token_log_probs: list[float]  # T, nats; their sum is log_prob
    truncated: bool  # True if source or target exceeded the length limit; the rest is not scored


class Decoded(NamedTuple):
    """A batch of translations as tensors: the outputs of an export's ``align`` signature, by name."""

    translation: tf.Tensor  # [B] string
    score: tf.Tensor  # [B] float32
    log_prob: tf.Tensor  # [B] float32, nats
    truncated: tf.Tensor  # [B] bool
    source_tokens: tf.Tensor  # [B, S] string
    source_lengths: tf.Tensor  # [B] int32, END included
    target_tokens: tf.Tensor  # [B, T] string
    target_lengths: tf.Tensor  # [B] int32, END included
    alignment: tf.Tensor  # [B, T, S] float32


class NBest(NamedTuple):
    """A batch of n-best lists as tensors, best first. If fewer than K translations exist, the last have length 0."""

    translations: tf.Tensor  # [B, K] string
    scores: tf.Tensor  # [B, K] float32; -infinity for a missing translation
    log_probs: tf.Tensor  # [B, K] float32, nats; -infinity for a missing translation
    lengths: tf.Tensor  # [B, K] int32 target tokens, END included
    tokens: tf.Tensor  # [B, K, T] string
    alignment: tf.Tensor  # [B, K, T, S] float32
    source_tokens: tf.Tensor  # [B, S] string
    source_lengths: tf.Tensor  # [B] int32, END included
    truncated: tf.Tensor  # [B] bool


def best_of(found: NBest) -> Decoded:
    """Returns the best hypothesis of each sentence."""
    return Decoded(
        translation=found.translations[:, 0],
        score=found.scores[:, 0],
        log_prob=found.log_probs[:, 0],
        truncated=found.truncated,
        source_tokens=found.source_tokens,
        source_lengths=found.source_lengths,
        target_tokens=found.tokens[:, 0],
        target_lengths=found.lengths[:, 0],
        alignment=found.alignment[:, 0],
    )


class Scored(NamedTuple):
    """A batch of given translations with their log-probabilities, as tensors."""

    log_prob: tf.Tensor  # [B] float32, nats
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    tokens: tf.Tensor  # [B, T] string
    lengths: tf.Tensor  # [B] int32 target tokens, END included
    truncated: tf.Tensor  # [B] bool: True if source or target was truncated


class AlignedPair(NamedTuple):
    """The tokens or words of a sentence pair, with an alignment."""

    source: list[str]  # S; the last is "" (END) unless the sentence was cut
    target: list[str]  # T; the last is "" (END) unless the sentence was cut
    alignment: np.ndarray  # [T, S] float attention weights of each target token or word


def stacked(upper: tf.Tensor, lower: tf.Tensor) -> tf.Tensor:
    """Concatenates the rows of two tensors and pads the narrower one with 0 or ""."""
    widths = tf.maximum(tf.shape(upper), tf.shape(lower))[1:]

    def padded(part: tf.Tensor) -> tf.Tensor:
        missing = tf.concat([[0], widths - tf.shape(part)[1:]], 0)
        padding = "" if part.dtype == tf.string else tf.zeros([], part.dtype)
        return tf.pad(part, tf.stack([tf.zeros_like(missing), missing], axis=1), constant_values=padding)

    return tf.concat([padded(upper), padded(lower)], 0)


def in_parts(
    answer: Callable[[Sequence[tf.Tensor]], Mapping[str, tf.Tensor]],
    texts: Sequence[tf.Tensor],
    size: int,
    like: Mapping[str, tf.TensorSpec],
    parallel_iterations: int = 1,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of ``answer`` for all texts, which it reads in parts, padded to the widest.

    Args:
        answer: Function from string tensors [size] to outputs by name.
        texts: String tensors [N].
        size: Maximum number of rows of a part.
        like: Types and ranks of the outputs, by name.
        parallel_iterations: Maximum number of parts at the same time.
    """

    def add_part(begin: tf.Tensor, found: dict[str, tf.Tensor]) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        end = begin + size
        part = answer([text[begin:end] for text in texts])
        return end, {name: stacked(found[name], part[name]) for name in found}

    _, found = tf.while_loop(
        lambda begin, _: begin < tf.size(texts[0]),
        add_part,
        (tf.constant(0), {name: tf.zeros([0] * one.shape.rank, one.dtype) for name, one in like.items()}),
        (tf.TensorShape([]), {name: tf.TensorShape([None] * one.shape.rank) for name, one in like.items()}),
        parallel_iterations=parallel_iterations,
    )
    return found
