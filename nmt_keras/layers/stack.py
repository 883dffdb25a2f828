"""Several cells stacked on top of each other, with dropout between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.cells import Cell
from nmt_keras.layers.dropout import Randomness, dropout_mask


class Masks(NamedTuple):
    """Dropout masks of a stack for a stretch of positions; empty where nothing is dropped."""

    handed: tuple[tf.Tensor, ...]  # [B, T, U] for each cell but the first: on what it gets from below
    read: tuple[tf.Tensor, ...]  # [B, T, U] for each cell, the same at all T: on the state that it reads


@keras.saving.register_keras_serializable("nmt_keras")
class Stack(BaseLayer):
    """Cells one upon the other; at every step each reads the output of the one below.

    The first has the context, if any. With ``residual``, each cell but the first adds its input to its output (Wu et
    al. 2016, section 3.1).

    Args:
        cells: from the bottom up.
        residual: see above.
        dropout: probability of dropping an entry of what one cell hands to the next, in training.
        recurrent_dropout: probability of dropping an entry of a state where its cell reads it, in training; one mask
            for all steps.
    """

    def __init__(
        self,
        cells: list[Cell],
        *,
        residual: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.cells, self.residual = cells, residual
        self.dropout, self.recurrent_dropout = dropout, recurrent_dropout

    def zero_state(self, batch: tf.Tensor) -> tuple[Any, ...]:
        """Every cell's state 0."""
        return tuple(cell.zero_state(batch) for cell in self.cells)

    def output(self, states: tuple[Any, ...]) -> tf.Tensor:
        """The top cell's output without what ``residual`` adds: [..., U]."""
        return self.cells[-1].output(states[-1])

    def masks(self, like: tf.Tensor, randomness: Randomness | None) -> Masks:
        """One training step's dropout masks for the positions of ``like`` [B, T, ...]."""
        if randomness is None:
            return Masks((), ())
        batch, steps = tf.shape(like)[0], like.shape[1] or tf.shape(like)[1]
        handed, read = [], []
        for number, cell in enumerate(self.cells):
            if self.dropout and number:
                shape = tf.stack([batch, steps, self.cells[number - 1].units])
                handed.append(dropout_mask(shape, self.dropout, randomness, f"{self.name} layer {number}", like.dtype))
            if self.recurrent_dropout:
                shape, site = tf.stack([batch, 1, cell.units]), f"{self.name} state {number}"
                once = dropout_mask(shape, self.recurrent_dropout, randomness._replace(position=()), site, like.dtype)
                read.append(tf.repeat(once, steps, axis=1))
        return Masks(tuple(handed), tuple(read))

    def advance(self, projected: tf.Tensor, states: tuple[Any, ...], masks: Masks) -> tuple[tuple[Any, ...], tf.Tensor]:
        """The next states, and the top cell's output [B, Q, U].

        Args:
            projected: what the first cell's ``project`` and ``contextualise`` gave.
            states: one per cell.
            masks: this position's.
        """
        advanced = []
        output = None
        for number, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            if number:
                below = output * masks.handed[number - 1] if masks.handed else output
                projected = cell.project(below)
            state = cell.advance(projected, state, masks.read[number] if masks.read else None)
            above = cell.output(state)
            output = above + below if number and self.residual else above
            advanced.append(state)
        return tuple(advanced), output
