"""Weights are read before a loop."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS
from tensors import assert_same

from nmt_keras.layers.matmul import weights_read_once
from nmt_keras.models.seq2seq import build_model


@pytest.mark.parametrize("in_graph", [False, True])
def test_state_that_a_forward_pass_changes_is_written_back(in_graph):
    """A Keras layer of the user draws random numbers and keeps moving averages as outside of the block."""
    model = keras.Sequential([keras.layers.Dropout(0.5, seed=1), keras.layers.BatchNormalization()])
    model.build((None, 4))
    x, before = tf.random.stateless_normal([3, 4], [1, 2]), [variable.numpy() for variable in model.variables]

    def forward():
        with weights_read_once(model):
            return model(x, training=True)

    function = tf.function(forward, autograph=False) if in_graph else forward
    found, after = [function().numpy() for _ in range(2)], [variable.numpy() for variable in model.variables]
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    wanted = [model(x, training=True).numpy() for _ in range(2)]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.abs(found[0] - found[1]).max() > 0.1
    assert_same(model.variables, after, atol=1e-6)


def test_a_loop_that_changes_a_variable_is_refused_by_its_name():
    layer = keras.layers.Dropout(0.5, seed=1)
    layer.build((4,))

    def forward():
        with weights_read_once(layer):
            return tf.while_loop(
                lambda x: True, lambda x: [layer(x, training=True)], [tf.ones(4)], maximum_iterations=3
            )

    with pytest.raises(
        ValueError, match="seed_generator_state: expected a variable that no loop over positions changes"
    ):
        tf.function(forward, autograph=False)()


def test_a_block_within_a_block_keeps_the_precision_of_the_outer_one():
    model = build_model(COMBINATIONS["conditional"], 19, 23)
    memory = model.encode(tf.constant([[4, 5, 6, 3], [7, 3, 0, 0]]))
    state, ids = model.initial_state(memory), tf.constant([[2], [2]])
    exact = model.step(ids, state, memory).logits
    with weights_read_once(model, precision="bfloat16"):
        rounded = model.step(ids, state, memory).logits
        with weights_read_once(model):
            inner = model.step(ids, state, memory).logits
    np.testing.assert_array_equal(inner, rounded)
    assert np.abs(exact - rounded).max() > 1e-6
    np.testing.assert_array_equal(model.step(ids, state, memory).logits, exact)
