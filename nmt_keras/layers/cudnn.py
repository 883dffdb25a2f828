"""Runs a recurrence over all positions as one operation of a Keras layer. On a GPU, cuDNN computes the operation."""

import functools

import keras
import tensorflow as tf

from nmt_keras.layers.cells import Cell, CellState, LSTMCell, LSTMState, ResetAfterGRUCell
from nmt_keras.layers.dropout import apply_dropout
from nmt_keras.layers.stack import StackedCells, StackMasks


def can_fuse(cell: Cell) -> bool:
    """Returns True if Keras and cuDNN compute the cell's equations: LSTM, and GRU with the reset after the product."""
    return type(cell) in (ResetAfterGRUCell, LSTMCell)


def run_cudnn_stack(
    stack: StackedCells, x: tf.Tensor, initial_states: tuple[CellState, ...], masks: StackMasks
) -> tf.Tensor:
    """Returns the top outputs [B, T, U] of a stack, computed layer by layer.

    They equal the outputs of ``StackedCells.advance``, called position by position.

    Args:
        stack: Cells without a context. ``can_fuse`` is True for each cell.
        x: [B, T, I] float, the first cell's inputs.
        initial_states: Each cell's state before the first position, a nest of [B, 1, U].
        masks: Dropout masks of the cells' inputs. Masks of states are not supported.
    """
    outputs = x
    for number, (cell, state) in enumerate(zip(stack.cells, initial_states, strict=True)):
        below = apply_dropout(outputs, masks.inputs[number - 1]) if number else outputs
        outputs, _ = run_cudnn(cell, below, None, initial_state=state)
        if number and stack.residual:
            outputs += below
    return outputs


def run_cudnn(
    cell: Cell, x: tf.Tensor, mask: tf.Tensor | None, *, reverse: bool = False, initial_state: CellState | None = None
) -> tuple[tf.Tensor, CellState]:
    """Runs a cell over whole sentences. Equals calling ``Cell.advance`` position by position.

    On a GPU outside XLA, cuDNN computes the result. Everywhere else, Keras's own loop does.

    Args:
        cell: Cell for which ``can_fuse`` is True. Its variables are read.
        x: [B, S, I] float.
        mask: [B, S] bool, True at tokens, which precede the padding. Padding leaves the state unchanged. None if there
            is no padding.
        reverse: If True, reads each sentence from its last token to its first; requires ``mask``.
        initial_state: State before the first position, a nest of [B, 1, U]; None for 0.

    Returns:
        Outputs [B, S, U], undefined at padding, and the state at the end, a nest of [B, 1, U].
    """
    if reverse:
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        x = tf.reverse_sequence(x, lengths, seq_axis=1, batch_axis=0)
    layer = _layer(isinstance(cell, LSTMCell), cell.units, x.shape[-1], cell.compute_dtype)
    initial = None if initial_state is None else [state[:, 0] for state in tf.nest.flatten(initial_state)]
    with keras.StatelessScope(zip(layer.trainable_variables, _weights(cell), strict=True)):
        # not stateless_call, which under a mixed policy passes float32 weights
        outputs, *states = layer(x, initial_state=initial, mask=mask)
    if reverse:
        outputs = tf.reverse_sequence(outputs, lengths, seq_axis=1, batch_axis=0)
    states = [state[:, tf.newaxis] for state in states]
    return outputs, LSTMState(*states) if isinstance(cell, LSTMCell) else states[0]


def _weights(cell: Cell) -> list[tf.Tensor]:
    """Returns a cell's weights in the order of Keras's layer."""
    has_two = isinstance(cell, ResetAfterGRUCell)
    bias = tf.stack([cell.bias.value, cell.recurrent_bias.value]) if has_two else cell.bias
    return [tf.convert_to_tensor(weight) for weight in (cell.kernel, cell.recurrent, bias)]


@functools.cache
def _layer(lstm: bool, units: int, input_size: int, dtype: str) -> keras.layers.Layer:
    """Returns Keras's layer of these sizes, which computes in ``dtype``; its own weights are never used."""
    options = {"return_sequences": True, "return_state": True, "dtype": dtype, "use_cudnn": "auto", "seed": 0}
    zeros = {"kernel_initializer": "zeros", "recurrent_initializer": "zeros"}
    kind = keras.layers.LSTM if lstm else keras.layers.GRU
    with tf.init_scope():
        layer = kind(units, **options, **zeros)
        layer.build((None, None, input_size))
    return layer
