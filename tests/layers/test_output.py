"""Output layers against the papers' equations."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from reference import logits_of, output_layer_of
from tensors import normal
from tiny import randomise

from nmt_keras.layers.matmul import Weight
from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, StateOutput

L, U, D, E, V = 5, 7, 11, 13, 37
SIZES = {"vocabulary_size": V, "state_size": U}
OUTPUT_LAYERS = {
    "maxout": functools.partial(MaxoutOutput, units=L, context_size=D, embedding_size=E, **SIZES),
    "linear": functools.partial(LinearOutput, context_size=D, embedding_size=E, **SIZES),
    "state": functools.partial(StateOutput, **SIZES),
    "attentional": functools.partial(AttentionalOutput, units=L, context_size=D, **SIZES),
}
SEEN = normal(2, 3, U), normal(2, 3, D, seed=3), normal(2, 3, E, seed=4)  # states, contexts, embeddings


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", OUTPUT_LAYERS)
def test_logits_are_the_paper_s_with_a_matrix_of_the_layer_s_own_or_a_tied_one(name, tied):
    layer = OUTPUT_LAYERS[name](tie_embeddings=tied)
    randomise(layer, 1)
    weights, embedding = layer.read_weights(), normal(V, layer.feature_size, seed=5)
    assert hasattr(weights, "output_kernel") != tied
    if tied:
        weights.output_kernel = Weight(embedding)
    state, context, embedded = SEEN
    features = layer.features(weights, state, layer.project_context(weights, context), embedded)
    found = layer.logits(weights, features)
    assert found.shape == (2, 3, V)
    for place in np.ndindex(2, 3):
        wanted = logits_of(output_layer_of(layer, embedding.numpy()), *(x.numpy()[place] for x in SEEN))
        np.testing.assert_allclose(found[place], wanted, atol=2e-5)


def test_maxout_takes_the_larger_of_each_pair():
    layer = MaxoutOutput(vocabulary_size=2, units=2, state_size=4, context_size=0, embedding_size=0)
    layer.maxout_kernel.assign(tf.eye(4))
    nothing = tf.zeros([1, 1, 0])
    state = tf.constant([[[1.0, 7.0, 2.0, 5.0]]])  # the first units of both pairs, then the second units
    assert layer.features(layer.read_weights(), state, None, nothing).numpy().tolist() == [[[2.0, 7.0]]]


def test_the_attentional_vector_takes_the_context_before_the_state():
    layer = AttentionalOutput(vocabulary_size=1, units=1, state_size=1, context_size=2)
    layer.kernel.assign([[0.5], [0.0], [-2.0]])
    weights = layer.read_weights()
    context = layer.project_context(weights, tf.constant([[[3.0, 9.0]]]))
    found = layer.features(weights, tf.constant([[[0.25]]]), context, tf.zeros([1, 1, 0]))
    np.testing.assert_allclose(found, [[[np.tanh(0.5 * 3.0 - 2.0 * 0.25)]]])
