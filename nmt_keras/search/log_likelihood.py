"""The log-likelihood of given translations, by forced decoding."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import START
from nmt_keras.search.contract import StepFunction
from nmt_keras.search.sampling import _log_probs


class LogLikelihood(NamedTuple):
    """What a model says of given translations."""

    log_probs: tf.Tensor  # [B] float32, nats: the sum over the tokens
    token_log_probs: tf.Tensor  # [B, T] float32, nats; 0 at padding
    alignments: tf.Tensor  # [B, T, S] float32; 0 at padding


def log_likelihood(step: StepFunction, state: Any, memory: Any, ids: tf.Tensor, lengths: tf.Tensor) -> LogLikelihood:
    """The log-probability of given translations: what a search that chose those tokens would have summed.

    Args:
        step, state, memory: as for :func:`~nmt_keras.search.beam_search`.
        ids: [B, T] int32, T >= 1: the tokens, END included if it is part of what is scored.
        lengths: [B] int32 tokens to score.
    """
    steps = tf.shape(ids)[1]
    previous = tf.pad(ids[:, :-1], [[0, 0], [1, 0]], constant_values=START)

    def advance(
        time: tf.Tensor, state: Any, gained: tf.TensorArray, aligned: tf.TensorArray
    ) -> tuple[tf.Tensor, Any, tf.TensorArray, tf.TensorArray]:
        result = step(previous[:, time, tf.newaxis], state, memory)
        log_probs = _log_probs(tf.cast(result.logits, tf.float32), ids[:, time, tf.newaxis])[:, 0]
        alignment = tf.cast(result.alignment, tf.float32)[:, 0]
        return time + 1, result.state, gained.write(time, log_probs), aligned.write(time, alignment)

    _, _, gained, aligned = tf.while_loop(
        lambda time, *_: time < steps,
        advance,
        (
            tf.constant(0),
            state,
            tf.TensorArray(tf.float32, size=steps, element_shape=[None]),
            tf.TensorArray(tf.float32, size=steps, element_shape=[None, None]),
        ),
    )
    real = tf.sequence_mask(lengths, steps)
    token_log_probs = tf.where(real, tf.transpose(gained.stack()), 0.0)
    alignments = tf.where(real[..., tf.newaxis], tf.transpose(aligned.stack(), [1, 0, 2]), 0.0)
    return LogLikelihood(tf.reduce_sum(token_log_probs, axis=1), token_log_probs, alignments)
