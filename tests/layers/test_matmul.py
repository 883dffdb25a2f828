"""Products with weights: over the last axis, in the precision with which the weight was read."""

import numpy as np
import pytest
import tensorflow as tf
from tensors import normal

from nmt_keras.layers.matmul import Weight, convert, matmul, multiplies_bfloat16
from nmt_keras.layers.scan import scan

BFLOAT16_PRODUCTS = "bfloat16-products"


def differentiated(function, precision, loss=lambda found: tf.reduce_sum(tf.square(found))):
    """Returns a function that computes ``function(x, kernel, weight, ...)`` and the gradients of its loss.

    ``weight`` reads a kernel with ``precision``.
    """

    def with_gradients(x, kernel, *others):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            found = function(x, kernel, lambda kernel: convert(kernel, "float32", precision), *others)
            total = loss(found)
        return found, *tape.gradient(total, [x, kernel])

    return tf.function(with_gradients, jit_compile=precision == BFLOAT16_PRODUCTS, autograph=False)


def test_a_product_is_over_the_last_axis_and_adds_a_bias():
    x, kernel, bias = normal(2, 3, 5), normal(5, 7, seed=3), normal(7, seed=4)
    wanted = np.einsum("bti,io->bto", x, kernel) + bias
    np.testing.assert_allclose(matmul(x, Weight(kernel), bias), wanted, atol=1e-5)
    np.testing.assert_allclose(matmul(x, Weight(tf.transpose(kernel)), bias, transpose=True), wanted, atol=1e-5)


@pytest.mark.parametrize("shape", [[None, 3, 5], [None, None, 5]])
def test_a_product_of_unknown_shape_is_that_of_the_known_one(shape):
    x, weight = normal(2, 3, 5), Weight(normal(5, 7, seed=3))
    unknown = tf.function(lambda x: matmul(x, weight), [tf.TensorSpec(shape)], autograph=False)
    np.testing.assert_allclose(unknown(x), matmul(x, weight), atol=1e-6)


def test_weights_in_bfloat16_round_the_product_but_neither_the_bias_nor_the_result():
    x, kernel, bias = normal(2, 3, 5), normal(5, 7, seed=3), 100.0 + normal(7, seed=4)
    found = matmul(x, convert(kernel, "float32", "bfloat16"), bias)
    assert found.dtype == tf.float32
    flat = tf.matmul(tf.cast(tf.reshape(x, [6, 5]), tf.bfloat16), tf.cast(kernel, tf.bfloat16))
    np.testing.assert_array_equal(found, tf.reshape(tf.cast(flat, tf.float32) + bias, [2, 3, 7]))


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("flags\t: fpu sse avx512_bf16 amx_tile\n", True),
        ("Features\t: fp asimd bf16\n", True),
        ("flags : fpu\n", False),
    ],
)
def test_the_processor_s_flags_tell_whether_it_multiplies_bfloat16(monkeypatch, tmp_path, flags, found):
    monkeypatch.setattr("nmt_keras.layers.matmul.PROCESSORS", tmp_path / "cpuinfo")
    assert multiplies_bfloat16() is None
    (tmp_path / "cpuinfo").write_text(flags)
    assert multiplies_bfloat16() is found


# bfloat16-products: in functions that XLA compiles, factors are bfloat16 and sums are float32


def rounded(x):
    return np.asarray(tf.cast(tf.cast(x, tf.bfloat16), tf.float32), np.float64)


# the backward pass of 6 x 1 x 7 has a product with a single row, and one with a single column
SIZES = [(6, 5, 7), (6, 1, 7), (64, 64, 64)]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_factors_are_rounded_forward_and_backward_and_sums_are_not(sizes, transpose):
    rows, inner, outer = sizes
    x, upstream = normal(rows, inner), normal(rows, outer, seed=4)
    kernel = normal(*((outer, inner) if transpose else (inner, outer)), seed=3)

    near = differentiated(
        lambda x, kernel, weight: matmul(x, weight(kernel), transpose=transpose),
        BFLOAT16_PRODUCTS,
        lambda found: tf.reduce_sum(found * upstream),
    )
    a, w, g = rounded(x), rounded(kernel.numpy().T if transpose else kernel), rounded(upstream)
    by_kernel = g.T @ a if transpose else a.T @ g
    for part, wanted in zip(near(x, kernel), (a @ w, g @ w.T, by_kernel), strict=True):
        assert part.dtype == tf.float32
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-5)


AROUND = {
    "a transpose after it": lambda x, kernel, weight: tf.transpose(matmul(x, weight(kernel))),
    "a transpose before it": lambda x, kernel, weight: matmul(tf.transpose(x), weight(kernel)),
    "a transposed kernel": lambda x, kernel, weight: matmul(x, weight(tf.transpose(kernel))),
    "a sum over rows": lambda x, kernel, weight: tf.reduce_sum(matmul(x, weight(kernel)), 0),
    "a sum over columns": lambda x, kernel, weight: tf.reduce_sum(tf.square(matmul(x, weight(kernel))), 1),
    "a soft maximum of columns": lambda x, kernel, weight: tf.reduce_logsumexp(matmul(x, weight(kernel)), 1),
    "a slice": lambda x, kernel, weight: matmul(x, weight(kernel[:, :16])),
    "time before batch": lambda x, kernel, weight: tf.transpose(
        matmul(tf.reshape(x, [8, 8, 64]), weight(kernel)), [1, 0, 2]
    ),
}


@pytest.mark.parametrize("name", AROUND)
def test_operations_around_a_product_do_not_become_part_of_it(name):
    arguments = normal(64, 64), normal(64, 64, seed=3)
    near, exact = (differentiated(AROUND[name], precision) for precision in (BFLOAT16_PRODUCTS, None))
    for found, wanted in zip(near(*arguments), exact(*arguments), strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.1 * np.std(wanted))
        assert (found != wanted).numpy().any()


def decay(x, kernel, weight, start):
    handed = weight(kernel)

    def advance(one, state):
        state = tf.tanh(one + matmul(state, handed))
        return state, state

    return tf.reduce_sum(tf.square(scan(advance, x, start)[1]))


def test_a_loop_s_kernel_is_rounded_and_its_gradient_summed_in_float32():
    arguments = normal(16, 300, 32), 0.1 * normal(32, 32, seed=3), normal(16, 1, 32, seed=4)
    near, exact = (differentiated(decay, precision, tf.identity) for precision in (BFLOAT16_PRODUCTS, None))
    (total, _, gradient), (exact_total, _, exact_gradient) = near(*arguments), exact(*arguments)
    np.testing.assert_allclose(total, exact_total, rtol=1e-3)
    assert total != exact_total
    assert gradient.dtype == tf.float32
    np.testing.assert_allclose(gradient, exact_gradient, atol=0.01 * np.abs(exact_gradient).max())
