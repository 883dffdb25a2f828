"""Matrix products with the model's weights, and the precision they are computed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

T = TypeVar("T")


def _matmul(x: tf.Tensor, kernel: tf.Tensor, transposed: bool) -> tf.Tensor:
    """x · kernel, [N, I] and [I, O] (``transposed``: [O, I]) giving [N, O], computed in the kernel's precision."""
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel, transpose_b=transposed), x.dtype)


Multiply = Callable[[tf.Tensor, tf.Tensor, bool], tf.Tensor]
"""Multiplies rows [N, I] with a kernel that is transposed or not."""

_multiply: ContextVar[Multiply] = ContextVar("multiply", default=_matmul)


@contextmanager
def _having(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Gives a context variable a value for a while."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def multiplying_with(multiply: Multiply) -> AbstractContextManager[None]:
    """Lets ``multiply`` compute every ``product``."""
    return _having(_multiply, multiply)


def product(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None, *, transposed: bool = False) -> tf.Tensor:
    """x · kernel over the last axis, [..., I] and [I, O] giving [..., O], as one matrix product; plus ``bias`` [O].

    The bias is added while the result is flat: XLA would otherwise compute sum and gradient in both shapes. A
    ``transposed`` kernel is [O, I]. With a kernel of another precision than ``x``, the product alone is computed in it.
    """
    flat = _multiply.get()(tf.reshape(x, [-1, x.shape[-1]]), kernel, transposed)
    if bias is not None:
        flat += bias
    size = kernel.shape[0 if transposed else 1]
    return tf.reshape(flat, _with_last(x, tf.shape(flat)[1] if size is None else size))


def _with_last(x: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor | list[int | tf.Tensor]:
    """The shape of ``x`` but for its last axis, which is ``size``; no operation where one axis alone is unknown."""
    known = x.shape[:-1]
    if known.rank is not None and sum(axis is None for axis in known) <= 1:
        return [*(-1 if axis is None else axis for axis in known), size]
    return tf.concat([tf.shape(x)[:-1], [size]], axis=0)


_matrix_reader: ContextVar[Callable[[Any], tf.Tensor] | None] = ContextVar("matrix reader", default=None)


@contextmanager
def rounded_matrices(dtype: str) -> Iterator[None]:
    """Lets ``Part.matrix`` read in a lower precision, in which ``product`` then computes.

    A variable is rounded once and in the graph where this is entered, though it may be read in a loop within.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    rounded: dict[int, tf.Tensor] = {}

    def read(x: Any) -> tf.Tensor:
        if graph is None or not isinstance(x, keras.Variable):
            return tf.cast(x, dtype)
        if id(x) not in rounded:
            with graph.as_default():
                rounded[id(x)] = tf.cast(x, dtype)
        return rounded[id(x)]

    with _having(_matrix_reader, read):
        yield


PROCESSORS = Path("/proc/cpuinfo")

BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""As Linux lists them: of x86 processors two, of Arm's the last."""


def multiplies_bfloat16() -> bool | None:
    """Whether this machine's processor has instructions for products of bfloat16; None where Linux does not tell."""
    try:
        words = set(PROCESSORS.read_text(encoding="utf-8").split())
    except OSError:
        return None
    return not words.isdisjoint(BFLOAT16_FLAGS)


def rounded_factors() -> AbstractContextManager[None]:
    """Lets ``product`` round both factors to bfloat16, also in its gradient; within a function that XLA compiles.

    A kernel is rounded in the graph where it was read: before a loop that uses it.
    """
    rounded: dict[object, tf.Tensor] = {}

    def multiply(x: tf.Tensor, kernel: tf.Tensor, transposed: bool) -> tf.Tensor:
        if kernel.ref() not in rounded:
            with kernel.graph.as_default():
                rounded[kernel.ref()] = _rounded(tf.stop_gradient(kernel))
        return _product(x, kernel, rounded[kernel.ref()], transposed)

    return multiplying_with(multiply)


def _product(x: tf.Tensor, kernel: tf.Tensor, rounded: tf.Tensor, transposed: bool) -> tf.Tensor:
    """x · kernel, [N, I] and [I, O] (``transposed``: [O, I]) giving [N, O] float32.

    The kernel's gradient is float32, as the kernel is; those of ``rounded``, its copy, would be added up in bfloat16.
    """

    @tf.custom_gradient
    def multiply(x: tf.Tensor, kernel: tf.Tensor, rounded: tf.Tensor) -> tf.Tensor:  # kernel for its gradient
        factor = _rounded(x)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, None]:
            upstream = _rounded(upstream)
            left, right = (upstream, factor) if transposed else (factor, upstream)
            by_kernel = _dot(_in_rows(tf.transpose(left)), right)
            return _dot(upstream, rounded, transposed=not transposed), by_kernel, None

        return _dot(factor, rounded, transposed=transposed), gradient

    return multiply(x, kernel, rounded)


def _rounded(x: tf.Tensor) -> tf.Tensor:
    return _in_rows(tf.cast(x, tf.bfloat16))


def _dot(left: tf.Tensor, right: tf.Tensor, *, transposed: bool = False) -> tf.Tensor:
    """The product of two matrices of ``_in_rows`` in float32; of the second one's transpose where that is asked."""
    return _in_rows(tf.raw_ops.BatchMatMulV3(x=left, y=right, adj_y=transposed, Tout=tf.float32))


def _in_rows(x: tf.Tensor) -> tf.Tensor:
    """``x``, laid out row by row, as the library wants its matrices.

    XLA would otherwise make a transpose beside it part of a product, and fail when that is to be computed: "Unsupported
    element type for DotThunk::Execute".
    """
    [flat] = gen_xla_ops.xla_optimization_barrier([tf.reshape(x, [-1])])
    rows = tf.reshape(flat, tf.shape(x))
    rows.set_shape(x.shape)
    return rows
