"""Matrix products with weights, and the precision in which they are computed.

A layer reads its weights once, before any loop that multiplies by them (``BaseLayer.read_weights``). A ``Precision``
converts each matrix:

    compute_dtype_weights    the weight in the layer's compute dtype
    bfloat16_weights         the weight in bfloat16, for a search, which needs no gradients
    bfloat16_products        a pair: the float32 weight, which receives the gradient, and a bfloat16 copy for products
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.internals import optimization_barrier


class Weight(NamedTuple):
    """A matrix, the argument of ``matmul``."""

    value: tf.Tensor  # [I, O] float: receives the gradient
    rounded: tf.Tensor | None = None  # [I, O] bfloat16: a copy of ``value`` for products; None if they use ``value``


Precision = Callable[[keras.Variable, str], Weight]
"""Function that converts a matrix to a ``Weight``. Arguments: the matrix, and its layer's compute dtype."""


def compute_dtype_weights(variable: keras.Variable, dtype: str) -> Weight:
    """Returns the matrix in the layer's compute dtype."""
    return Weight(tf.cast(variable, dtype))


def bfloat16_weights(variable: keras.Variable, dtype: str) -> Weight:
    """Returns the matrix in bfloat16. Only products are computed in bfloat16."""
    return Weight(tf.cast(variable, tf.bfloat16))


def bfloat16_products(variable: keras.Variable, dtype: str) -> Weight:
    """Returns the float32 matrix and a bfloat16 copy, for training in a function that XLA compiles.

    Products and their gradients round both factors to bfloat16. The gradient of the matrix is summed over time in
    float32, because it is the gradient of ``value``. The gradient of the copy would be summed in bfloat16.
    """
    value = tf.cast(variable, tf.float32)
    return Weight(value, _round(tf.stop_gradient(value)))


def matmul(x: tf.Tensor, weight: Weight, bias: tf.Tensor | None = None, *, transpose: bool = False) -> tf.Tensor:
    """Returns x W + b over the last axis, as one matrix product.

    Args:
        x: [..., I] float.
        weight: [I, O], or [O, I] if ``transpose``. If ``x`` has another dtype, only the product is computed in the
            dtype of the weight.
        bias: [O] float, or None.
        transpose: If True, multiplies by the transposed weight.

    Returns:
        [..., O], in the dtype of ``x``.
    """
    flat = tf.reshape(x, [-1, x.shape[-1]])
    if weight.rounded is None:
        product = tf.matmul(tf.cast(flat, weight.value.dtype), weight.value, transpose_b=transpose)
        result = tf.cast(product, x.dtype)
    else:
        result = _rounded_matmul(flat, weight, transpose)
    if bias is not None:
        result += bias  # after the reshape, XLA would compute sum and gradient in both shapes
    size = weight.value.shape[0 if transpose else 1]
    return tf.reshape(result, _with_last(x, tf.shape(result)[1] if size is None else size))


def _with_last(x: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor | list[int | tf.Tensor]:
    """Returns the shape of ``x`` with ``size`` as its last axis; static if at most one other axis is unknown."""
    known = x.shape[:-1]
    if known.rank is not None and sum(axis is None for axis in known) <= 1:
        return [*(-1 if axis is None else axis for axis in known), size]
    return tf.concat([tf.shape(x)[:-1], [size]], axis=0)


def _rounded_matmul(x: tf.Tensor, weight: Weight, transpose: bool) -> tf.Tensor:
    """Returns the float32 product x W of two matrices. The product and its gradients round factors to bfloat16."""

    @tf.custom_gradient
    def multiply(x: tf.Tensor, value: tf.Tensor, rounded: tf.Tensor) -> tf.Tensor:  # ``value`` only gets the gradient
        factor = _round(x)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
            upstream = _round(upstream)
            left, right = (upstream, factor) if transpose else (factor, upstream)
            by_value = _multiply(_in_rows(tf.transpose(left)), right)
            return _multiply(upstream, rounded, transpose=not transpose), by_value, None

        return _multiply(factor, rounded, transpose=transpose), gradient

    return multiply(x, weight.value, weight.rounded)


def _round(x: tf.Tensor) -> tf.Tensor:
    return _in_rows(tf.cast(x, tf.bfloat16))


def _multiply(left: tf.Tensor, right: tf.Tensor, *, transpose: bool = False) -> tf.Tensor:
    """Returns the float32 product of two bfloat16 matrices laid out by ``_in_rows``."""
    return _in_rows(tf.raw_ops.BatchMatMulV3(x=left, y=right, adj_y=transpose, Tout=tf.float32))


def _in_rows(x: tf.Tensor) -> tf.Tensor:
    """Returns ``x`` laid out row by row, as the CPU's matrix library requires.

    Without this layout, XLA merges a neighbouring transpose into a product, and fails at run time: "Unsupported element
    type for DotThunk::Execute".
    """
    rows = tf.reshape(optimization_barrier(tf.reshape(x, [-1])), tf.shape(x))
    rows.set_shape(x.shape)
    return rows


PROCESSORS = Path("/proc/cpuinfo")

BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""Linux's names of the instructions for bfloat16 products: two on x86, the last on Arm."""


def multiplies_bfloat16() -> bool | None:
    """Returns True if the processor has instructions for bfloat16 products; None if Linux does not report it."""
    try:
        words = set(PROCESSORS.read_text(encoding="utf-8").split())
    except OSError:
        return None
    return not words.isdisjoint(BFLOAT16_FLAGS)
