"""Decoding strategies: greedy search, beam search and sampling, each a rule that chooses the next tokens.

Forced decoding, which chooses nothing, gives the log-likelihood of given translations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import PAD, START
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates, token_log_probs
from nmt_keras.search.hypotheses import Beams, Hypotheses
from nmt_keras.search.loop import NextTokens, StepFunction, decode_loop
from nmt_keras.search.ranking import PER_TOKEN, Ranking


def _next_of_each(beams: Beams, ids: tf.Tensor, log_probs: tf.Tensor) -> NextTokens:
    """Extends each unfinished hypothesis with the token ``ids`` [b, Q] of log-probability ``log_probs`` [b, Q]."""
    gained = tf.where(beams.finished, 0.0, log_probs)
    return NextTokens(tf.where(beams.finished, PAD, ids), beams.log_probs + gained)


def _draw(probabilities: tf.Tensor, chance: tf.Tensor) -> tf.Tensor:
    """Returns the first index whose cumulative probability exceeds ``chance`` of the sum, [b, 1] int32.

    It never has probability 0.
    """
    cumulative = tf.cumsum(probabilities, axis=-1)
    # a sum taken in parallel may be rounded up even at an index that adds nothing
    exceeds = (cumulative > chance * cumulative[..., -1:]) & (probabilities > 0.0)
    return tf.argmax(tf.cast(exceeds, tf.int32), axis=-1, output_type=tf.int32)


def greedy(
    step: StepFunction,
    state: Any,
    memory: Any,
    max_lengths: tf.Tensor,
    *,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Takes the most probable token at every step. Equals beam search of beam size 1, in less time.

    Args:
        step, state, memory, max_lengths, ranking, constraints: as for :func:`~nmt_keras.search.beam_search`.

    Returns:
        Hypotheses with K = 1.
    """

    def next_tokens(logits: tf.Tensor, beams: Beams, time: tf.Tensor, forced: tf.Tensor | None) -> NextTokens:
        ids, log_probs = candidates(logits, 1, constraints, time, forced)
        best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)[..., tf.newaxis]  # [b, 1, 1]
        ids = tf.gather(ids, best, batch_dims=2)[..., 0]
        return _next_of_each(beams, ids, tf.reduce_max(log_probs, axis=-1))

    forced = constraints.forced_ids(max_lengths)
    return decode_loop(step, state, memory, max_lengths, next_tokens, ranking=ranking, inputs=forced)


