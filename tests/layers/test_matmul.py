"""Products whose factors are bfloat16 and whose sums are float32, within functions that XLA compiles."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow as tf
from tensors import normal

from nmt_keras.layers.matmul import multiplies_bfloat16, product, rounded_factors
from nmt_keras.layers.scan import scan


def rounded(x):
    return np.asarray(tf.cast(tf.cast(x, tf.bfloat16), tf.float32), np.float64)


def compiled(function):
    def within(*arguments):
        with rounded_factors():
            return function(*arguments)

    return tf.function(within, jit_compile=True, autograph=False)


def with_gradients(x, kernel, upstream, transposed=False):
    with tf.GradientTape() as tape:
        tape.watch([x, kernel])
        found = product(x, kernel, transposed=transposed)
        total = tf.reduce_sum(found * upstream)
    return found, *tape.gradient(total, [x, kernel])


SIZES = [(6, 5, 7), (1, 5, 7), (6, 1, 7), (6, 5, 1), (1, 1, 1), (48, 32, 64), (64, 64, 64)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "x".join(map(str, sizes)))
def test_factors_are_rounded_forward_and_backward_and_sums_are_not(sizes, transposed):
    rows, inner, outer = sizes
    x, upstream = normal(rows, inner), normal(rows, outer, seed=4)
    kernel = normal(*((outer, inner) if transposed else (inner, outer)), seed=3)
    found = compiled(lambda *arguments: with_gradients(*arguments, transposed))(x, kernel, upstream)
    a, w, g = rounded(x), rounded(kernel), rounded(upstream)
    by_kernel = g.T @ a if transposed else a.T @ g
    for part, wanted in zip(
        found, (a @ (w.T if transposed else w), g @ (w if transposed else w.T), by_kernel), strict=True
    ):
        assert part.dtype == tf.float32
        np.testing.assert_allclose(part, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("flags\t: fpu sse avx512_bf16 amx_tile\n", True),
        ("Features\t: fp asimd bf16\n", True),
        ("flags : fpu\n", False),
    ],
)
def test_a_processor_s_flags_say_whether_it_multiplies_bfloat16(monkeypatch, tmp_path, flags, found):
    (tmp_path / "cpuinfo").write_text(flags)
    monkeypatch.setattr("nmt_keras.layers.matmul.PROCESSORS", tmp_path / "cpuinfo")
    assert multiplies_bfloat16() is found
    (tmp_path / "cpuinfo").unlink()
    assert multiplies_bfloat16() is None


def test_outside_nothing_is_rounded():
    x, kernel = normal(6, 5), normal(5, 7, seed=3)
    with rounded_factors():
        pass
    np.testing.assert_allclose(product(x, kernel), x.numpy() @ kernel.numpy(), atol=1e-6)


AROUND = {
    "a transpose after it": lambda x, kernel: tf.transpose(product(x, kernel)),
    "a transpose before it": lambda x, kernel: product(tf.transpose(x), kernel),
    "a transposed kernel": lambda x, kernel: product(x, tf.transpose(kernel)),
    "a sum over rows": lambda x, kernel: tf.reduce_sum(product(x, kernel), 0),
    "a sum over columns": lambda x, kernel: tf.reduce_sum(tf.square(product(x, kernel)), 1),
    "a soft maximum of columns": lambda x, kernel: tf.reduce_logsumexp(product(x, kernel), 1),
    "a slice": lambda x, kernel: product(x, kernel[:, :16]),
    "time before batch": lambda x, kernel: tf.transpose(product(tf.reshape(x, [8, 8, 64]), kernel), [1, 0, 2]),
}


def factors(function, *arguments):
    """The dtypes of both factors of each product in what XLA made of a function."""
    text = function.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
    kinds = dict(re.findall(r"(%[\w.-]+)(?: =|:) (\w+)\[", text))
    names = re.findall(r" dot\((?:\S+ )?(%[\w.-]+), (?:\S+ )?(%[\w.-]+)\)", text)
    return [tuple(kinds[name] for name in pair) for pair in names]


def differentiated(function):
    def both(x, kernel):
        with tf.GradientTape() as tape:
            tape.watch([x, kernel])
            found = function(x, kernel)
            total = tf.reduce_sum(tf.square(found))
        return found, *tape.gradient(total, [x, kernel])

    return both


@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_a_product_does_not_become_part_of_it(name):
    arguments = normal(64, 64), normal(64, 64, seed=3)
    exact, near = differentiated(AROUND[name]), compiled(differentiated(AROUND[name]))
    for found, wanted in zip(near(*arguments), exact(*arguments), strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.1 * np.std(wanted))
        assert (found != wanted).numpy().any()
    assert factors(near, *arguments) == [("bf16", "bf16")] * 3


def decay(x, kernel, start):
    with tf.GradientTape() as tape:
        tape.watch(kernel)

        def advance(one, state):
            state = tf.tanh(one + product(state, kernel))
            return state, state

        total = tf.reduce_sum(tf.square(scan(advance, x, start)[1]))
    return total, tape.gradient(total, kernel)


def test_a_loop_s_kernel_is_rounded_before_the_loop_and_its_gradient_added_up_in_float32():
    arguments = normal(16, 300, 32), 0.1 * normal(32, 32, seed=3), normal(16, 1, 32, seed=4)
    function = compiled(decay)
    exact, near = tf.function(decay, jit_compile=True, autograph=False)(*arguments), function(*arguments)
    np.testing.assert_allclose(near[0], exact[0], rtol=1e-3)
    assert near[0] != exact[0]
    np.testing.assert_allclose(near[1], exact[1], atol=0.01 * np.abs(exact[1]).max())
    text = function.experimental_get_compiler_ir(*arguments)(stage="hlo")
    bodies = [part for part in text.split("\n\n") if " dot(" in part and "ENTRY" not in part]
    assert bodies
    assert not any(re.search(r"bf16\[32,32\]\S* convert\(f32", part) for part in bodies)


@pytest.mark.parametrize("transposed", [False, True])
def test_xla_leaves_the_factors_of_all_three_products_as_they_are(transposed):
    arguments = normal(64, 64), normal(64, 64, seed=3), normal(64, 64, seed=4)
    assert factors(compiled(lambda *a: with_gradients(*a, transposed)), *arguments) == [("bf16", "bf16")] * 3
