"""Bridges: compute the decoder's initial state from the encoder's states."""

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import require, require_choice
from nmt_keras.layers.base import InitializerLike, Nest, Part, Shape
from nmt_keras.layers.cells import CellState
from nmt_keras.layers.memory import (
    SUMMARIES,
    Encoding,
    LayerStates,
    Memory,
    as_encoding,
    shape_of_encoding,
    summary,
    summary_size,
)


class Bridge(Part):
    """Computes the initial states of a decoder's cells."""

    def build(self, encoding_shape: Encoding | Shape) -> None:
        """Creates the weights.

        Args:
            encoding_shape: ``Encoding`` of shapes.
        """

    def call(self, encoding: Encoding | tf.Tensor, mask: tf.Tensor | None = None) -> tuple[CellState, ...]:
        """Returns the initial state of each cell, nests of [B, U]; or the part of it that is not 0.

        Args:
            encoding: Result of an encoder; or annotations [B, S, D].
            mask: [B, S] bool, True at the annotations that exist. None for the mask of ``encoding``, for the mask that
                Keras has attached to the annotations, or for all.
        """
        return self.states(as_encoding(encoding, mask))

    def compute_mask(self, inputs: Nest, previous_mask: Nest) -> None:
        """Returns None: a state has no positions."""

    @abstractmethod
    def states(self, encoding: Encoding | Memory) -> tuple[CellState, ...]:
        """See ``call``."""


@keras.saving.register_keras_serializable("nmt_keras")
class ZeroBridge(Bridge):
    """Zero initial state: s_0 = 0.

    Args:
        units: U, width of each cell's state.
        num_layers: Number of cells.

    Example:
        >>> ZeroBridge(8)(tf.ones([2, 5, 12]))[0].shape
        TensorShape([2, 8])
    """

    def __init__(self, units: int, num_layers: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units, self.num_layers = units, num_layers

    def states(self, encoding: Encoding | Memory) -> tuple[CellState, ...]:
        """Returns zeros."""
        return (tf.zeros([tf.shape(encoding.lengths)[0], self.units], self.compute_dtype),) * self.num_layers


@keras.saving.register_keras_serializable("nmt_keras")
class CopyBridge(Bridge):
    """Copies the encoder's last states to s_0 (Sutskever et al. 2014; Luong et al. 2015; cs224d, lecture 9).

    The state of encoder layer n becomes the initial state of decoder cell n.

    Example:
        >>> encoder = Encoder(100, 16, 8, direction="forward")
        >>> CopyBridge()(encoder(tf.constant([[5, 6, 3]])))[0].shape
        TensorShape([1, 8])
    """

    def build(self, encoding_shape: Encoding | Shape) -> None:
        """Creates no weights. Raises ValueError if the encoder does not have one direction."""
        layers = shape_of_encoding(encoding_shape).states
        one_way = bool(layers) and all(len(list(filter(tf.nest.flatten, layer))) == 1 for layer in layers)
        require(one_way, "encoder", "one that reads in one direction", layers, "Use DenseBridge.")

    def states(self, encoding: Encoding | Memory) -> tuple[CellState, ...]:
        """Returns the states of the encoder's only direction."""
        return tuple(state for layer in encoding.states for state in layer if tf.nest.flatten(state))


@keras.saving.register_keras_serializable("nmt_keras")
class DenseBridge(Bridge):
    """Dense layer: s_0 = tanh(W_s · x + b_s). Each cell has its own U rows of W_s. An LSTM's c_0 is 0.

    The papers differ in x:

        "backward"    backward h_1 (Bahdanau, Cho, Bengio 2014, appendix A.2.2, whose formulas leave biases out)
        "both"        [forward h_S ; backward h_1] (the PyTorch version of RNNsearch)
        "mean"        the mean of the annotations (Xu et al. 2015)

    Args:
        units: U, width of each cell's state.
        num_layers: Number of cells.
        source: Source of x: "backward", "forward", "both" or "mean". None for the first of "backward", "forward" and
            "mean" that the encoder has.
        kernel_initializer, bias_initializer: Initializers of W_s and b_s.

    Example:
        >>> DenseBridge(8)(tf.ones([2, 5, 12]))[0].shape
        TensorShape([2, 8])
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 1,
        source: str | None = None,
        *,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if source is not None:
            require_choice("source", SUMMARIES, source)
        self.units, self.num_layers, self.source = units, num_layers, source
        self.kernel_initializer, self.bias_initializer = map(
            keras.initializers.get, (kernel_initializer, bias_initializer)
        )
        self.dense = keras.layers.Dense(
            num_layers * units,
            activation="tanh",
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            dtype=self.dtype_policy,
            name="dense",
        )

    def build(self, encoding_shape: Encoding | Shape) -> None:
        """Builds the dense layer."""
        shape = shape_of_encoding(encoding_shape)
        if self.source is None:
            top = shape.states[-1] if shape.states else LayerStates()
            self.source = "backward" if top.backward else "forward" if top.forward else "mean"
        self.dense.build((None, summary_size(shape, self.source)))

    def states(self, encoding: Encoding | Memory) -> tuple[CellState, ...]:
        """Returns tanh(W_s · x + b_s), split among the cells."""
        x = self.cast(summary(encoding, self.source))
        return tuple(tf.split(self.dense(x), self.num_layers, axis=-1))
