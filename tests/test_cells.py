"""Cells against the papers' equations, the loop over time against a plain one, and what dropout promises."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import gru, gru_of

from nmt_keras.cells import GRUCell, Noise, dropout, product, scan

B, T, U, INPUT, D = 3, 5, 7, 11, 13


@pytest.fixture(scope="module")
def cell():
    cell = GRUCell(U, INPUT, D)
    random = np.random.default_rng(1)
    for variable in cell.trainable_variables:
        variable.assign(random.normal(size=variable.shape))
    return cell


def normal(*shape, seed=2):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def noise(seed=1, step=1):
    return Noise(tf.constant(seed), tf.constant(step))


# The gated unit


def test_the_gated_unit_is_the_paper_s(cell):
    x, state, context = normal(B, T, INPUT), normal(B, T, U, seed=3), normal(B, T, D, seed=4)
    found = cell.advance(cell.contextualise(cell.project(x), context), state).numpy()
    for b in range(B):
        for t in range(T):
            wanted = gru(gru_of(cell), x[b, t].numpy(), state[b, t].numpy(), context[b, t].numpy())
            np.testing.assert_allclose(found[b, t], wanted, atol=1e-5)


def test_without_a_context_the_gated_unit_leaves_it_out():
    cell = GRUCell(U, INPUT)
    assert len(cell.trainable_variables) == 4
    x, state = normal(1, INPUT), normal(1, U)
    wanted = gru(gru_of(cell), x[0].numpy(), state[0].numpy(), np.zeros(0))
    np.testing.assert_allclose(cell.advance(cell.project(x), state)[0], wanted, atol=1e-6)


def test_keras_s_gated_unit_is_the_same_with_the_update_gate_complemented(cell):
    peer = keras.layers.GRUCell(U, reset_after=False)
    peer.build((B, INPUT + D))
    complement = np.concatenate([-np.ones(U), np.ones(2 * U)])  # sigma(-a) = 1 - sigma(a)
    p = gru_of(cell)
    peer.kernel.assign(np.vstack([np.vstack([p.W_z, p.W_r, p.W]).T, np.vstack([p.C_z, p.C_r, p.C]).T]) * complement)
    peer.recurrent_kernel.assign(np.vstack([p.U_z, p.U_r, p.U]).T * complement)
    peer.bias.assign(np.concatenate([p.b_z, p.b_r, p.b]) * complement)
    x, state, context = normal(B, INPUT), normal(B, U, seed=3), normal(B, D, seed=4)
    wanted, _ = peer(tf.concat([x, context], axis=-1), state)
    found = cell.advance(cell.contextualise(cell.project(x), context), state)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_an_update_gate_of_zero_keeps_the_state_and_one_of_one_replaces_it():
    cell = GRUCell(1, 1)
    for variable in cell.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    state = tf.constant([[0.5]])
    closed, opened = tf.constant([[-100.0, 0.0, 9.0]]), tf.constant([[100.0, 0.0, 9.0]])
    assert cell.advance(closed, state).numpy() == 0.5
    assert cell.advance(opened, state).numpy() == pytest.approx(np.tanh(9.0), abs=1e-6)


def test_a_cell_comes_back_from_its_configuration(cell):
    config = cell.get_config()
    copy = GRUCell.from_config(config)
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in cell.trainable_variables]


def test_a_product_is_over_the_last_axis():
    x, kernel = normal(2, 3, 5), normal(5, 7, seed=3)
    np.testing.assert_allclose(product(x, kernel), np.einsum("bti,io->bto", x, kernel), atol=1e-5)


# The loop


def running_sum(x, carry):
    return carry + x, {"sum": carry + x, "before": carry}


@pytest.mark.parametrize(
    ("reverse", "last", "sums", "before"),
    [(False, 1111, [1, 11, 111, 1111], [0, 1, 11, 111]), (True, 1111, [1111, 1110, 1100, 1000], [1110, 1100, 1000, 0])],
)
def test_the_loop_goes_through_time_either_way_and_emissions_keep_their_positions(reverse, last, sums, before):
    x = tf.constant([[1, 10, 100, 1000]])[:, :, tf.newaxis]
    carry, emissions = scan(running_sum, x, tf.zeros([1, 1, 1], tf.int32), reverse=reverse)
    assert carry.numpy().tolist() == [[[last]]]
    assert emissions["sum"][0, :, 0].numpy().tolist() == sums
    assert emissions["before"][0, :, 0].numpy().tolist() == before


def test_the_loop_takes_a_single_position():
    carry, emissions = scan(running_sum, tf.constant([[[3.0]], [[4.0]]]), tf.ones([2, 1, 1]))
    assert carry.numpy().ravel().tolist() == [4.0, 5.0]
    assert emissions["sum"].shape == (2, 1, 1)


def affine(x, carry):
    a, b = x
    carry = tf.tanh(a * carry + b)
    return carry, carry * a


def loop_with_gradient(a, b, start):
    with tf.GradientTape() as tape:
        tape.watch([a, b, start])
        carry, emissions = scan(affine, (a, b), start, reverse=True)
        total = tf.reduce_sum(carry) + tf.reduce_sum(emissions**2)
    return emissions, *tape.gradient(total, [a, b, start])


def plain_loop_with_gradient(a, b, start):
    with tf.GradientTape() as tape:
        tape.watch([a, b, start])
        carry, emissions = start, []
        for t in reversed(range(a.shape[1])):
            carry, emission = affine((a[:, t : t + 1], b[:, t : t + 1]), carry)
            emissions.insert(0, emission)
        emissions = tf.concat(emissions, axis=1)
        total = tf.reduce_sum(carry) + tf.reduce_sum(emissions**2)
    return emissions, *tape.gradient(total, [a, b, start])


@pytest.mark.parametrize(
    "compiled",
    [
        loop_with_gradient,
        tf.function(loop_with_gradient, autograph=False),
        tf.function(loop_with_gradient, autograph=False, jit_compile=True),
        tf.function(loop_with_gradient, autograph=False, input_signature=[tf.TensorSpec([None, None, U])] * 3),
    ],
    ids=["eager", "graph", "xla", "graph of unknown shapes"],
)
def test_the_loop_and_its_gradient_equal_those_of_a_python_loop(compiled):
    arguments = normal(B, T, U), normal(B, T, U, seed=3), normal(B, 1, U, seed=4)
    for found, wanted in zip(compiled(*arguments), plain_loop_with_gradient(*arguments), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


# Dropout


def test_dropout_is_absent_outside_training_and_at_rate_0():
    x = normal(B, T)
    assert dropout(x, 0.5, None, "site") is x
    assert dropout(x, 0.0, noise(), "site") is x


def test_dropout_zeroes_or_scales():
    found = dropout(tf.ones([1000]), 0.2, noise(), "site").numpy()
    assert set(found.tolist()) == {0.0, 1.25}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(rate):
    n = 100_000
    found = dropout(tf.ones([n]), rate, noise(), "site").numpy()
    deviation = (rate * (1.0 - rate) / n) ** 0.5  # of the share of zeros, a binomial's
    assert abs((found == 0.0).mean() - rate) < 4.0 * deviation
    assert abs(found.mean() - 1.0) < 4.0 * deviation / (1.0 - rate)


def test_a_dropout_mask_depends_on_seed_step_and_site_and_on_nothing_else():
    x = tf.ones([1000])
    masks = [
        dropout(x, 0.5, noise(seed, step), site).numpy()
        for seed, step, site in [(1, 1, "a"), (1, 1, "a"), (2, 1, "a"), (1, 2, "a"), (1, 1, "b")]
    ]
    np.testing.assert_array_equal(masks[0], masks[1])
    for other in masks[2:]:  # independent masks of rate 1/2 agree in half the places, give or take 4 deviations
        assert abs((masks[0] == other).mean() - 0.5) < 4.0 * 0.5 / 1000**0.5


def test_a_dropout_mask_is_the_same_with_and_without_xla():
    def drop(x, step):
        return dropout(x, 0.3, Noise(tf.constant(5), step), "site")

    plain, step = drop(tf.ones([B, T, U]), tf.constant(9)), tf.constant(9)
    for compiled in (tf.function(drop), tf.function(drop, jit_compile=True)):
        np.testing.assert_array_equal(compiled(tf.ones([B, T, U]), step), plain)


def test_dropout_keeps_the_dtype():
    for dtype in (tf.bfloat16, tf.float64):
        assert dropout(tf.ones([B], dtype), 0.3, noise(), "site").dtype == dtype
