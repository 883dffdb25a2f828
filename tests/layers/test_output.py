"""Readouts against the papers' equations, and what stands below the softmax."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import logits_of, output_layer_of
from tiny import randomise

from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, StateOutput

L, U, D, E, V = 5, 7, 11, 13, 37


def embedding(width):
    layer = keras.layers.Embedding(V, width)
    layer.build()
    return layer


SIZES = {"vocabulary_size": V, "state_size": U}
READOUTS = {
    "maxout": functools.partial(MaxoutOutput, units=L, context_size=D, embedding_size=E, **SIZES),
    "linear": functools.partial(LinearOutput, context_size=D, embedding_size=E, **SIZES),
    "state": functools.partial(StateOutput, **SIZES),
    "attentional": functools.partial(AttentionalOutput, units=L, context_size=D, **SIZES),
}
TIED = {
    "maxout, tied": lambda: READOUTS["maxout"](tied_embedding=embedding(L)),
    "state, tied": lambda: READOUTS["state"](tied_embedding=embedding(U)),
    "attentional, tied": lambda: READOUTS["attentional"](tied_embedding=embedding(L)),
}


@pytest.fixture(params=[*READOUTS, *TIED])
def layer(request):
    layer = {**READOUTS, **TIED}[request.param]()
    randomise(layer, 1)
    return layer


def seen(dtype=tf.float32):
    """States, contexts and embeddings of two sentences at three positions."""
    random = np.random.default_rng(2)
    return [tf.constant(random.normal(size=(2, 3, size)), dtype) for size in (U, D, E)]


def test_logits_are_the_paper_s(layer):
    state, context, embedded = (x.numpy().astype(float) for x in seen())
    found = layer(*seen())
    assert found.shape == (2, 3, V)
    for b in range(2):
        for t in range(3):
            wanted = logits_of(output_layer_of(layer), state[b, t], context[b, t], embedded[b, t])
            np.testing.assert_allclose(found[b, t], wanted, atol=2e-5)


def test_maxout_takes_the_larger_of_each_pair():
    layer = MaxoutOutput(vocabulary_size=2, units=2, state_size=4, context_size=0, embedding_size=0)
    layer.pair_kernel.assign(tf.eye(4))
    layer.output_rows.assign(tf.eye(2))
    nothing = tf.zeros([1, 1, 0])
    logits = layer(tf.constant([[[1.0, 7.0, 2.0, 5.0]]]), nothing, nothing)  # the firsts, then the seconds
    assert logits.numpy().tolist() == [[[2.0, 7.0]]]


def test_the_attentional_vector_takes_the_context_before_the_state():
    layer = AttentionalOutput(vocabulary_size=1, units=1, state_size=1, context_size=2)
    layer.kernel.assign([[0.5], [0.0], [-2.0]])
    context, state = tf.constant([[[3.0, 9.0]]]), tf.constant([[[0.25]]])
    np.testing.assert_allclose(layer.hidden(state, context, tf.zeros([1, 1, 0])), [[[np.tanh(0.5 * 3.0 - 2.0 * 0.25)]]])


def test_a_state_readout_sees_the_state_alone():
    layer = READOUTS["state"]()
    state, context, embedded = seen()
    np.testing.assert_array_equal(layer(state, context, embedded), layer(state, 0.0 * context, 0.0 * embedded))


@pytest.mark.parametrize("name", TIED)
def test_a_tied_softmax_has_no_matrix_of_its_own_and_teaches_the_embedding(name):
    layer = TIED[name]()
    randomise(layer, 1)
    own = READOUTS[name.removesuffix(", tied")]()
    names = [{v.name for v in each.trainable_variables} for each in (layer, own)]
    assert names[1] - names[0] == {"output_rows"}
    assert names[0] - names[1] == {"embeddings"}
    with tf.GradientTape() as tape:
        logits = layer(*seen())
    gradient = tape.gradient(logits, layer.tied_embedding.embeddings.value)
    below = layer.hidden(*seen()).numpy().reshape(-1, layer.hidden_size).sum(axis=0)
    np.testing.assert_allclose(
        gradient, [below] * V, rtol=1e-5
    )  # d SUM logits / d row = SUM of what it is multiplied with


@pytest.mark.parametrize("name", READOUTS)
def test_dropout_stands_right_below_the_softmax_and_acts_under_noise_alone(name):
    layer = READOUTS[name](dropout=0.5)
    randomise(layer, 1)
    randomness, hidden = Randomness(tf.constant(1), tf.constant(2)), layer.hidden(*seen())
    np.testing.assert_array_equal(layer(*seen(), randomness), layer.logits(hidden, randomness))
    np.testing.assert_array_equal(layer(*seen()), layer.logits(hidden))
    layer.output_rows.assign(tf.eye(V, layer.hidden_size))  # now the logits are what the softmax sees
    layer.output_bias.assign(tf.zeros(V))
    share = layer(*seen(), randomness)[..., : layer.hidden_size] / hidden
    assert set(np.unique(np.round(share, 3))) == {0.0, 2.0}


def test_a_readout_comes_back_from_its_configuration(layer):
    config = layer.get_config()
    copy = type(layer).from_config(config)
    assert copy.get_config() == config
    if layer.tied_embedding is not None:
        copy.tied_embedding.build()
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in layer.trainable_variables]
