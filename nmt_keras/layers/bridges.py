"""Bridges: compute the decoder's initial state from the encoder's states."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.cells import LSTMState
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.stack import StackedCells


class Bridge(BaseLayer):
    """Computes the initial states of a decoder's cells."""

    def build(self, encoding_shape: Any) -> None:
        """Creates the weights.

        Args:
            encoding_shape: ``Encoding`` of shapes.
        """

    def states(self, stack: StackedCells, memory: Memory) -> tuple[Any, ...]:
        """Returns the initial state of each cell of ``stack``: nests of [B, 1, U]."""
        raise NotImplementedError


@keras.saving.register_keras_serializable("nmt_keras")
class ZeroBridge(Bridge):
    """Zero initial state: s_0 = 0."""

    def states(self, stack: StackedCells, memory: Memory) -> tuple[Any, ...]:
        """Returns zeros."""
        return stack.zero_state(tf.shape(memory.lengths)[0])


@keras.saving.register_keras_serializable("nmt_keras")
class CopyBridge(Bridge):
    """Copies the encoder's last states to s_0 (Sutskever et al. 2014; Luong et al. 2015; cs224d, lecture 9).

    The state of encoder layer n becomes the initial state of decoder cell n.
    """

    def states(self, stack: StackedCells, memory: Memory) -> tuple[Any, ...]:
        """Returns the states of the encoder's only direction."""
        layers = (layer.backward if layer.forward is None else layer.forward for layer in memory.states)
        return tuple(tf.nest.map_structure(lambda s: s[:, tf.newaxis], state) for state in layers)


@keras.saving.register_keras_serializable("nmt_keras")
class DenseBridge(Bridge):
    """Dense layer: s_0 = tanh(W_s · x + b_s). Each cell has its own U rows of W_s. An LSTM's c_0 is 0.

    The papers differ in x:

        "backward"    backward h_1 (Bahdanau, Cho, Bengio 2014, appendix A.2.2, whose formulas leave biases out)
        "both"        [forward h_S ; backward h_1] (the PyTorch version of RNNsearch)
        "mean"        the mean of the annotations (Xu et al. 2015)

    Args:
        source: Source of x: "backward", "forward", "both" or "mean".
        units: U, width of each cell's state.
        layers: Number of cells.
    """

    def __init__(self, *, source: str, units: int, layers: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.source, self.units, self.depth = source, units, layers
        self.dense = keras.layers.Dense(layers * units, activation="tanh", dtype=self.dtype_policy, name="dense")

    def build(self, encoding_shape: Any) -> None:
        """Builds the dense layer."""
        if self.source == "mean":
            self.dense.build((None, encoding_shape.values[-1]))
        else:
            sizes = [shape[-1] for shape in self._top_states(encoding_shape.states)]
            self.dense.build((None, sum(sizes)))

    def states(self, stack: StackedCells, memory: Memory) -> tuple[Any, ...]:
        """Returns tanh(W_s · x + b_s), split among the cells."""
        outputs = tf.split(self.dense(self._read_source(memory))[:, tf.newaxis], self.depth, axis=-1)
        return tuple(cell.state_of(output) for cell, output in zip(stack.cells, outputs, strict=True))

    def _read_source(self, memory: Memory) -> tf.Tensor:
        """Returns x [B, input size]."""
        if self.source == "mean":
            lengths = self.cast(memory.lengths)[:, tf.newaxis]
            return tf.reduce_sum(memory.values, axis=1) / lengths  # annotations are 0 at padding
        return tf.concat(self._top_states(memory.states), axis=-1)

    def _top_states(self, states: tuple[Any, ...]) -> list[Any]:
        """Returns the last states of the encoder's top layer, or their shapes; of an LSTM h, without c."""
        names = ("forward", "backward") if self.source == "both" else (self.source,)
        found = [getattr(states[-1], name) if states else None for name in names]
        if any(state is None for state in found):
            raise ValueError(
                f"DenseBridge.source: expected a direction that the encoder has, or mean. Received: {self.source}. "
                f'Pass the decoder another bridge, such as DenseBridge(source="mean", units={self.units}), or use a '
                "bidirectional encoder."
            )
        return [state.hidden if isinstance(state, LSTMState) else state for state in found]
