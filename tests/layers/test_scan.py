"""The loop over time against a Python loop."""

import pytest
import tensorflow as tf
from tensors import assert_same, normal

from nmt_keras.layers.scan import scan


def affine(x, state):
    a, _, b = x
    state = tf.tanh(a * state + b)
    return state, state * a


def plain_loop(a, b, start):
    state, outputs = start, []
    for t in reversed(range(a.shape[1])):
        state, output = affine((a[:, t : t + 1], None, b[:, t : t + 1]), state)
        outputs.insert(0, output)
    return state, tf.concat(outputs, axis=1)


def with_gradient(loop):
    def differentiated(*arguments):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            state, outputs = loop(*arguments)
            total = tf.reduce_sum(state) + tf.reduce_sum(outputs**2)
        return outputs, *tape.gradient(total, arguments)

    return differentiated


SCANNED = with_gradient(lambda a, b, start: scan(affine, (a, None, b), start, reverse=True))


@pytest.mark.parametrize(
    "loop",
    [
        SCANNED,
        tf.function(SCANNED, autograph=False, jit_compile=True),
        tf.function(SCANNED, autograph=False, input_signature=[tf.TensorSpec([None, None, 7])] * 3),
    ],
    ids=["eager", "XLA", "graph of unknown shapes"],
)
@pytest.mark.parametrize("steps", [1, 5])
def test_a_loop_and_its_gradient_equal_those_of_a_python_loop(loop, steps):
    arguments = normal(3, steps, 7), normal(3, steps, 7, seed=3), normal(3, 1, 7, seed=4)
    assert_same(loop(*arguments), with_gradient(plain_loop)(*arguments))


def test_a_state_may_have_a_known_size_where_the_inputs_have_none():
    inputs = [tf.TensorSpec([None, 5, 7])] * 2 + [tf.TensorSpec([1, 1, 7])]
    loop = tf.function(
        lambda a, b, start: scan(affine, (a, None, b), start)[1], autograph=False, input_signature=inputs
    )
    a, b, start = normal(1, 5, 7), normal(1, 5, 7, seed=3), normal(1, 1, 7, seed=4)
    assert_same(loop(a, b, start), scan(affine, (a, None, b), start)[1], atol=1e-6)
