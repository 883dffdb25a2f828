"""Several cells on top of each other."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import Part, Shape
from nmt_keras.layers.cells import Cell, CellState
from nmt_keras.layers.context import Context
from nmt_keras.layers.dropout import apply_dropout


class StackMasks(NamedTuple):
    """Dropout masks of a stack; None for no dropout."""

    inputs: tuple[tf.Tensor | None, ...]  # [B, T, U] for each cell but the first: mask of the output of the cell below
    states: tuple[tf.Tensor | None, ...]  # [B, T, U] for each cell: mask of the state in products; the same at all T


@keras.saving.register_keras_serializable("nmt_keras")
class StackedCells(Part, keras.layers.StackedRNNCells):
    """Recurrent cells, each of which reads the output of the cell below it.

    It is Keras's stack, which ``keras.layers.RNN`` can run if the first cell has no context.

    Args:
        cells: Cells from bottom to top. Only the first may have a context.

    Example:
        >>> stack = StackedCells([GRUCell(8), GRUCell(8)])
        >>> keras.layers.RNN(stack)(tf.ones([2, 5, 3])).shape
        TensorShape([2, 8])
    """

    def __init__(self, cells: Sequence[Cell], **kwargs: Any) -> None:
        super().__init__(cells=list(cells), **kwargs)

    def build(self, inputs_shape: Shape | None, context_shape: Shape | None = None) -> None:
        """Builds the cells. The arguments are the shapes of the first cell's inputs; see ``Cell.build``."""
        for cell in self.cells:
            if not cell.built:
                cell.build(inputs_shape, context_shape)
            inputs_shape, context_shape = (None, None, cell.units), None

    def call(
        self, inputs: tf.Tensor, states: Sequence[Any], context: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, list[list[tf.Tensor]]]:
        """Computes a step, as ``Cell.call``. ``states`` has the tensors of each cell's state."""
        after = []
        for cell, state in zip(self.cells, states, strict=True):
            inputs, new = cell(inputs, state, context=context)
            context = None
            after.append(new)
        return inputs, after

    def output_of(self, cell_states: tuple[CellState, ...]) -> tf.Tensor:
        """Returns the top output [B, Q, U] of given states, as ``advance`` does."""
        return self.cells[-1].output_of(cell_states[-1])

    def advance(
        self,
        projected: tf.Tensor,
        cell_states: tuple[CellState, ...],
        masks: StackMasks,
        context: tf.Tensor | Context | None = None,
    ) -> tuple[tuple[CellState, ...], tf.Tensor]:
        """Returns the next states, and the top output [B, Q, U].

        Args:
            projected: [B, Q, projections · U] float, the first cell's W x_t + b; or its b alone, [projections · U].
            cell_states: Each cell's state, a nest of [B, Q, U].
            masks: Dropout masks of this position.
            context: [B, Q, D] float, the first cell's c_t; None for a cell without context.
        """
        if context is not None:
            projected += self.cells[0].project_context(context)
        next_states = []
        output = None
        for number, (cell, state) in enumerate(zip(self.cells, cell_states, strict=True)):
            if number:
                projected = cell.project(apply_dropout(output, masks.inputs[number - 1]))
            state = cell.advance(projected, state, masks.states[number])
            output = cell.output_of(state)
            next_states.append(state)
        return tuple(next_states), output
