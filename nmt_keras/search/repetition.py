"""Limits of repetition. They have Hugging Face's names, and act on log-probabilities as in its beam search."""

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.search.hypotheses import IMPOSSIBLE


def penalize_repetition(log_probs: tf.Tensor, history: tf.Tensor, repetition_penalty: float) -> tf.Tensor:
    """Multiplies the log-probabilities of tokens that a hypothesis contains (Keskar et al. 2019, section 4.1).

    Args:
        log_probs: [b, Q, V] float32, nats.
        history: [b, Q, 1 + t] int32, START and the tokens of each hypothesis.
        repetition_penalty: Factor, above 0. Above 1, repetition becomes less probable.
    """
    is_repeated = _occurs(history, tf.not_equal(history, PAD), tf.shape(log_probs)[2])
    return tf.where(is_repeated, repetition_penalty * log_probs, log_probs)


def forbid_repeated_ngrams(log_probs: tf.Tensor, history: tf.Tensor, size: int, allowed: tf.Tensor) -> tf.Tensor:
    """Makes tokens IMPOSSIBLE that would repeat an n-gram of ``size`` tokens (Paulus et al. 2018, section 2.5).

    Args:
        log_probs: [b, Q, V] float32, nats.
        history: [b, Q, 1 + t] int32, START and the tokens of each hypothesis.
        size: Number of tokens of an n-gram, at least 1.
        allowed: [V] bool, tokens that other rules allow. If all of them would repeat an n-gram, none is forbidden.
    """
    history = tf.pad(history, [[0, 0], [0, 0], [size - 1, 0]])  # at least one n-gram
    count = tf.shape(history)[2] - size + 1
    is_repeated = tf.ones_like(history[:, :, :count], tf.bool)
    for i in range(size - 1):  # an n-gram is repeated if it starts with the last tokens of the history
        is_repeated &= tf.equal(history[:, :, i : i + count], history[:, :, count + i, tf.newaxis])
    forbidden = _occurs(history[:, :, size - 1 :], is_repeated, tf.shape(log_probs)[2])
    forbidden &= tf.reduce_any(allowed & ~forbidden, axis=2, keepdims=True)
    return tf.where(forbidden, IMPOSSIBLE, log_probs)


def _occurs(tokens: tf.Tensor, counts: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns True for ids that are among the ``tokens`` [b, Q, n] for which ``counts`` is True: [b, Q, size] bool."""
    rows = tf.shape(tokens)[0] * tokens.shape[1]
    indices = tf.range(rows)[:, tf.newaxis] * size + tf.reshape(tokens, [rows, -1])
    found = tf.math.unsorted_segment_max(tf.cast(tf.reshape(counts, [rows, -1]), tf.int32), indices, rows * size)
    return tf.reshape(found > 0, [-1, tokens.shape[1], size])
