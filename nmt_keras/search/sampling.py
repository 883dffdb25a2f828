"""Sampling: every token is drawn from the model's distribution."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, biased, log_normaliser
from nmt_keras.search.contract import Hypotheses, StepFunction
from nmt_keras.search.greedy import _gone_on
from nmt_keras.search.loop import Choice, Situation, explore
from nmt_keras.search.ranking import PER_TOKEN, Ranking


def sample(
    step: StepFunction,
    state: Any,
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
        step, state, memory, limits, ranking, constraints: as for :func:`~nmt_keras.search.beam_search`.
        noise: [B, T] float32 in [0, 1), one number per token; T covers the largest limit. See :func:`hashed_uniform`.
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
        values = biased(now.logits, tf.range(words), constraints.logit_bias(now.time)) / temperature
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
    return explore(step, state, memory, limits, rule, ranking=ranking, hints=hints)


def hashed_uniform(keys: tf.Tensor, count: int | tf.Tensor, seed: int) -> tf.Tensor:
    """Randomness for :func:`sample`: ``count`` numbers in [0, 1) for each of ``keys`` [B] string, [B, count] float32.

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
