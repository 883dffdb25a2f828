"""Encoders: compute annotations from token ids."""

from abc import abstractmethod
from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import PAD, require, require_choice
from nmt_keras.layers.base import InitializerLike, Masked, Part, Shape, layer_norm
from nmt_keras.layers.cells import Cell, CellState, new_cell
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout, require_rates
from nmt_keras.layers.memory import Encoding, LayerStates
from nmt_keras.layers.scan import scan
from nmt_keras.layers.self_attention import SelfAttentionLayer, draw_masks, with_positions


class BaseEncoder(Part, keras.Model):
    """Computes the annotations of sentences.

    Args:
        vocabulary_size: V of the source.
        embedding_size: E.
        units: U, state size of each direction of a recurrent encoder; D of a self-attention encoder.
        num_layers: Number of layers.
        dropout: Dropout rate of the embeddings; see the subclass for others.
        embeddings_initializer, kernel_initializer, bias_initializer: Initializers of the embeddings, of the matrices,
            and of the biases; None for the default of the layers.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        *,
        num_layers: int,
        dropout: float,
        embeddings_initializer: InitializerLike,
        kernel_initializer: InitializerLike,
        bias_initializer: InitializerLike | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        sizes = (vocabulary_size, embedding_size, units, num_layers)
        require(min(sizes) >= 1, "vocabulary_size, embedding_size, units, num_layers", "at least 1", sizes)
        require_rates(dropout=dropout)
        self.input_spec = keras.layers.InputSpec(ndim=2)
        self.vocabulary_size, self.embedding_size = vocabulary_size, embedding_size
        self.units, self.num_layers, self.dropout = units, num_layers, dropout
        self.embeddings_initializer, self.kernel_initializer, self.bias_initializer = map(
            keras.initializers.get, (embeddings_initializer, kernel_initializer, bias_initializer)
        )
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_size, self.embeddings_initializer, dtype=self.dtype_policy, name="embedding"
        )

        self.masked = Masked(autocast=False, name="masked")

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
        mask = tf.not_equal(ids, PAD) if mask is None else tf.cast(mask, tf.bool)
        values, states = self.encode(self.embedding(ids), mask, randomness)
        values = tf.where(mask[:, :, tf.newaxis], self.cast(values), tf.zeros([], self.compute_dtype))
        values = self.masked(values, mask=mask)
        return Encoding(values, mask, tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), states)

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding."""
        self.embedding.build(ids_shape)


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
        cell: "tanh", "gru", "gru-reset-after", "gru-layer-norm", "lstm", or a name given to ``nmt_keras.register``.
        direction: "bidirectional", "forward" or "backward".
        num_layers: Number of layers.
        word_projection: If True, adds W_r e(x_j), a linear projection of the word's embedding, to its annotation. This
            is not in the papers: a direct path from a word to its translation.
        dropout: Dropout rate of the embeddings and between layers.
        recurrent_dropout: Dropout rate of the state that a cell reads. All positions share one mask.
        embeddings_initializer, kernel_initializer, recurrent_initializer, bias_initializer: Initializers; see
            :class:`BaseEncoder` and ``Cell``.

    Example:
        >>> encoder = Encoder(100, 16, 8)
        >>> encoding = encoder(tf.constant([[5, 6, 3], [7, 3, 0]]))  # END is 3, PAD is 0
        >>> encoding.values.shape, encoding.lengths.numpy()
        (TensorShape([2, 3, 16]), array([3, 2], dtype=int32))
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        *,
        cell: str = "gru",
        direction: str = "bidirectional",
        num_layers: int = 1,
        word_projection: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        embeddings_initializer: InitializerLike = "uniform",
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size,
            embedding_size,
            units,
            num_layers=num_layers,
            dropout=dropout,
            embeddings_initializer=embeddings_initializer,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            **kwargs,
        )
        require_choice("Encoder.direction", ("bidirectional", "forward", "backward"), direction)
        require_rates(recurrent_dropout=recurrent_dropout)
        self.cell, self.direction = cell, direction
        self.word_projection, self.recurrent_dropout = word_projection, recurrent_dropout
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.annotation_size = 2 * units if direction == "bidirectional" else units
        self.forward_cells, self.backward_cells = (
            [new_cell(self, f"{way}_{i}") for i in range(num_layers) if direction != other]
            for way, other in (("forward", "backward"), ("backward", "forward"))
        )

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding and the cells."""
        super().build(ids_shape)
        sizes = [self.embedding_size, *[self.annotation_size] * (self.num_layers - 1)]
        for cells in (self.forward_cells, self.backward_cells):
            for cell, size in zip(cells, sizes, strict=False):
                cell.build((None, None, size))
        if self.word_projection:
            self.word_kernel = self.add_weight(
                (self.embedding_size, self.annotation_size), self.kernel_initializer, name="word_kernel"
            )

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding; of an LSTM's states, the shape of h."""
        batch, length = ids_shape
        state = (batch, self.units)
        last = LayerStates(state if self.forward_cells else (), state if self.backward_cells else ())
        return Encoding((batch, length, self.annotation_size), (batch, length), (batch,), (last,) * self.num_layers)

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...]]:
        """See :class:`BaseEncoder`."""
        embedded = dropout(embedded, self.dropout, randomness, "source")
        values, states = embedded, []
        for layer in range(self.num_layers):
            x = dropout(values, self.dropout, randomness, f"source layer {layer}") if layer else values
            values, last = self._read_layer(layer, x, mask, randomness)
            states.append(last)
        if self.word_projection:
            values = self.cast(values) + self.matmul(embedded, self.word_kernel)
        return values, tuple(states)

    def _read_layer(
        self, layer: int, x: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, LayerStates]:
        """Returns one layer's annotations [B, S, D] of inputs [B, S, I], and its last states."""
        outputs, states = [], LayerStates()
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
        dropout_mask = draw_dropout_mask(shape, self.recurrent_dropout, randomness, name, x.dtype)

        def advance(inputs: tuple[tf.Tensor, tf.Tensor], state: CellState) -> tuple[CellState, tf.Tensor]:
            projected, is_token = inputs
            new = cell.advance(projected, state, dropout_mask)
            state = tf.nest.map_structure(lambda after, before: tf.where(is_token, after, before), new, state)
            return state, cell.output_of(state)

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
        num_layers: Number of layers.
        dropout: Dropout rate of the embeddings and of the output of each sublayer, before the residual addition.
        embeddings_initializer, kernel_initializer, bias_initializer: Initializers; see :class:`BaseEncoder`.

    Example:
        >>> encoder = SelfAttentionEncoder(100, 16, 8, heads=2)
        >>> encoder(tf.constant([[5, 6, 3], [7, 3, 0]])).values.shape
        TensorShape([2, 3, 8])
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        *,
        heads: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        embeddings_initializer: InitializerLike = "uniform",
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size,
            embedding_size,
            units,
            num_layers=num_layers,
            dropout=dropout,
            embeddings_initializer=embeddings_initializer,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            **kwargs,
        )
        self.heads = heads
        self.blocks = [
            SelfAttentionLayer(
                units,
                heads,
                kernel_initializer=kernel_initializer,
                bias_initializer=bias_initializer or "zeros",
                dtype=self.dtype_policy,
                name=f"source_layer_{i}",
            )
            for i in range(num_layers)
        ]

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding and the layers."""
        super().build(ids_shape)
        if self.embedding_size != self.units:
            self.input_kernel = self.add_weight(
                (self.embedding_size, self.units), self.kernel_initializer, name="input_kernel"
            )
        for block in self.blocks:
            block.build((None, None, self.units))
        self.norm = layer_norm(self.units, "norm", self)

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding."""
        batch, length = ids_shape
        return Encoding((batch, length, self.units), (batch, length), (batch,), ())

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...]]:
        """See :class:`BaseEncoder`."""
        return self._attend(embedded, mask, randomness)[0], ()

    def head_weights(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the attention weights of each layer's heads.

        Args:
            ids: [B, S] int32. Each row begins with at least one token.

        Returns:
            [B, layers, heads, S, S] float: the last axes are the position that attends, and those that it attends to.
        """
        if not self.built:
            self.build()
        _, weights = self._attend(self.embedding(ids), tf.not_equal(ids, PAD), None)
        return tf.stack(weights, axis=1)

    def _attend(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns the annotations [B, S, units], and the weights of each layer, [B, heads, S, S]."""
        x = embedded if self.embedding_size == self.units else self.matmul(embedded, self.input_kernel)
        x = with_positions(x * self.units**0.5, tf.range(keras.ops.shape(x)[1]))
        x = dropout(x, self.dropout, randomness, "source")
        weights = []
        for block in self.blocks:
            masks = draw_masks(x, self.dropout, randomness, block.name)
            x, alpha = block.attend_to_self(x, mask[:, tf.newaxis], masks)
            weights.append(alpha)
            x = block.feed_forward(x, masks)
        return self.norm(x), weights
