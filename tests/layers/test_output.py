"""Output layers against the papers' equations."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from keras.initializers import GlorotUniform
from reference import logits_of, output_layer_of
from tensors import normal
from tiny import randomise

from nmt_keras.layers.output import AttentionalOutput, LinearOutput, MaxoutOutput, StateOutput

L, U, D, E, V = 5, 7, 11, 13, 37
OUTPUT_LAYERS = {
    "maxout": functools.partial(MaxoutOutput, V, units=L),
    "linear": functools.partial(LinearOutput, V),
    "state": functools.partial(StateOutput, V),
    "attentional": functools.partial(AttentionalOutput, V, units=L),
}
SEEN = normal(2, 3, U), normal(2, 3, D, seed=3), normal(2, 3, E, seed=4)  # states, contexts, embeddings


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", OUTPUT_LAYERS)
def test_logits_are_the_paper_s_with_a_matrix_of_the_layer_s_own_or_a_tied_one(name, tied):
    layer = OUTPUT_LAYERS[name](tie_embeddings=tied)
    layer.build(*(x.shape for x in SEEN))
    randomise(layer, 1)
    embedding = normal(V, layer.feature_size, seed=5)
    assert hasattr(layer, "output_kernel") != tied
    state, context, embedded = SEEN
    features = layer.features(state, context, embedded)
    found = layer.logits(features, embedding)
    assert found.shape == (2, 3, V)
    for place in np.ndindex(2, 3):
        wanted = logits_of(output_layer_of(layer, embedding.numpy()), *(x.numpy()[place] for x in SEEN))
        np.testing.assert_allclose(found[place], wanted, atol=2e-5)


def test_maxout_takes_the_larger_of_each_pair():
    layer = MaxoutOutput(2, units=2)
    layer.build((1, 1, 4), (1, 1, 0), (1, 1, 0))
    layer.state_kernel.assign(tf.eye(4))
    nothing = tf.zeros([1, 1, 0])
    state = tf.constant([[[1.0, 7.0, 2.0, 5.0]]])  # the first units of both pairs, then the second units
    assert layer.features(state, nothing, nothing).numpy().tolist() == [[[2.0, 7.0]]]


def test_a_seed_of_the_initializer_gives_the_same_blocks_again():
    layers = [OUTPUT_LAYERS["maxout"](kernel_initializer=GlorotUniform(seed=seed)) for seed in (1, 1, 2)]
    for layer in layers:
        layer.build(*(x.shape for x in SEEN))
    first, same, other = (layer.context_kernel.numpy() for layer in layers)
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 0.0
