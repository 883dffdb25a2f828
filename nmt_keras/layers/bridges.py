"""Bridges: compute the decoder's initial state from the encoder's states."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.stack import Stack


class Bridge(BaseLayer):
    """Computes the initial states of a decoder's cells."""

    @abstractmethod
    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """Returns the initial state of each cell of ``stack``: nests of [B, 1, U]."""


@keras.saving.register_keras_serializable("nmt_keras")
class ZeroBridge(Bridge):
    """Zero initial state: s_0 = 0."""

    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """Returns zeros."""
        return stack.zero_state(tf.shape(memory.lengths)[0])


@keras.saving.register_keras_serializable("nmt_keras")
class CopyBridge(Bridge):
    """Copies the encoder's last states to s_0 (Sutskever et al. 2014; Luong et al. 2015; cs224d, lecture 9).

    The state of encoder layer n becomes the initial state of decoder cell n.
    """

    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
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
        input_size: Width of x.
        units: U, width of each cell's state.
        layers: Number of cells.
    """

    def __init__(self, *, source: str, input_size: int, units: int, layers: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.source, self.input_size, self.units, self.layers = source, input_size, units, layers
        self.dense = keras.layers.Dense(layers * units, activation="tanh", dtype=self.dtype_policy, name="dense")
        self.dense.build((None, input_size))

    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """Returns tanh(W_s · x + b_s), split among the cells."""
        outputs = tf.split(self.dense(self._read_source(memory))[:, tf.newaxis], self.layers, axis=-1)
        return tuple(cell.state_of(output) for cell, output in zip(stack.cells, outputs, strict=True))

    def _read_source(self, memory: Memory) -> tf.Tensor:
        """Returns x [B, input_size]."""
        if self.source == "mean":
            lengths = self.cast(memory.lengths)[:, tf.newaxis]
            return tf.reduce_sum(memory.values, axis=1) / lengths  # annotations are 0 at padding
        top = memory.states[-1]
        states = {"forward": [top.forward], "backward": [top.backward], "both": [top.forward, top.backward]}[
            self.source
        ]
        return tf.concat([tf.nest.flatten(state)[0] for state in states], axis=-1)  # an LSTM's h, without c