def beam_search(
    step: StepFunction,
    state: Any,
    memory: Any,
    max_lengths: tf.Tensor,
    *,
    beam_size: int,
    n_best: int = 1,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Keeps the ``beam_size`` most probable hypotheses of each sentence (Sutskever et al. 2014, section 3.2).

    A hypothesis that takes END is finished. It keeps its place, so that longer hypotheses cannot displace it, and one
    hypothesis fewer is extended. Unfinished hypotheses have equal lengths and compete by log-probability; ``ranking``
    compares the finished ones. A sentence is finished when no unfinished hypothesis can be among its ``n_best``, or at
    its maximum length. Hypotheses without END rank behind those that took it.

    Args:
        step: (ids [B, K], state, memory) -> logits, alignment and state.
        state: decoder state before the first token, nest of [B, 1, ...].
        memory: nest of [B, ...] for ``step``, never tiled.
        max_lengths: [B] int32, maximum length of a hypothesis in tokens, END included; at least 1.
        beam_size: number of hypotheses of each sentence, finished ones included.
        n_best: number of hypotheses to return, at most ``beam_size``. The search stops earlier for fewer.
        ranking: compares hypotheses of different lengths.
        constraints: which tokens are allowed.

    Returns:
        Hypotheses with K = ``n_best``.

    Raises:
        ValueError: ``n_best`` exceeds ``beam_size``.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best: expected 1 to beam_size ({beam_size}), received {n_best}. Raise beam_size.")

    infinity = float("inf")

    def next_tokens(logits: tf.Tensor, beams: Beams, time: tf.Tensor, forced: tf.Tensor | None) -> NextTokens:
        ids, log_probs = candidates(logits, beam_size, constraints, time, forced)
        count = ids.shape[-1]
        extended = beams.log_probs[..., tf.newaxis] + log_probs  # [b, K, C]
        unchanged = tf.where(tf.range(count) == 0, infinity, -infinity)  # a finished hypothesis keeps its place
        extended = tf.where(beams.finished[..., tf.newaxis], unchanged, extended)
        best, index = tf.math.top_k(tf.reshape(extended, [-1, beam_size * count]), beam_size)
        parents = index // count
        finished = tf.equal(best, infinity)
        ids = tf.gather(tf.reshape(ids, [-1, beam_size * count]), index, batch_dims=1)
        return NextTokens(
            tf.where(finished, PAD, ids),
            tf.where(finished, tf.gather(beams.log_probs, parents, batch_dims=1), best),
            parents,
        )

    return decode_loop(
        step,
        state,
        memory,
        max_lengths,
        next_tokens,
        ranking=ranking,
        beam_size=beam_size,
        n_best=n_best,
        inputs=constraints.forced_ids(max_lengths),
    )


def sample(
    step: StepFunction,
    state: Any,
    memory: Any,
    max_lengths: tf.Tensor,
    *,
    noise: tf.Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Draws every token from softmax(logits / temperature), or from its most probable part.

    A draw is a pure function of ``noise``: the first token at which the cumulative probability exceeds it. The returned
    log-probabilities are the model's own, at temperature 1 over all tokens.

    Args:
        step, state, memory, max_lengths, ranking, constraints: as for :func:`~nmt_keras.search.beam_search`.
        noise: [B, T] float32 in [0, 1), a number per token; T is at least the largest maximum length. See
            :func:`hashed_uniform`.
        temperature: above 0.
        top_k: number of most probable tokens to draw from (Fan et al. 2018); None for all.
        top_p: probability of the nucleus, the smallest set of most probable tokens (of those ``top_k``) that reaches it
            (Holtzman et al. 2020); 1 for all.

    Returns:
        Hypotheses with K = 1.
    """

    def next_tokens(logits: tf.Tensor, beams: Beams, time: tf.Tensor, inputs: Any) -> NextTokens:
        forced, chance = inputs
        words = logits.shape[-1]
        values = (logits + constraints.logit_bias(time, tf.range(words))) / temperature
        ids = None
        if top_k is not None or top_p < 1.0:
            values, ids = tf.math.top_k(values, min(top_k or words, words))
        probabilities = tf.nn.softmax(values)
        if top_p < 1.0:
            before = tf.cumsum(probabilities, axis=-1, exclusive=True)
            probabilities = tf.where(before < top_p, probabilities, 0.0)
        drawn = _draw(probabilities, chance[:, tf.newaxis, tf.newaxis])  # [b, 1]
        if ids is not None:
            drawn = tf.gather(ids, drawn, batch_dims=2)
        if forced is not None:
            drawn = tf.where(tf.equal(forced, PAD)[:, tf.newaxis], drawn, forced[:, tf.newaxis])
        return _next_of_each(beams, drawn, token_log_probs(logits, drawn))

    inputs = (constraints.forced_ids(max_lengths), noise)
    return decode_loop(step, state, memory, max_lengths, next_tokens, ranking=ranking, inputs=inputs)


def hashed_uniform(keys: tf.Tensor, count: int | tf.Tensor, seed: int) -> tf.Tensor:
    """Returns noise for :func:`sample`: ``count`` numbers in [0, 1) for each of ``keys`` [B] string, [B, count].

    Each number is a keyed hash (SipHash) of (key, position, seed). So a sentence is always translated alike, whatever
    else is in its batch.
    """
    named = tf.strings.as_string(tf.range(count)) + " " + keys[:, tf.newaxis]  # [B, count]
    return tf.cast(tf.strings.to_hash_bucket_strong(named, 2**24, key=[seed, 0]), tf.float32) / 2.0**24


class LogLikelihood(NamedTuple):
    """The probabilities and alignments of given translations."""

    log_probs: tf.Tensor  # [B] float32, nats: the sum over the tokens
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    alignments: tf.Tensor  # [B, T, S] float32; 0 at padding


def log_likelihood(step: StepFunction, state: Any, memory: Any, ids: tf.Tensor, lengths: tf.Tensor) -> LogLikelihood:
    """Returns the log-probabilities of given translations, equal to those of a search that chose these tokens.

    Args:
        step, state, memory: as for :func:`~nmt_keras.search.beam_search`.
        ids: [B, T] int32, T >= 1: the tokens, with END if it is to be scored.
        lengths: [B] int32, number of tokens to score.
    """
    steps = tf.shape(ids)[1]
    previous = tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=START)

    def advance(time: tf.Tensor, state: Any, gained: tf.TensorArray, alignments: tf.TensorArray) -> tuple[Any, ...]:
        output = step(previous[:, time, tf.newaxis], state, memory)
        log_probs = token_log_probs(tf.cast(output.logits, tf.float32), ids[:, time, tf.newaxis])[:, 0]
        alignment = tf.cast(output.alignment, tf.float32)[:, 0]
        return time + 1, output.state, gained.write(time, log_probs), alignments.write(time, alignment)

    gained = tf.TensorArray(tf.float32, size=steps, element_shape=[None])
    alignments = tf.TensorArray(tf.float32, size=steps, element_shape=[None, None])
    _, _, gained, alignments = tf.while_loop(
        lambda time, *_: time < steps, advance, (tf.constant(0), state, gained, alignments)
    )
    is_token = tf.sequence_mask(lengths, steps)
    log_probs = tf.where(is_token, tf.transpose(gained.stack()), 0.0)
    aligned = tf.where(is_token[..., tf.newaxis], tf.transpose(alignments.stack(), [1, 0, 2]), 0.0)
    return LogLikelihood(tf.reduce_sum(log_probs, axis=1), log_probs, aligned)
