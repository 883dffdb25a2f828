"""Several cells on top of each other."""

from typing import NamedTuple

import tensorflow as tf

from nmt_keras.layers.base import BaseLayer, Shape
from nmt_keras.layers.cells import Cell, CellState
from nmt_keras.layers.dropout import apply_dropout


class StackMasks(NamedTuple):
    """Dropout masks of a stack; None for no dropout."""

    inputs: tuple[tf.Tensor | None, ...]  # [B, T, U] for each cell but the first: mask of the output of the cell below
    states: tuple[tf.Tensor | None, ...]  # [B, T, U] for each cell: mask of the state in products; the same at all T


class StackedCells(BaseLayer):
    """Recurrent cells, each of which reads the output of the cell below it.

    Args:
        cells: Cells from bottom to top. Only the first may have a context.
    """

    def __init__(self, cells: list[Cell], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.cells = cells

    def build(self, x_shape: Shape | None, context_shape: Shape | None = None) -> None:
        """Builds the cells. The arguments are the shapes of the first cell's inputs; see ``Cell.build``."""
        first, *others = self.cells
        first.build(x_shape, context_shape)
        for below, cell in zip(self.cells, others, strict=False):
            cell.build((None, None, below.units))

    def zero_state(self, batch: tf.Tensor) -> tuple[CellState, ...]:
        """Returns the zero state of every cell."""
        return tuple(cell.zero_state(batch) for cell in self.cells)

    def output(self, cell_states: tuple[CellState, ...]) -> tf.Tensor:
        """Returns the top output [B, Q, U] of given states, as ``advance`` does."""
        return self.cells[-1].output(cell_states[-1])

    def advance(
        self,
        projected: tf.Tensor,
        cell_states: tuple[CellState, ...],
        masks: StackMasks,
        context: tf.Tensor | None = None,
    ) -> tuple[tuple[CellState, ...], tf.Tensor]:
        """Returns the next states, and the top output [B, Q, U].

        Args:
            projected: [B, Q, projections · U] float, the first cell's W x_t + b; or its b alone, [projections · U].
            cell_states: Each cell's state, a nest of [B, Q, U].
            masks: Dropout masks of this position.
            context: [B, Q, projections · U] float, the first cell's C c_t; None for a cell without context.
        """
        if context is not None:
            projected += context
        next_states = []
        output = None
        for number, (cell, state) in enumerate(zip(self.cells, cell_states, strict=True)):
            if number:
                projected = cell.project(apply_dropout(output, masks.inputs[number - 1]))
            state = cell.advance(projected, state, masks.states[number])
            output = cell.output(state)
            next_states.append(state)
        return tuple(next_states), output
