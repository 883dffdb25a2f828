"""Scheduled sampling: from teacher forcing to free running, position by position."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS
from tensors import assert_same
from tiny import randomise

from nmt_keras.config import END, START
from nmt_keras.layers.dropout import Randomness
from nmt_keras.models.seq2seq import build_model
from nmt_keras.training import batch_loss

SOURCE = tf.constant([[4, 5, 6, END], [7, END, 0, 0]])
READ = tf.constant([[START, 8, 9, 10, 11], [START, 12, END, 0, 0]])
NOISE = Randomness(1, 5)


@pytest.fixture(scope="module", params=["rnnsearch", "luong-feed", "self-attention"])
def model(request):
    keras.utils.set_random_seed(3)
    model = build_model(replace(COMBINATIONS[request.param], dropout=0.0), 17, 19)
    randomise(model, 3)
    return model


def test_at_probability_0_it_is_teacher_forcing(model):
    wanted = model((SOURCE, READ), randomness=NOISE)
    found = model((SOURCE, READ), randomness=NOISE, sampling_probability=tf.constant(0.0))
    assert_same(found, wanted)


def test_at_probability_1_it_reads_its_own_most_probable_tokens(model):
    found = model((SOURCE, READ), randomness=NOISE, sampling_probability=tf.constant(1.0))
    own = tf.argmax(found.logits, axis=-1, output_type=tf.int32)
    wanted = model((SOURCE, tf.concat([READ[:, :1], own[:, :-1]], axis=1)), randomness=NOISE)
    np.testing.assert_allclose(found.logits, wanted.logits, atol=1e-5)


@pytest.mark.long
def test_a_graph_that_does_not_know_the_lengths_gives_the_same_logits(model):
    ids, half = tf.TensorSpec([None, None], tf.int32), tf.constant(0.5)
    graph = tf.function(
        lambda source, read: model((source, read), randomness=NOISE, sampling_probability=half).logits,
        input_signature=[ids, ids],
        autograph=False,
    )
    wanted = model((SOURCE, READ), randomness=NOISE, sampling_probability=half).logits
    np.testing.assert_allclose(graph(SOURCE, READ), wanted, atol=1e-5)


@pytest.mark.parametrize("model", ["rnnsearch"], indirect=True)
def test_the_same_step_reads_the_same_tokens_and_another_step_others(model):
    def loss(step):
        randomness = Randomness(1, step)
        return float(
            batch_loss(model, SOURCE, READ[:, 1:], 0.0, randomness=randomness, sampling=tf.constant(0.5)).total
        )

    assert loss(5) == loss(5)
    assert len({loss(step) for step in range(3)}) > 1


@pytest.mark.parametrize("model", ["rnnsearch"], indirect=True)
@pytest.mark.slow  # XLA compiles for a long time
def test_graph_and_xla_give_the_same_gradient_as_eager(model):
    def gradients(sampling):
        with tf.GradientTape() as tape:
            loss = batch_loss(model, SOURCE, READ[:, 1:], 0.1, randomness=NOISE, sampling=sampling).total
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, [v.value for v in model.trainable_variables])]

    eager = gradients(tf.constant(0.5))
    compiled = tf.function(gradients, autograph=False, jit_compile=True)(tf.constant(0.5))
    assert_same(compiled, eager, rtol=1e-4)


@pytest.mark.parametrize("model", ["rnnsearch"], indirect=True)
def test_without_a_randomness_scheduled_sampling_draws_from_keras_s_generator(model):
    def sampled(seed):
        keras.utils.set_random_seed(seed)
        return [model((SOURCE, READ), sampling_probability=tf.constant(0.5)).logits.numpy() for _ in range(3)]

    found = sampled(3)
    np.testing.assert_array_equal(found, sampled(3))
    assert np.ptp(found, axis=0).max() > 0.0
