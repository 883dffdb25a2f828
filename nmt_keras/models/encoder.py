"""Encoders: compute annotations from token ids."""

from abc import ABC, abstractmethod
from typing import Any, Self

import keras
import tensorflow as tf

from nmt_keras.config import PAD, require, require_choice
from nmt_keras.layers.base import Shape, deserialize, layer_norm, token_embedding
from nmt_keras.layers.cells import CELLS, Cell, CellState
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout
from nmt_keras.layers.initializers import initializer_of
from nmt_keras.layers.matmul import matmul
from nmt_keras.layers.memory import Encoding, LayerStates
from nmt_keras.layers.scan import scan
from nmt_keras.layers.self_attention import SelfAttentionLayer, draw_masks, with_positions


class BaseEncoder(keras.Model, ABC):
    """Computes the annotations of sentences.

    Args:
        vocabulary_size: V of the source.
        embedding_size: E.
        units: U, state size of each direction of a recurrent encoder; D of a self-attention encoder.
        layers: Number of layers.
        dropout_rate: Dropout rate of the embeddings; see the subclass for others.
        initializer: Scheme of the initial weights; see ``layers.initializers``.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        layers: int = 1,
        dropout_rate: float = 0.0,
        initializer: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        sizes = (vocabulary_size, embedding_size, units, layers)
        require(min(sizes) >= 1, "vocabulary_size, embedding_size, units, layers", "at least 1", sizes)
        self.vocabulary_size, self.embedding_size = vocabulary_size, embedding_size
        self.units, self.depth, self.dropout_rate, self.initializer = units, layers, dropout_rate, initializer
        self.embedding = token_embedding(vocabulary_size, embedding_size, initializer, self.dtype_policy)

    @abstractmethod
    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding of ids [B, S]."""

    @abstractmethod
    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...]]:
        """Returns the annotations [B, S, D] and the ``states`` of the ``Encoding``.

        Annotations of padding are undefined; ``call`` sets them to 0.

        Args:
            embedded: [B, S, E] float, embeddings of the tokens.
            mask: [B, S] bool, True at tokens.
            randomness: Source of the random numbers of dropout; None for no dropout.
        """

    def call(
        self,
        ids: tf.Tensor,
        mask: tf.Tensor | None = None,
        training: bool | None = None,
        randomness: Randomness | None = None,
    ) -> Encoding:
        """Encodes sentences.

        Args:
            ids: [B, S] int32. Each row begins with at least one token.
            mask: [B, S] bool, True at tokens. If None, all ids other than PAD are tokens.
            training: If True, applies dropout.
            randomness: Source of the random numbers of dropout, which is then applied even if ``training`` is not True.
                None draws them from Keras's global generator.
        """
        if training and randomness is None:
            randomness = Randomness.draw()
        mask = tf.not_equal(ids, PAD) if mask is None else mask
        values, states = self.encode(self.embedding(ids), mask, randomness)
        values = tf.where(mask[:, :, tf.newaxis], values, tf.zeros([], values.dtype))
        return Encoding(values, mask, tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), states)

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding."""
        self.embedding.build(ids_shape)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        names = ("vocabulary_size", "embedding_size", "units", "dropout_rate", "initializer")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}, "layers": self.depth}

    @classmethod
    def from_config(cls, config: dict[str, object]) -> Self:
        """Creates an encoder from the result of ``get_config``."""
        return cls(**deserialize(cls, config))


@keras.saving.register_keras_serializable("nmt_keras")
class Encoder(BaseEncoder):
    """Recurrent layers in one direction or both (Bahdanau, Cho, Bengio 2014, section 3.2).

        h_j = [forward h_j ; backward h_j]                                    (+ W_r e(x_j) with ``word_projection``)

    The first layer reads the source embeddings. Each further layer reads the annotations of the layer below. Padding
    leaves the state unchanged. Therefore the forward direction ends at the sentence's last token and the backward
    direction starts there, whatever the padded length of the batch. The backward direction reads the source from END to
    the first token. Annotations keep the order of the source.

    Args:
        vocabulary_size: V of the source.
        embedding_size: E.
        units: U, state size of each direction.
        cell: Name in ``cells.CELLS``.
        direction: "bidirectional", "forward" or "backward".
        layers: Number of layers.
        word_projection: If True, adds W_r e(x_j), a linear projection of the word's embedding, to its annotation. This
            is not in the papers: a direct path from a word to its translation.
        dropout_rate: Dropout rate of the embeddings and between layers.
        recurrent_dropout_rate: Dropout rate of the state that a cell reads. All positions share one mask.
    """

    def __init__(
        self,
        *,
        cell: str = "gru",
        direction: str = "bidirectional",
        word_projection: bool = False,
        recurrent_dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_choice("Encoder.cell", tuple(CELLS), cell)
        require_choice("Encoder.direction", ("bidirectional", "forward", "backward"), direction)
        self.cell, self.direction = cell, direction
        self.word_projection, self.recurrent_dropout_rate = word_projection, recurrent_dropout_rate
        self.annotation_size = 2 * self.units if direction == "bidirectional" else self.units
        numbers, make = range(self.depth), CELLS[cell]
        self.forward_cells, self.backward_cells = (
            [
                make(self.units, initializer=self.initializer, dtype=self.dtype_policy.name, name=f"{way}_{i}")
                for i in numbers
                if direction != other
            ]
            for way, other in (("forward", "backward"), ("backward", "forward"))
        )

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding and the cells."""
        super().build(ids_shape)
        sizes = [self.embedding_size, *[self.annotation_size] * (self.depth - 1)]
        for cells in (self.forward_cells, self.backward_cells):
            for cell, size in zip(cells, sizes, strict=False):
                cell.build((None, None, size))
        if self.word_projection:
            self.word_kernel = self.add_weight(
                (self.embedding_size, self.annotation_size),
                initializer_of(self.initializer, "kernel", "glorot_uniform"),
                name="word_kernel",
            )

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding; of an LSTM's states, the shape of h."""
        batch, length = ids_shape
        state = (batch, self.units)
        last = LayerStates(state if self.forward_cells else None, state if self.backward_cells else None)
        return Encoding((batch, length, self.annotation_size), (batch, length), (batch,), (last,) * self.depth)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        names = ("cell", "direction", "word_projection", "recurrent_dropout_rate")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...]]:
        """See :class:`BaseEncoder`."""
        embedded = dropout(embedded, self.dropout_rate, randomness, "source")
        values, states = embedded, []
        for layer in range(self.depth):
            x = dropout(values, self.dropout_rate, randomness, f"source layer {layer}") if layer else values
            values, last = self._read_layer(layer, x, mask, randomness)
            states.append(last)
        if self.word_projection:
            values += matmul(embedded, self.word_kernel)
        return values, tuple(states)

    def _read_layer(
        self, layer: int, x: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, LayerStates]:
        """Returns one layer's annotations [B, S, D] of inputs [B, S, I], and its last states."""
        outputs, states = [], LayerStates(None, None)
        for direction, cells in (("forward", self.forward_cells), ("backward", self.backward_cells)):
            if cells:
                output, last = self._read(cells[layer], x, mask, randomness, reverse=direction == "backward")
                outputs.append(output)
                states = states._replace(**{direction: tf.nest.map_structure(lambda s: s[:, 0], last)})
        return tf.concat(outputs, axis=-1), states

    def _read(
        self, cell: Cell, x: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None, *, reverse: bool
    ) -> tuple[tf.Tensor, CellState]:
        """Runs the cell in one direction.

        Returns the outputs [B, S, U] and the state after the last position it reads, a nest of [B, 1, U].
        """
        batch, name = tf.shape(x)[0], f"source {cell.name}"
        shape = tf.stack([batch, 1, self.units])
        dropout_mask = draw_dropout_mask(shape, self.recurrent_dropout_rate, randomness, name, x.dtype)

        def advance(inputs: tuple[tf.Tensor, tf.Tensor], state: CellState) -> tuple[CellState, tf.Tensor]:
            projected, is_token = inputs
            new = cell.advance(projected, state, dropout_mask)
            state = tf.nest.map_structure(lambda after, before: tf.where(is_token, after, before), new, state)
            return state, cell.output(state)

        inputs = cell.project(x), mask[:, :, tf.newaxis]
        last, outputs = scan(advance, inputs, cell.zero_state(batch), reverse=reverse)
        return outputs, last


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionEncoder(BaseEncoder):
    """Layers in which every position attends to all tokens of the sentence (Vaswani et al. 2017, section 3).

    Sinusoidal position encodings are added to the scaled embeddings. Each sublayer first normalises its input
    (pre-norm: Xiong et al. 2020). The last layer's output is normalised once more.

    Args:
        vocabulary_size: V of the source.
        embedding_size: E. If it differs from ``units``, a linear projection maps E to ``units``.
        units: D, width of each position.
        heads: Number of heads of each layer; a divisor of ``units``.
        layers: Number of layers.
        dropout_rate: Dropout rate of the embeddings and of the output of each sublayer, before the residual addition.
    """

    def __init__(self, *, heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = heads
        self.blocks = [
            SelfAttentionLayer(
                self.units, heads, initializer=self.initializer, dtype=self.dtype_policy.name, name=f"source_layer_{i}"
            )
            for i in range(self.depth)
        ]

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding and the layers."""
        super().build(ids_shape)
        if self.embedding_size != self.units:
            self.input_kernel = self.add_weight(
                (self.embedding_size, self.units),
                initializer_of(self.initializer, "kernel", "glorot_uniform"),
                name="input_kernel",
            )
        for block in self.blocks:
            block.build()
        self.norm = layer_norm(self.units, "norm", self.dtype_policy)

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding."""
        batch, length = ids_shape
        return Encoding((batch, length, self.units), (batch, length), (batch,), ())

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "heads": self.heads}

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...]]:
        """See :class:`BaseEncoder`."""
        x = embedded if self.embedding_size == self.units else matmul(embedded, self.input_kernel)
        x = with_positions(x * self.units**0.5, tf.range(keras.ops.shape(x)[1]))
        x = dropout(x, self.dropout_rate, randomness, "source")
        for block in self.blocks:
            masks = draw_masks(x, self.dropout_rate, randomness, block.name)
            x = block.attend_to_self(x, mask[:, tf.newaxis], masks)
            x = block.feed_forward(x, masks)
        return self.norm(x), ()
