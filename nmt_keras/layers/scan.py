"""The loop that runs a cell over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import _reading


def scan(
    advance: Callable[[Any, Any], tuple[Any, Any]], inputs: Any, state: Any, *, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs ``state, emission = advance(input, state)`` over time, in one ``tf.while_loop``.

    Variables that ``advance`` reads by way of ``Part.value`` and ``Part.cast`` are read once, before the loop: of what
    is read within, TensorFlow's gradient would keep a copy for each step.

    Args:
        advance: takes one position's inputs, a nest of [B, 1, ...], and the state; returns the next state, of the same
            shapes, and what the position emits, a nest of [B, 1, ...].
        inputs: nest of [B, T, ...], T >= 1. A static T lets XLA differentiate the loop.
        state: nest of tensors, the state before the first position.
        reverse: whether to go from the last position to the first; emissions keep their positions.

    Returns:
        The last state, and the emissions as a nest of [B, T, ...].
    """
    columns = tf.nest.flatten(inputs)
    steps = columns[0].shape[1] if columns[0].shape[1] is not None else tf.shape(columns[0])[1]
    rows = [_rows(x.dtype, steps, x[:, 0].shape).unstack(_swap_time_and_batch(x)) for x in columns]

    def at(position: tf.Tensor | int) -> Any:
        return tf.nest.pack_sequence_as(inputs, [row.read(position)[:, tf.newaxis] for row in rows])

    read: dict[tuple[int, str], keras.Variable] = {}

    def note(variable: keras.Variable, dtype: str) -> tf.Tensor:
        read[id(variable), dtype] = variable
        return tf.cast(variable, dtype)

    if tf.executing_eagerly():  # where a step is cheaper than its trace
        _, emission = advance(at(0), state)
    else:
        signature = tf.nest.map_structure(tf.TensorSpec.from_tensor, (at(0), state))
        with _reading(note):
            _, emission = tf.function(advance, autograph=False).get_concrete_function(*signature).structured_outputs
    held = {(number, dtype): tf.cast(variable, dtype) for (number, dtype), variable in read.items()}
    written = [_rows(e.dtype, steps, e.shape[:1] + e.shape[2:]) for e in tf.nest.flatten(emission)]

    def body(
        count: tf.Tensor, state: Any, written: list[tf.TensorArray]
    ) -> tuple[tf.Tensor, Any, list[tf.TensorArray]]:
        position = steps - 1 - count if reverse else count
        state, emission = advance(at(position), state)
        parts = [e[:, 0] for e in tf.nest.flatten(emission)]
        return count + 1, state, [row.write(position, e) for row, e in zip(written, parts, strict=True)]

    def at_hand(variable: keras.Variable, dtype: str) -> tf.Tensor:
        found = held.get((id(variable), dtype))
        return tf.cast(variable, dtype) if found is None else found

    with _reading(at_hand):
        _, state, written = tf.while_loop(
            lambda count, *_: count < steps, body, (tf.constant(0), state, written), maximum_iterations=steps
        )
    return state, tf.nest.pack_sequence_as(emission, [_swap_time_and_batch(row.stack()) for row in written])


def _rows(dtype: tf.DType, size: int | tf.Tensor, shape: tf.TensorShape) -> tf.TensorArray:
    return tf.TensorArray(dtype, size=size, element_shape=shape, clear_after_read=False)


def _swap_time_and_batch(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
