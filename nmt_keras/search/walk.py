"""Walks: searches that follow one hypothesis per sentence - the most probable token, a drawn one, a given one."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import PAD, START
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates, log_normaliser, priced
from nmt_keras.search.contract import Hypotheses, StepFunction
from nmt_keras.search.loop import Choice, Situation, explore
from nmt_keras.search.ranking import PER_TOKEN, Ranking


def greedy(
    step: StepFunction,
    carry: Any,
    memory: Any,
    limits: tf.Tensor,
    *,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Takes the most probable token at every step: beam search of width 1, without what a beam needs.

    Args:
        step, carry, memory, limits, ranking, constraints: as for :func:`~nmt_keras.search.beam_search`.

    Returns:
        Hypotheses with K = 1.
    """

    def rule(now: Situation) -> Choice:
        found = candidates(now.logits, 1, constraints, now.time, now.hints)
        best = tf.argmax(found.log_probs, axis=-1, output_type=tf.int32)[..., tf.newaxis]  # [b, 1, 1]
        ids = tf.gather(found.ids, best, batch_dims=2)[..., 0]
        return _gone_on(now, ids, tf.reduce_max(found.log_probs, axis=-1))

    return explore(step, carry, memory, limits, rule, ranking=ranking, hints=constraints.forced(limits))


def _gone_on(now: Situation, ids: tf.Tensor, gained: tf.Tensor) -> Choice:
    """The choice of tokens ``ids`` [b, 1] whose log-probabilities are ``gained`` [b, 1]."""
    return Choice(None, tf.where(now.frozen, PAD, ids), now.log_probs + tf.where(now.frozen, 0.0, gained))


def sample(
    step: StepFunction,
    carry: Any,
    memory: Any,
    limits: tf.Tensor,
    *,
    noise: tf.Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Draws every token from softmax(logits / temperature), or from the most probable part of it.

    A draw is a pure function of ``noise``: the token at which the cumulative probability first exceeds it. The
    log-probabilities returned are the model's own, at temperature 1 over all tokens.

    Args:
        step, carry, memory, limits, ranking, constraints: as for :func:`~nmt_keras.search.beam_search`.
        noise: [B, T] float32 in [0, 1), one number per token; T covers the largest limit. See :func:`uniform`.
        temperature: above 0.
        top_k: draw among this many most probable tokens only (Fan et al. 2018); None for all.
        top_p: draw from the nucleus only, the fewest most probable tokens (of those ``top_k``) whose probabilities sum
            to this or more (Holtzman et al. 2020); 1 for all.

    Returns:
        Hypotheses with K = 1.
    """

    def rule(now: Situation) -> Choice:
        forced, chance = now.hints
        words = now.logits.shape[-1]
        values = priced(now.logits, tf.range(words), constraints.price(now.time)) / temperature
        ids = None
        if top_k is not None or top_p < 1.0:
            values, ids = tf.math.top_k(values, min(top_k or words, words))
        probabilities = tf.nn.softmax(values)
        if top_p < 1.0:
            before = tf.cumsum(probabilities, axis=-1, exclusive=True)
            probabilities = tf.where(before < top_p, probabilities, 0.0)
        drawn = _drawn(probabilities, chance[:, tf.newaxis, tf.newaxis])  # [b, 1]
        if ids is not None:
            drawn = tf.gather(ids, drawn, batch_dims=2)
        if not isinstance(forced, tuple):
            drawn = tf.where(tf.equal(forced, PAD)[:, tf.newaxis], drawn, forced[:, tf.newaxis])
        return _gone_on(now, drawn, _log_probs(now.logits, drawn))

    hints = (constraints.forced(limits), noise)
    return explore(step, carry, memory, limits, rule, ranking=ranking, hints=hints)


def uniform(keys: tf.Tensor, count: int | tf.Tensor, seed: int) -> tf.Tensor:
    """Noise for :func:`sample`: ``count`` numbers in [0, 1) for each of ``keys`` [B] string, [B, count] float32.

    They are a pure function of (key, position, seed), a keyed hash (SipHash): whatever stands in the batch beside a key
    changes nothing, and the same sentence is always translated alike.
    """
    named = tf.strings.as_string(tf.range(count)) + " " + keys[:, tf.newaxis]  # [B, count]
    return tf.cast(tf.strings.to_hash_bucket_strong(named, 2**24, key=[seed, 0]), tf.float32) / 2.0**24


def _drawn(probabilities: tf.Tensor, chance: tf.Tensor) -> tf.Tensor:
    """The first place whose cumulative probability exceeds ``chance`` of the sum, [b, 1] int32.

    It never is a place of probability 0: that adds nothing to the sum.
    """
    cumulative = tf.cumsum(probabilities, axis=-1)
    # where sums are taken in parallel, rounding may move them even at a place that adds nothing
    exceeds = (cumulative > chance * cumulative[..., -1:]) & (probabilities > 0.0)
    return tf.argmax(tf.cast(exceeds, tf.int32), axis=-1, output_type=tf.int32)


def _log_probs(logits: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """log p of the tokens ``ids`` [b, 1] under logits [b, 1, V]: [b, 1] float32."""
    normaliser = log_normaliser(logits, peak=tf.reduce_max(logits, axis=-1, keepdims=True))
    return tf.gather(logits, ids, batch_dims=2) - normaliser[..., 0]


class Forced(NamedTuple):
    """What a model says of given translations."""

    log_probs: tf.Tensor  # [B] float32, nats: the sum over the tokens
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    alignments: tf.Tensor  # [B, T, S] float32; 0 at padding


def force(step: StepFunction, carry: Any, memory: Any, ids: tf.Tensor, lengths: tf.Tensor) -> Forced:
    """The log-probability of given translations: what a search that chose those tokens would have summed.

    Args:
        step, carry, memory: as for :func:`~nmt_keras.search.beam_search`.
        ids: [B, T] int32, T >= 1: the tokens, END included if it is part of what is scored.
        lengths: [B] int32 tokens to score.
    """
    steps = tf.shape(ids)[1]
    previous = tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=START)

    def advance(
        time: tf.Tensor, carry: Any, gained: tf.TensorArray, aligned: tf.TensorArray
    ) -> tuple[tf.Tensor, Any, tf.TensorArray, tf.TensorArray]:
        result = step(previous[:, time, tf.newaxis], carry, memory)
        log_probs = _log_probs(tf.cast(result.logits, tf.float32), ids[:, time, tf.newaxis])[:, 0]
        alignment = tf.cast(result.alignment, tf.float32)[:, 0]
        return time + 1, result.carry, gained.write(time, log_probs), aligned.write(time, alignment)

    _, _, gained, aligned = tf.while_loop(
        lambda time, *_: time < steps,
        advance,
        (
            tf.constant(0),
            carry,
            tf.TensorArray(tf.float32, size=steps, element_shape=[None]),
            tf.TensorArray(tf.float32, size=steps, element_shape=[None, None]),
        ),
    )
    real = tf.sequence_mask(lengths, steps)
    token_log_probs = tf.where(real, tf.transpose(gained.stack()), 0.0)
    alignments = tf.where(real[..., tf.newaxis], tf.transpose(aligned.stack(), [1, 0, 2]), 0.0)
    return Forced(tf.reduce_sum(token_log_probs, axis=1), token_log_probs, alignments)
