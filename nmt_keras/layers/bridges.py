"""Bridges: from the encoder's states to the decoder's initial state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.matmul import product
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.stack import Stack


class Bridge(BaseLayer):
    """The contract: an encoded sentence gives the states that a decoder's cells begin with."""

    @abstractmethod
    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """A state per cell of ``stack``, nests of [B, 1, U]."""


@keras.saving.register_keras_serializable("nmt_keras")
class ZeroBridge(Bridge):
    """s_0 = 0."""

    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """Zeros."""
        return stack.zero_state(tf.shape(memory.lengths)[0])


@keras.saving.register_keras_serializable("nmt_keras")
class CopyBridge(Bridge):
    """s_0 = the encoder's last states, layer by layer (Sutskever et al. 2014; Luong et al. 2015; cs224d, lecture 9)."""

    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """The states of the one direction that the encoder reads in."""
        layers = (layer.forward if tf.nest.flatten(layer.forward) else layer.backward for layer in memory.states)
        return tuple(tf.nest.map_structure(lambda s: s[:, tf.newaxis], state) for state in layers)


@keras.saving.register_keras_serializable("nmt_keras")
class DenseBridge(Bridge):
    """s_0 = tanh(W_s · x + b_s), for each cell its own rows of W_s.

    With x = backward h_1: Bahdanau, Cho, Bengio 2014, appendix A.2.2, whose formulas leave biases out; with
    [forward h_S ; backward h_1]: its PyTorch rendition; with the mean of the annotations: Xu et al. 2015. An LSTM's
    memory begins at 0.

    Args:
        source: "backward", "forward", "both" or "mean".
        source_size: width of x.
        units: U of each cell.
        layers: cells.
    """

    def __init__(self, *, source: str, source_size: int, units: int, layers: int = 1, **options: Any) -> None:
        super().__init__(**options)
        self.source, self.source_size, self.units, self.layers = source, source_size, units, layers
        self.kernel = self.weight("kernel", (source_size, layers * units), "glorot_uniform")
        self.bias = self.weight("bias", (layers * units,), "zeros")

    def states(self, stack: Stack, memory: Memory) -> tuple[Any, ...]:
        """tanh(W_s · x + b_s)."""
        states = tf.tanh(product(self._read(memory), self.matrix(self.kernel), self.cast(self.bias)))
        parts = tf.split(states[:, tf.newaxis], self.layers, axis=-1)
        return tuple(cell.state_of(part) for cell, part in zip(stack.cells, parts, strict=True))

    def _read(self, memory: Memory) -> tf.Tensor:
        """x [B, source_size]."""
        if self.source == "mean":
            real = self.cast(memory.lengths)[:, tf.newaxis]
            return tf.reduce_sum(memory.values, axis=1) / real  # annotations are 0 at padding
        top = memory.states[-1]
        forward, backward = (tf.nest.flatten(state)[:1] for state in top)  # an LSTM's output is its first part
        read = {"forward": forward, "backward": backward, "both": forward + backward}[self.source]
        return tf.concat(read, axis=-1)
