"""The loop that runs a recurrence over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def scan(
    advance: Callable[[Any, Any], tuple[Any, Any]], inputs: Any, state: Any, *, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs ``state, output = advance(input, state)`` over time, in one ``tf.while_loop``.

    ``advance`` must not read variables: TensorFlow's gradient would keep a copy per step. Read them before the loop.

    Args:
        advance: Takes one position's inputs, a nest of [B, 1, ...], and the state. Returns the next state, of the same
            shapes, and the position's outputs, a nest of [B, 1, ...].
        inputs: Nest of [B, T, ...], T >= 1; None may stand in it. A static T lets XLA differentiate the loop.
        state: Nest of tensors: the state before the first position.
        reverse: If True, goes from the last position to the first. Outputs keep their positions.

    Returns:
        The last state, and the outputs as a nest of [B, T, ...].
    """
    columns = [x for x in tf.nest.flatten(inputs) if x is not None]
    steps = columns[0].shape[1] if columns[0].shape[1] is not None else tf.shape(columns[0])[1]
    rows = [_rows(x.dtype, steps, x[:, 0].shape).unstack(_swap_time_and_batch(x)) for x in columns]

    def at(position: tf.Tensor | int) -> Any:
        read = iter([row.read(position)[:, tf.newaxis] for row in rows])
        return tf.nest.map_structure(lambda x: None if x is None else next(read), inputs)

    _, example = advance(at(0), state)  # for its dtypes and shapes: a graph drops what it computes
    written = [_rows(x.dtype, steps, x.shape[:1] + x.shape[2:]) for x in tf.nest.flatten(example)]

    def body(count: tf.Tensor, state: Any, written: list[tf.TensorArray]) -> tuple[Any, ...]:
        position = steps - 1 - count if reverse else count
        state, output = advance(at(position), state)
        here = [x[:, 0] for x in tf.nest.flatten(output)]
        return count + 1, state, [row.write(position, x) for row, x in zip(written, here, strict=True)]

    _, state, written = tf.while_loop(
        lambda count, *_: count < steps, body, (tf.constant(0), state, written), maximum_iterations=steps
    )
    return state, tf.nest.pack_sequence_as(example, [_swap_time_and_batch(row.stack()) for row in written])


def _rows(dtype: tf.DType, size: int | tf.Tensor, shape: tf.TensorShape) -> tf.TensorArray:
    return tf.TensorArray(dtype, size=size, element_shape=shape, clear_after_read=False)


def _swap_time_and_batch(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
