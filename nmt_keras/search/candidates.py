"""Which tokens may come next, and how probable they are: from logits over V words to a few candidates.

A step's logits are the largest tensor of a search, so they are read twice only: for the largest of each block of
words, and for the normaliser. ``largest`` in two stages instead of ``tf.math.top_k`` makes batches of 64 sentences 1.2
times as fast, greedily and with a beam of 5 (256 units, 8,000 words, one thread); a single sentence gains nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import END, PAD, START, UNK

_BLOCK = 64
_IMPOSSIBLE = float("-inf")


class Constraints(NamedTuple):
    """What a hypothesis may consist of. PAD and START are never chosen.

    The log-probabilities of what is chosen stay the model's own: they are not shared out anew among allowed tokens.
    """

    min_tokens: int = 1  # END does not come before this many tokens are written, END itself included
    unk_allowed: bool = True
    prefix: tf.Tensor | None = None  # [B, P] int32: the tokens each hypothesis begins with; PAD where it is free

    def forced(self, limits: tf.Tensor) -> tf.Tensor | tuple[()]:
        """The token that has to come at each step, [B, T] int32 with PAD where any may; () without a prefix.

        ``limits`` are [B] int32; T covers the largest.
        """
        if self.prefix is None:
            return ()
        return tf.pad(self.prefix, [[0, 0], [0, tf.reduce_max(tf.pad(limits, [[0, 1]]))]])

    def logit_bias(self, time: tf.Tensor) -> tf.Tensor:
        """[5] float32: what is added to the logits of PAD, UNK, START, END and of any word, 0 or -infinity."""
        biases = [0.0] * 5
        biases[PAD] = biases[START] = _IMPOSSIBLE
        if not self.unk_allowed:
            biases[UNK] = _IMPOSSIBLE
        if self.min_tokens == 1:
            return tf.constant(biases)
        early = [*biases]
        early[END] = _IMPOSSIBLE
        return tf.where(time + 1 < self.min_tokens, early, biases)

    @property
    def bannable(self) -> int:
        """How many of V tokens may be forbidden at some step."""
        return 2 + (not self.unk_allowed) + (self.min_tokens > 1)


UNCONSTRAINED = Constraints()
"""Any translation may come."""


def biased(values: tf.Tensor, ids: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """``values`` of the tokens ``ids``, -infinity where ``biases`` (see ``Constraints.logit_bias``) forbid them."""
    return values + tf.gather(biases, tf.minimum(ids, END + 1))


class Candidates(NamedTuple):
    """The most probable continuations of each hypothesis; C of them, in no order once some are forbidden."""

    ids: tf.Tensor  # [B, Q, C] int32
    log_probs: tf.Tensor  # [B, Q, C] float32, nats; -infinity where forbidden


def candidates(
    logits: tf.Tensor, count: int, constraints: Constraints, time: tf.Tensor, forced: tf.Tensor | tuple[()]
) -> Candidates:
    """The ``count`` most probable tokens that are allowed, and up to ``constraints.bannable`` forbidden ones.

    Args:
        logits: [B, Q, V] float32.
        count: how many tokens may be wanted; fewer come if V is smaller.
        constraints: what is allowed.
        time: [] int32, tokens written before.
        forced: [B] int32, the token that has to come, PAD where any may; () without a prefix.
    """
    values, ids = largest(logits, count + constraints.bannable)
    normaliser = log_normaliser(logits, peak=values[..., :1])
    log_probs = biased(values, ids, constraints.logit_bias(time)) - normaliser
    if isinstance(forced, tuple):
        return Candidates(ids, log_probs)
    is_forced = tf.not_equal(forced, PAD)[:, tf.newaxis, tf.newaxis]
    wanted = tf.gather(logits, forced, axis=2, batch_dims=1)[..., tf.newaxis] - normaliser  # [B, Q, 1]
    first = tf.range(tf.shape(ids)[-1]) == 0
    return Candidates(
        tf.where(is_forced, forced[:, tf.newaxis, tf.newaxis], ids),
        tf.where(is_forced, tf.where(first, wanted, _IMPOSSIBLE), log_probs),
    )


def log_normaliser(logits: tf.Tensor, peak: tf.Tensor) -> tf.Tensor:
    """log SUM_v exp(logits_v), [B, Q, 1], where ``peak`` [B, Q, 1] is the largest logit."""
    return peak + tf.math.log(tf.reduce_sum(tf.exp(logits - peak), axis=-1, keepdims=True))


def largest(logits: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """``tf.math.top_k`` over many words, in two stages.

    The ``count`` largest lie in the ``count`` blocks of words whose maxima are largest. A maximum takes a fraction of
    the time of ``top_k``, which is left with the maxima, and then with the words of those few blocks.

    Args:
        logits: [B, Q, V] float32. A V that is not static is ``count`` or more, and small enough for one stage.
        count: how many; all V where V is smaller.

    Returns:
        Their values [B, Q, C], descending, and ids [B, Q, C] int32.
    """
    words = logits.shape[-1]
    if words is None:
        return tf.math.top_k(logits, count)
    if words < 4 * count * _BLOCK:
        return tf.math.top_k(logits, min(count, words))
    block = next((n for n in range(_BLOCK, 2 * _BLOCK) if words % n == 0), _BLOCK)
    if words % block:
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, -words % block]], constant_values=_IMPOSSIBLE)
    blocks = tf.reshape(logits, [tf.shape(logits)[0], logits.shape[1], -(-words // block), block])
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, axis=-1), count)  # [B, Q, C]
    words_of_chosen = tf.gather(blocks, chosen, batch_dims=2)  # [B, Q, C, block]
    values, places = tf.math.top_k(tf.reshape(words_of_chosen, [*_sizes(chosen)[:2], count * block]), count)
    return values, tf.gather(chosen, places // block, batch_dims=2) * block + places % block


def _sizes(x: tf.Tensor) -> list[int | tf.Tensor]:
    """The shape of ``x``, static where it is known."""
    return [tf.shape(x)[axis] if size is None else size for axis, size in enumerate(x.shape)]
