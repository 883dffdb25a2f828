"""Bridges: compute the decoder's initial state from the encoder's states."""

from abc import abstractmethod

import keras
import tensorflow as tf

from nmt_keras.config import require, require_choice
from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.cells import CellState
from nmt_keras.layers.initializers import initializer_of
from nmt_keras.layers.memory import Encoding, LayerStates, Memory, last_states, mean_annotation
from nmt_keras.layers.stack import StackedCells


class Bridge(BaseLayer):
    """Computes the initial states of a decoder's cells."""

    def build(self, encoding_shape: Encoding) -> None:
        """Creates the weights.

        Args:
            encoding_shape: ``Encoding`` of shapes.
        """

    @abstractmethod
    def states(self, stack: StackedCells, memory: Memory) -> tuple[CellState, ...]:
        """Returns the initial state of each cell of ``stack``: nests of [B, 1, U]."""


@keras.saving.register_keras_serializable("nmt_keras")
class ZeroBridge(Bridge):
    """Zero initial state: s_0 = 0."""

    def states(self, stack: StackedCells, memory: Memory) -> tuple[CellState, ...]:
        """Returns zeros."""
        return stack.zero_state(tf.shape(memory.lengths)[0])


@keras.saving.register_keras_serializable("nmt_keras")
class CopyBridge(Bridge):
    """Copies the encoder's last states to s_0 (Sutskever et al. 2014; Luong et al. 2015; cs224d, lecture 9).

    The state of encoder layer n becomes the initial state of decoder cell n.
    """

    def build(self, encoding_shape: Encoding) -> None:
        """Creates no weights. Raises ValueError if the encoder does not have one direction."""
        layers = encoding_shape.states
        one_way = bool(layers) and all((layer.forward is None) != (layer.backward is None) for layer in layers)
        require(one_way, "encoder", "one that reads in one direction", layers, "Use DenseBridge.")

    def states(self, stack: StackedCells, memory: Memory) -> tuple[CellState, ...]:
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
        units: U, width of each cell's state.
        layers: Number of cells.
        source: Source of x: "backward", "forward", "both" or "mean". None for the first of "backward", "forward" and
            "mean" that the encoder has.
    """

    def __init__(self, units: int, *, layers: int = 1, source: str | None = None, **kwargs: object) -> None:
        super().__init__(**kwargs)
        if source is not None:
            require_choice("source", ("backward", "forward", "both", "mean"), source)
        self.units, self.depth, self.source = units, layers, source
        self.dense = keras.layers.Dense(
            layers * units,
            activation="tanh",
            kernel_initializer=initializer_of(self.initializer, "kernel", "glorot_uniform"),
            bias_initializer=initializer_of(self.initializer, "bias", "zeros"),
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, encoding_shape: Encoding) -> None:
        """Builds the dense layer."""
        if self.source is None:
            top = encoding_shape.states[-1] if encoding_shape.states else LayerStates(None, None)
            self.source = "backward" if top.backward else "forward" if top.forward else "mean"
        is_mean = self.source == "mean"
        shapes = [encoding_shape.values] if is_mean else last_states(encoding_shape.states, self.source)
        self.dense.build((None, sum(shape[-1] for shape in shapes)))

    def states(self, stack: StackedCells, memory: Memory) -> tuple[CellState, ...]:
        """Returns tanh(W_s · x + b_s), split among the cells."""
        if self.source == "mean":
            x = mean_annotation(memory)
        else:
            x = tf.concat(last_states(memory.states, self.source), axis=-1)
        outputs = tf.split(self.dense(x)[:, tf.newaxis], self.depth, axis=-1)
        return tuple(cell.state_of(output) for cell, output in zip(stack.cells, outputs, strict=True))
