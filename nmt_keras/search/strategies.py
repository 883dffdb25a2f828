"""Decoding strategies: greedy search, beam search and sampling. Each has its own rule that chooses the next tokens.

Forced decoding computes the log-likelihood of given translations, so it chooses no tokens.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import PAD, START
from nmt_keras.models.predictor import StepFunction
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates, token_log_probs
from nmt_keras.search.hypotheses import Beams, Hypotheses
from nmt_keras.search.loop import NextTokens, decode_loop
from nmt_keras.search.ranking import PER_TOKEN, Ranking


def _extend_each(beams: Beams, ids: tf.Tensor, log_probs: tf.Tensor) -> NextTokens:
    """Extends unfinished hypotheses by one token each.

    Args:
        beams: The hypotheses.
        ids: [b, 1] int32. Next token of each hypothesis.
        log_probs: [b, 1] float32. Log-probability of each of these tokens.
    """
    log_probs = tf.where(beams.finished, 0.0, log_probs)
    return NextTokens(tf.where(beams.finished, PAD, ids), beams.log_probs + log_probs)


def _draw(probabilities: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """Returns the first index whose cumulative probability exceeds ``noise`` times the sum.

    An index with probability 0 is never returned.

    Returns:
        [b, 1] int32.
    """
    cumulative = tf.cumsum(probabilities, axis=-1)
    # rounding in a parallel cumulative sum may increase it at an index with probability 0
    exceeds = (cumulative > noise * cumulative[..., -1:]) & (probabilities > 0.0)
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
    """Takes the most probable token at every step. Equals beam search with beam size 1, but is faster.

    Args:
        step, state, memory, max_lengths, ranking, constraints: See :func:`~nmt_keras.search.beam_search`.

    Returns:
        Hypotheses with K = 1.
    """

    def next_tokens(logits: tf.Tensor, beams: Beams, length: tf.Tensor, forced: tf.Tensor | None) -> NextTokens:
        ids, log_probs = candidates(logits, 1, constraints, length, forced)
        best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)[..., tf.newaxis]  # [b, 1, 1]
        ids = tf.gather(ids, best, batch_dims=2)[..., 0]
        return _extend_each(beams, ids, tf.reduce_max(log_probs, axis=-1))

    forced = constraints.forced_ids(max_lengths)
    return decode_loop(step, state, memory, max_lengths, next_tokens, ranking=ranking, rule_inputs=forced)


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

    A hypothesis that takes END is finished. It keeps one of the Q places, so longer hypotheses cannot displace it, and
    the search extends one hypothesis fewer. Unfinished hypotheses have equal lengths and compete by log-probability.
    ``ranking`` compares the finished ones. A sentence is finished at its maximum length, or when no unfinished
    hypothesis can be among its ``n_best``. Hypotheses without END rank behind those with END.

    Args:
        step: One step of the model; see ``StepFunction``.
        state: Decoder state before the first token, nest of [B, 1, ...].
        memory: Memory for ``step``, a nest of tensors [B, ...] and None. It is never tiled.
        max_lengths: [B] int32, maximum length of a hypothesis in tokens, END included; at least 1.
        beam_size: Q, number of hypotheses of each sentence, finished ones included.
        n_best: K, number of hypotheses to return, at most Q. With a smaller ``n_best``, the search can stop earlier.
        ranking: Score function, which compares hypotheses of different lengths.
        constraints: The allowed tokens.

    Returns:
        The hypotheses, best first.

    Raises:
        ValueError: ``n_best`` exceeds ``beam_size``.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best: expected 1 to beam_size ({beam_size}), received {n_best}. Raise beam_size.")

    infinity = float("inf")

    def next_tokens(logits: tf.Tensor, beams: Beams, length: tf.Tensor, forced: tf.Tensor | None) -> NextTokens:
        ids, log_probs = candidates(logits, beam_size, constraints, length, forced)
        count = ids.shape[-1]
        extended = beams.log_probs[..., tf.newaxis] + log_probs  # [b, Q, C]
        # a finished hypothesis has one continuation, with score +infinity, so it is always among the top Q
        kept_score = tf.where(tf.range(count) == 0, infinity, -infinity)
        extended = tf.where(beams.finished[..., tf.newaxis], kept_score, extended)
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
        rule_inputs=constraints.forced_ids(max_lengths),
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
    """Draws every token from softmax(logits / temperature).

    With ``top_k`` or ``top_p``, tokens are drawn only from the most probable tokens.

    A draw is a pure function of the probabilities and ``noise``: it is the first token at which the cumulative
    probability exceeds ``noise``. The returned log-probabilities are the model's own, at temperature 1 over all tokens.

    Args:
        step, state, memory, max_lengths, ranking, constraints: See :func:`~nmt_keras.search.beam_search`.
        noise: [B, T] float32 in [0, 1), one number for each token. T is at least the largest of ``max_lengths``. See
            :func:`hashed_uniform`.
        temperature: Divisor of the logits, above 0.
        top_k: Number of most probable tokens to draw from (Fan et al. 2018); None for all.
        top_p: Minimum total probability of the tokens to draw from, in (0, 1]; 1 for all tokens. The smallest set of
            most probable tokens that reaches it is the nucleus (Holtzman et al. 2020). With ``top_k``, probabilities
            are renormalised over the ``top_k`` tokens before the nucleus is selected.

    Returns:
        Hypotheses with K = 1.
    """

    def next_tokens(logits: tf.Tensor, beams: Beams, length: tf.Tensor, rule_input: Any) -> NextTokens:
        forced, noise = rule_input
        size = logits.shape[-1]
        values = (logits + constraints.token_bias(length, tf.range(size))) / temperature
        ids = None
        if top_k is not None or top_p < 1.0:
            values, ids = tf.math.top_k(values, min(top_k or size, size))
        probabilities = tf.nn.softmax(values)
        if top_p < 1.0:
            before = tf.cumsum(probabilities, axis=-1, exclusive=True)
            probabilities = tf.where(before < top_p, probabilities, 0.0)
        drawn = _draw(probabilities, noise[:, tf.newaxis, tf.newaxis])  # [b, 1]
        if ids is not None:
            drawn = tf.gather(ids, drawn, batch_dims=2)
        if forced is not None:
            drawn = tf.where(tf.equal(forced, PAD)[:, tf.newaxis], drawn, forced[:, tf.newaxis])
        return _extend_each(beams, drawn, token_log_probs(logits, drawn))

    rule_inputs = (constraints.forced_ids(max_lengths), noise)
    return decode_loop(step, state, memory, max_lengths, next_tokens, ranking=ranking, rule_inputs=rule_inputs)


def hashed_uniform(keys: tf.Tensor, count: int | tf.Tensor, seed: int) -> tf.Tensor:
    """Returns noise for :func:`sample`: ``count`` numbers in [0, 1) for each key.

    Each number is a keyed hash (SipHash) of (key, position, seed), so a translation does not depend on the other
    sentences of the batch.

    Args:
        keys: [B] string.
        count: Number of values for each key.
        seed: Seed of the hash.

    Returns:
        [B, count] float32.
    """
    digests = tf.strings.as_string(tf.strings.to_hash_bucket_strong(keys, 2**62, key=[seed, 1]))  # short, unlike keys
    texts = tf.strings.as_string(tf.range(count)) + " " + digests[:, tf.newaxis]  # [B, count]
    return tf.cast(tf.strings.to_hash_bucket_strong(texts, 2**24, key=[seed, 0]), tf.float32) / 2.0**24


class LogLikelihood(NamedTuple):
    """Log-probabilities and alignments of given translations."""

    log_probs: tf.Tensor  # [B] float32, nats: the sum over the tokens
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    alignments: tf.Tensor  # [B, T, S] float32; 0 at padding


def log_likelihood(step: StepFunction, state: Any, memory: Any, ids: tf.Tensor, lengths: tf.Tensor) -> LogLikelihood:
    """Returns the log-probabilities of given translations. A search that chose these tokens returns the same values.

    Args:
        step, state, memory: See :func:`~nmt_keras.search.beam_search`.
        ids: [B, T] int32, T >= 1: the tokens, with END if it is to be scored.
        lengths: [B] int32, number of tokens to score.
    """
    width = tf.shape(ids)[1]
    previous = tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=START)

    def advance(length: tf.Tensor, state: Any, log_probs: tf.TensorArray, rows: tf.TensorArray) -> tuple[Any, ...]:
        predicted = step(previous[:, length, tf.newaxis], state, memory)
        log_prob = token_log_probs(tf.cast(predicted.logits, tf.float32), ids[:, length, tf.newaxis])[:, 0]
        alignment = tf.cast(predicted.alignment, tf.float32)[:, 0]
        return length + 1, predicted.state, log_probs.write(length, log_prob), rows.write(length, alignment)

    log_probs = tf.TensorArray(tf.float32, size=width, element_shape=[None])
    rows = tf.TensorArray(tf.float32, size=width, element_shape=[None, None])
    _, _, log_probs, rows = tf.while_loop(
        lambda length, *_: length < width, advance, (tf.constant(0), state, log_probs, rows)
    )
    is_token = tf.sequence_mask(lengths, width)
    token_values = tf.where(is_token, tf.transpose(log_probs.stack()), 0.0)
    alignments = tf.where(is_token[..., tf.newaxis], tf.transpose(rows.stack(), [1, 0, 2]), 0.0)
    return LogLikelihood(tf.reduce_sum(token_values, axis=1), token_values, alignments)
