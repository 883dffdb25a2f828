"""Masked cross-entropy with label smoothing, in nats."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Loss(NamedTuple):
    """Sums over the real tokens of a batch; what is differentiated, and what is logged."""

    total: tf.Tensor  # [] float32, nats: the smoothed cross-entropy, summed
    cross_entropy: tf.Tensor  # [] float32, nats: the same without smoothing
    correct: tf.Tensor  # [] float32: tokens whose most probable prediction is the label
    tokens: tf.Tensor  # [] float32: real tokens


def masked_cross_entropy(logits: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, smoothing: float = 0.0) -> Loss:
    """SUM over real tokens of -SUM_v q_v log p_v, where q = (1 - smoothing) · one-hot(label) + smoothing / V.

    (Szegedy et al. 2016, section 7, for the smoothing.) Nothing is averaged here: the training step divides sums of
    gradients once by the global denominator.

    Args:
        logits: [B, T, V] float; the loss is computed in float32.
        labels: [B, T] int.
        mask: [B, T] bool, True at real tokens; padding adds nothing, whatever stands there.
        smoothing: probability mass spread evenly over the vocabulary, in [0, 1).
    """
    log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))
    weights = tf.cast(mask, tf.float32)
    wanted = tf.one_hot(
        labels, tf.shape(logits)[-1]
    )  # a product with it is fused by XLA; gathering and its scatter are not
    cross_entropy = -tf.reduce_sum(wanted * log_probs, axis=-1)
    uniform = -tf.reduce_mean(log_probs, axis=-1)
    hits = tf.equal(tf.argmax(logits, axis=-1, output_type=labels.dtype), labels)
    return Loss(
        total=tf.reduce_sum(weights * ((1.0 - smoothing) * cross_entropy + smoothing * uniform)),
        cross_entropy=tf.reduce_sum(weights * cross_entropy),
        correct=tf.reduce_sum(weights * tf.cast(hits, tf.float32)),
        tokens=tf.reduce_sum(weights),
    )
