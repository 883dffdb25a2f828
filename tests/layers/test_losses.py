"""The loss, on cases that can be computed by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
from reference import cross_entropy

from nmt_keras.layers.losses import MaskedCrossEntropy, masked_cross_entropy

B, T, V = 3, 5, 7


def logits_of(*probabilities):
    return tf.math.log(tf.constant([probabilities]))


def test_smoothing_gives_each_word_its_share():
    logits = logits_of([0.5, 0.25, 0.125, 0.125])
    loss = masked_cross_entropy(logits, tf.constant([[0]]), tf.constant([[True]]), smoothing=0.4)
    in_bits = 0.6 * 1 + 0.4 * (1 + 2 + 3 + 3) / 4
    assert float(loss.total) == pytest.approx(in_bits * math.log(2))
    assert float(loss.cross_entropy) == pytest.approx(math.log(2))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_padded_batch_has_the_reference_s_loss(smoothing):
    random, lengths = np.random.default_rng(1), [5, 2, 0]
    logits, labels = random.normal(size=(B, T, V)), random.integers(V, size=(B, T))
    mask = tf.sequence_mask(lengths, T)
    loss = masked_cross_entropy(tf.constant(logits, tf.float32), tf.constant(labels, tf.int32), mask, smoothing)
    rows = [(logits[b, : lengths[b]], labels[b, : lengths[b]]) for b in range(B)]
    assert float(loss.total) == pytest.approx(sum(cross_entropy(*row, smoothing) for row in rows), rel=1e-5)
    assert float(loss.cross_entropy) == pytest.approx(sum(cross_entropy(*row) for row in rows), rel=1e-5)
    assert float(loss.correct) == sum((scores.argmax(-1) == wanted).sum() for scores, wanted in rows)
    assert float(loss.tokens) == 7.0


def test_a_label_smoothing_outside_of_its_range_is_refused():
    with pytest.raises(ValueError, match="label_smoothing: expected a rate from 0 to less than 1"):
        MaskedCrossEntropy(label_smoothing=1.5)


def test_logits_in_half_precision_have_a_loss_in_single():
    logits = tf.cast(logits_of([0.5, 0.5]), tf.bfloat16)
    loss = masked_cross_entropy(
        tf.repeat(logits, 1000, axis=0), tf.zeros([1000, 1], tf.int32), tf.ones([1000, 1], tf.bool)
    )
    assert loss.total.dtype == tf.float32
    assert float(loss.total) == pytest.approx(1000 * math.log(2), rel=1e-5)
