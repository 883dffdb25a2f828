"""Additive attention against the paper's equation, and what every alignment must be."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import randomise
from reference import align, attend, attention_of

from nmt_keras.attention import BahdanauAttention, Memory, context, masked_softmax

B, Q, S, U, A, D = 3, 2, 5, 7, 11, 13
LENGTHS = [5, 1, 3]


@pytest.fixture(scope="module")
def attention():
    attention = BahdanauAttention(A, U, D)
    randomise(attention, 1)
    return attention


def normal(*shape, seed=2):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def remembered(attention, values):
    lengths = tf.constant(LENGTHS)
    return Memory(values, attention.keys(values), tf.sequence_mask(lengths, values.shape[1]), lengths, None)


def test_alignments_and_contexts_are_the_paper_s(attention):
    values, query = normal(B, S, D), normal(B, Q, U, seed=3)
    memory = remembered(attention, values)
    alignment = attention.align(query, memory)
    contexts = context(alignment, memory)
    assert alignment.shape == (B, Q, S)
    for b in range(B):
        h = list(values.numpy()[b, : LENGTHS[b]])
        for q in range(Q):
            alpha = align(attention_of(attention), query[b, q].numpy(), h)
            np.testing.assert_allclose(alignment[b, q, : LENGTHS[b]], alpha, atol=1e-6)
            np.testing.assert_allclose(contexts[b, q], attend(alpha, h), atol=1e-5)


def test_alignments_sum_to_1_and_are_exactly_0_on_padding(attention):
    alignment = attention.align(normal(B, Q, U), remembered(attention, 100.0 * normal(B, S, D))).numpy()
    np.testing.assert_allclose(alignment.sum(axis=-1), 1.0, atol=1e-6)
    for b in range(B):
        assert (alignment[b, :, LENGTHS[b] :] == 0.0).all()


def test_what_stands_at_padding_changes_no_alignment(attention):
    values, query = normal(B, S, D), normal(B, Q, U, seed=3)
    padding = ~tf.sequence_mask(LENGTHS, S)[:, :, tf.newaxis]
    garbage = tf.where(padding, 1e6, values)
    found, wanted = (attention.align(query, remembered(attention, v)) for v in (garbage, values))
    np.testing.assert_array_equal(found, wanted)


def test_equal_scores_share_the_weight_and_larger_ones_win():
    scores, mask = tf.constant([[[0.0, 0.0, 9.0]]]), tf.constant([[True, True, False]])
    assert masked_softmax(scores, mask).numpy().tolist() == [[[0.5, 0.5, 0.0]]]
    scores = tf.math.log(tf.constant([[[3.0, 1.0, 7.0]]]))
    np.testing.assert_allclose(masked_softmax(scores, mask), [[[0.75, 0.25, 0.0]]], rtol=1e-6)


@pytest.mark.parametrize("size", [-1e30, 1e4, 1e30])
def test_huge_scores_overflow_nowhere(size):
    scores, mask = tf.fill([1, 1, 3], size), tf.constant([[True, True, False]])
    np.testing.assert_allclose(masked_softmax(scores, mask), [[[0.5, 0.5, 0.0]]])


def test_a_softmax_in_half_precision_is_taken_in_single_precision():
    scores = tf.cast(normal(1, 1, 257), tf.bfloat16)
    found = masked_softmax(scores, tf.ones([1, 257], tf.bool))
    exact = tf.nn.softmax(tf.cast(scores, tf.float32))
    assert found.dtype == tf.bfloat16
    np.testing.assert_array_equal(tf.cast(found, tf.float32), tf.cast(tf.cast(exact, tf.bfloat16), tf.float32))


def test_hypotheses_share_one_memory(attention):
    values, queries = normal(B, S, D), normal(B, Q, U, seed=3)
    memory = remembered(attention, values)
    together = attention.align(queries, memory)
    for q in range(Q):
        np.testing.assert_allclose(together[:, q : q + 1], attention.align(queries[:, q : q + 1], memory), atol=1e-6)


def test_an_attention_comes_back_from_its_configuration(attention):
    config = attention.get_config()
    copy = BahdanauAttention.from_config(config)
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in attention.trainable_variables]
