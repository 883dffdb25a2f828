"""Matrix products with weights, and the precision in which they are computed.

``weights_read_once`` reads all variables of a model before the loops that multiply by them. If a loop reads a variable,
TensorFlow's gradient keeps a copy of it for every step. Each matrix is converted to a ``Weight`` in a ``Precision``:

    None                   the matrix in the compute dtype of each layer that multiplies by it
    "bfloat16"             the matrix in bfloat16, for a search, which needs no gradients
    "bfloat16-products"    a pair: the float32 matrix, which receives the gradient, and a bfloat16 copy for products.
                           For training in a function that XLA compiles. Keras's dtype policies have no such pair: their
                           matrix is rounded where it is read, inside loops, and its gradient is summed in bfloat16
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from nmt_keras.io.errors import require
from nmt_keras.layers.internals import layers_of, optimization_barrier


class Weight(NamedTuple):
    """A matrix, the argument of ``matmul``."""

    value: tf.Tensor  # [I, O] float: receives the gradient
    rounded: tf.Tensor | None = None  # [I, O] bfloat16: a copy of ``value`` for products; None if they use ``value``


Precision: TypeAlias = Literal["bfloat16", "bfloat16-products"] | None
"""Precision of products with weights; None for the model's compute dtype."""

_read: ContextVar[dict[tuple[int, str], Weight] | None] = ContextVar("_read", default=None)
"""Matrices of the block that is open: by the variable's id, and the dtype of the layer that multiplies."""


@contextmanager
def weights_read_once(*models: keras.layers.Layer, precision: Precision | None = None) -> Iterator[list[tf.Tensor]]:
    """Reads the variables of ``models`` once. Inside the block, their layers see the values as tensors.

    Open it around a forward pass or a search. Inside another such block, it does nothing.

    Args:
        models: Built layers or models.
        precision: Precision of products with matrices.

    Yields:
        A list, which gets the losses that layers add with ``add_loss`` in the block: Keras does not store them.
    """
    if _read.get() is not None:
        yield []
        return
    layers = [layer for model in models for layer in layers_of(model)]
    values = {id(v): (v, tf.convert_to_tensor(v.value)) for model in models for v in model.variables}
    matrices = {
        (id(v), layer.compute_dtype): values[id(v)][1]
        for layer in layers
        for v in layer.variables
        if id(v) in values and len(v.shape) == 2
    }
    token = _read.set({key: convert(value, key[1], precision) for key, value in matrices.items()})
    try:
        with keras.StatelessScope(state_mapping=values.values(), collect_losses=True) as scope:
            yield scope.losses
    finally:
        _read.reset(token)
    for variable, value in values.values():
        if (updated := scope.get_current_value(variable)) is not value:
            outside = tf.executing_eagerly() or updated.graph is tf.compat.v1.get_default_graph()
            hint = "Draw dropout masks with nmt_keras.layers.dropout, outside the loop."
            require(outside, variable.path, "a variable that no loop over positions changes", updated, hint)
            variable.assign(updated)  # such as the state of a random number generator


def convert(matrix: tf.Tensor, dtype: str, precision: Precision) -> Weight:
    """Returns a matrix as ``matmul`` reads it; see the module's docstring.

    With "bfloat16-products", products and their gradients round both factors to bfloat16. The gradient of the matrix is
    summed over time in float32, because it is the gradient of ``value``.
    """
    if precision == "bfloat16-products":
        value = tf.cast(matrix, tf.float32)
        return Weight(value, _round(tf.stop_gradient(value)))
    return Weight(tf.cast(matrix, precision or dtype))


def matmul(
    x: tf.Tensor,
    kernel: keras.Variable | tf.Tensor | Weight,
    bias: keras.Variable | tf.Tensor | None = None,
    *,
    transpose: bool = False,
) -> tf.Tensor:
    """Returns x W + b over the last axis, as one matrix product.

    Args:
        x: [..., I] float.
        kernel: [I, O], or [O, I] if ``transpose``. A variable is read as ``weights_read_once`` has read it for the
            dtype of ``x``; outside of it, and a tensor, in that dtype.
        bias: [O] float, or None.
        transpose: If True, multiplies by the transposed weight.

    Returns:
        [..., O], in the dtype of ``x``.
    """
    weight = kernel if isinstance(kernel, Weight) else (_read.get() or {}).get((id(kernel), x.dtype.name))
    if weight is None:
        weight = Weight(tf.cast(kernel, x.dtype))
    flat = tf.reshape(x, [-1, x.shape[-1]])
    if weight.rounded is None:
        product = tf.matmul(tf.cast(flat, weight.value.dtype), weight.value, transpose_b=transpose)
        result = tf.cast(product, x.dtype)
    else:
        result = _rounded_matmul(flat, weight, transpose)
    if bias is not None:
        result += tf.cast(bias, x.dtype)  # after the reshape, XLA would compute sum and gradient in both shapes
    known, size = x.shape[:-1], result.shape[-1]
    if sum(axis is None for axis in known) <= 1:
        return tf.reshape(result, [*(-1 if axis is None else axis for axis in known), size])
    return tf.reshape(result, tf.concat([tf.shape(x)[:-1], [size]], axis=0))


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
