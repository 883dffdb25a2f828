"""Forced decoding: computes the log-likelihood of given translations."""

from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import START
from nmt_keras.layers.base import Nest
from nmt_keras.layers.scan import scan
from nmt_keras.models.prediction import StepFunction


class LogLikelihood(NamedTuple):
    """Log-probabilities and alignments of given translations."""

    log_probs: tf.Tensor  # [B] float32, nats: the sum over the tokens
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    alignments: tf.Tensor  # [B, T, S] float32; 0 at padding


def log_likelihood(step: StepFunction, state: Nest, memory: Nest, ids: tf.Tensor, lengths: tf.Tensor) -> LogLikelihood:
    """Returns the log-probabilities of given translations, as a search without a repetition penalty does.

    Args:
        step, state: Step function, and state before the first token, as for :func:`~nmt_keras.search.beam_search`.
        memory: Memory of the sources.
        ids: [B, T] int32, T >= 1: the tokens, with END if it is to be scored.
        lengths: [B] int32, number of tokens to score.
    """
    previous = tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=START)

    def advance(tokens: tuple[tf.Tensor, tf.Tensor], state: Nest) -> tuple[Nest, tuple[tf.Tensor, tf.Tensor]]:
        previous, token = tokens  # [B, 1] each
        prediction = step(previous, state, memory)
        logits = tf.cast(prediction.logits, tf.float32)
        log_probs = tf.gather(logits, token, batch_dims=2) - tf.reduce_logsumexp(logits, axis=-1)
        return prediction.state, (log_probs, tf.cast(prediction.alignment, tf.float32))

    _, (log_probs, alignments) = scan(advance, (previous, ids), state)
    is_token = tf.sequence_mask(lengths, tf.shape(ids)[1])
    log_probs, alignments = tf.where(is_token, log_probs, 0.0), tf.where(is_token[..., tf.newaxis], alignments, 0.0)
    return LogLikelihood(tf.reduce_sum(log_probs, axis=1), log_probs, alignments)
