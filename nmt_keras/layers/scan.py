"""The loop that runs a recurrence over time."""

from collections.abc import Callable

import tensorflow as tf

from nmt_keras.layers.base import Nest


def scan(
    advance: Callable[[Nest, Nest], tuple[Nest, Nest]], inputs: Nest, state: Nest, *, reverse: bool = False
) -> tuple[Nest, Nest]:
    """Runs ``state, output = advance(input, state)`` over time, in one ``tf.while_loop``.

    If ``advance`` read variables, TensorFlow's gradient would keep a copy of them for every step. Open
    ``weights_read_once`` around the forward pass.

    Args:
        advance: Function of one position's inputs, a nest of [B, 1, ...], and the state. It returns the next state, of
            the same shapes, and the position's outputs, a nest of [B, 1, ...].
        inputs: Nest of [B, T, ...] and None, T >= 1.
        state: Nest of tensors, the state before the first position.
        reverse: If True, goes from the last position to the first. Outputs keep their positions.

    Returns:
        The last state, and the outputs as a nest of [B, T, ...].
    """
    tensors = [x for x in tf.nest.flatten(inputs) if x is not None]
    length = tensors[0].shape[1] if tensors[0].shape[1] is not None else tf.shape(tensors[0])[1]
    input_arrays = [_array(x.dtype, length, x[:, 0].shape).unstack(_swap_time_and_batch(x)) for x in tensors]

    def inputs_at(position: tf.Tensor | int) -> Nest:
        values = iter([array.read(position)[:, tf.newaxis] for array in input_arrays])
        return tf.nest.map_structure(lambda x: None if x is None else next(values), inputs)

    after, example = advance(inputs_at(0), state)  # only dtypes and shapes are used; the graph drops the computation
    shapes = tf.nest.map_structure(lambda x, y: x.shape.most_specific_compatible_shape(y.shape), state, after)
    output_arrays = [_array(x.dtype, length, x.shape[:1] + x.shape[2:]) for x in tf.nest.flatten(example)]

    def body(count: tf.Tensor, state: Nest, output_arrays: list[tf.TensorArray]) -> tuple[Nest, ...]:
        position = length - 1 - count if reverse else count
        state, output = advance(inputs_at(position), state)
        values = [x[:, 0] for x in tf.nest.flatten(output)]
        return count + 1, state, [array.write(position, x) for array, x in zip(output_arrays, values, strict=True)]

    _, state, output_arrays = tf.while_loop(
        lambda count, *_: count < length,
        body,
        (tf.constant(0), state, output_arrays),
        shape_invariants=(tf.TensorShape([]), shapes, [None] * len(output_arrays)),
        maximum_iterations=length,
    )
    return state, tf.nest.pack_sequence_as(example, [_swap_time_and_batch(array.stack()) for array in output_arrays])


def _array(dtype: tf.DType, size: int | tf.Tensor, shape: tf.TensorShape) -> tf.TensorArray:
    return tf.TensorArray(dtype, size=size, element_shape=shape, clear_after_read=False)


def _swap_time_and_batch(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
