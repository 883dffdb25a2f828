"""Encoders: compute annotations from token ids."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.layers.base import BaseLayer, Weights
from nmt_keras.layers.cells import CELLS, Cell
from nmt_keras.layers.cudnn import can_fuse, read_fused
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout
from nmt_keras.layers.layer_norm import layer_norm, normalize
from nmt_keras.layers.matmul import matmul
from nmt_keras.layers.scan import scan
from nmt_keras.layers.self_attention import SelfAttentionLayer, draw_masks, sinusoids


class LayerStates(NamedTuple):
    """Last states of one layer; None for a direction that it lacks."""

    forward: Any  # nest of [B, U]: after the last token
    backward: Any  # nest of [B, U]: after the first token


class Encoding(NamedTuple):
    """A batch of encoded sentences."""

    values: tf.Tensor  # [B, S, D] float: annotations h_j; 0 at padding
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: number of tokens of each sentence
    states: tuple[LayerStates, ...]  # one per layer, from bottom to top; none in a self-attention encoder
    summary: tf.Tensor | None  # [B, summary_size] float: the top layer's last states, both directions concatenated


class Encoder(BaseLayer):
    """Computes the annotations of sentences."""

    embedding: keras.layers.Embedding
    annotation_size: int
    """D, width of the annotations."""

    use_cudnn = False
    """If True, training uses cuDNN for recurrent layers whose cells it supports; see ``reads_fused``. Search never uses
    cuDNN, because an export must run without a GPU."""

    @abstractmethod
    def encode(
        self, weights: Weights, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...], tf.Tensor | None]:
        """Returns the annotations [B, S, D], the ``states`` and the ``summary`` of the ``Encoding``.

        Annotations of padding are undefined; ``call`` sets them to 0.

        Args:
            weights: This layer's weights.
            embedded: [B, S, E] float, embeddings of the tokens.
            mask: [B, S] bool, True at tokens.
            randomness: Source of the training step's random numbers; None outside training.
        """

    def call(
        self,
        ids: tf.Tensor,
        mask: tf.Tensor | None = None,
        randomness: Randomness | None = None,
        weights: Weights | None = None,
    ) -> Encoding:
        """Encodes sentences.

        Args:
            ids: [B, S] int32. Each row begins with at least one token.
            mask: [B, S] bool, True at tokens. If None, all ids other than PAD are tokens.
            randomness: Source of the training step's random numbers; None outside training.
            weights: Result of ``read_weights``; None reads them in the compute dtype.
        """
        weights = weights or self.read_weights()
        mask = tf.not_equal(ids, PAD) if mask is None else mask
        embedded = self.cast(tf.gather(weights.embedding, ids))
        values, states, summary = self.encode(weights, embedded, mask, randomness)
        values = tf.where(mask[:, :, tf.newaxis], values, tf.zeros([], values.dtype))
        return Encoding(values, mask, tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), states, summary)

    @property
    def supports_cudnn(self) -> bool:
        """True if one cuDNN operation can compute all positions of a layer and direction."""
        return False

    @property
    def reads_fused(self) -> bool:
        """True if one cuDNN operation computes all positions of a layer and direction in training."""
        return self.use_cudnn and self.supports_cudnn

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        self.embedding.build()
        super().build(input_shape)


@keras.saving.register_keras_serializable("nmt_keras")
class RecurrentEncoder(Encoder):
    """Recurrent layers in one direction or both (Bahdanau, Cho, Bengio 2014, section 3.2).

        h_j = [forward h_j ; backward h_j]                       (or their sum; + W_r e(x_j) with ``word_view``)

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
        merge: Combination of two directions, "concatenate" (D = 2U) or "sum" (D = U).
        layers: Number of layers.
        residual: If True, each layer but the first adds its input to its output.
        word_view: If True, adds W_r e(x_j), a linear projection of the word's embedding, to its annotation. This is not
            in the papers. With this direct path, the decoder learns word translations early in training, before the
            recurrent states represent the words well.
        dropout_rate: Dropout rate of the embeddings and between layers.
        recurrent_dropout_rate: Dropout rate of the state that a cell reads. All positions share one mask.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        cell: str = "gru",
        direction: str = "bidirectional",
        merge: str = "concatenate",
        layers: int = 1,
        residual: bool = False,
        word_view: bool = False,
        dropout_rate: float = 0.0,
        recurrent_dropout_rate: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.embedding_size, self.units = vocabulary_size, embedding_size, units
        self.cell, self.direction, self.merge, self.layers = cell, direction, merge, layers
        self.residual, self.word_view = residual, word_view
        self.dropout_rate, self.recurrent_dropout_rate = dropout_rate, recurrent_dropout_rate
        both = direction == "bidirectional"
        self.annotation_size = 2 * units if both and merge == "concatenate" else units
        self.summary_size = 2 * units if both else units
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_size, name="embedding")
        sizes = [embedding_size, *[self.annotation_size] * (layers - 1)]
        make = CELLS[cell]
        self.forward_cells = [
            make(units, size, name=f"forward_{i}") for i, size in enumerate(sizes) if direction != "backward"
        ]
        self.backward_cells = [
            make(units, size, name=f"backward_{i}") for i, size in enumerate(sizes) if direction != "forward"
        ]
        if word_view:
            self.word_kernel = self.add_weight(
                (embedding_size, self.annotation_size), "glorot_uniform", name="word_kernel"
            )

    @property
    def supports_cudnn(self) -> bool:
        """See :class:`Encoder`."""
        return all(map(can_fuse, (*self.forward_cells, *self.backward_cells))) and not self.recurrent_dropout_rate

    def encode(
        self, weights: Weights, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...], tf.Tensor | None]:
        """See :class:`Encoder`."""
        embedded = dropout(embedded, self.dropout_rate, randomness, "source")
        real = mask[:, :, tf.newaxis]  # True at tokens
        below, states = embedded, []
        for layer in range(self.layers):
            x = dropout(below, self.dropout_rate, randomness, f"source layer {layer}") if layer else below
            values, last = self._read_layer(weights, layer, x, real, randomness)
            below = values + x if layer and self.residual else values
            states.append(last)
        values = below
        if self.word_view:
            values += matmul(embedded, weights.word_kernel)
        return values, tuple(states), self._summary(states[-1])

    def _read_layer(
        self, weights: Weights, layer: int, x: tf.Tensor, real: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, LayerStates]:
        """Returns one layer's annotations [B, S, D] of inputs [B, S, I], and its last states."""
        outputs: list[tf.Tensor] = []
        states: dict[str, Any] = {"forward": None, "backward": None}
        directions = {
            "forward": (self.forward_cells, weights.forward_cells),
            "backward": (self.backward_cells, weights.backward_cells),
        }
        for direction, (cells, own) in directions.items():
            if not cells:
                continue
            cell = cells[layer]
            reverse = direction == "backward"
            if self.reads_fused and randomness is not None:
                output, last = read_fused(cell, x, real[..., 0], reverse=reverse)
            else:
                dropout_mask = self._state_dropout_mask(cell, x, randomness)
                output, last = self._read(cell, own[layer], x, real, dropout_mask, reverse)
            outputs.append(output)
            states[direction] = tf.nest.map_structure(lambda s: s[:, 0], last)
        if self.merge == "sum" or len(outputs) == 1:
            return tf.add_n(outputs), LayerStates(**states)
        return tf.concat(outputs, axis=-1), LayerStates(**states)

    def _state_dropout_mask(self, cell: Cell, x: tf.Tensor, randomness: Randomness | None) -> tf.Tensor | None:
        """Draws the recurrent dropout mask [B, 1, U] of a cell."""
        if randomness is None or not self.recurrent_dropout_rate:
            return None
        shape = tf.stack([tf.shape(x)[0], 1, self.units])
        return draw_dropout_mask(shape, self.recurrent_dropout_rate, randomness, f"source {cell.name}", x.dtype)

    def _read(
        self, cell: Cell, weights: Weights, x: tf.Tensor, real: tf.Tensor, dropout_mask: tf.Tensor | None, reverse: bool
    ) -> tuple[tf.Tensor, Any]:
        """Runs the cell in one direction.

        Returns the outputs [B, S, U] and the state after the last position it reads, a nest of [B, 1, U].
        """

        def advance(inputs: tuple[tf.Tensor, tf.Tensor], state: Any) -> tuple[Any, tf.Tensor]:
            projected, here = inputs
            new = cell.advance(weights, projected, state, dropout_mask)
            state = tf.nest.map_structure(lambda after, before: tf.where(here, after, before), new, state)
            return state, cell.output(state)

        inputs = cell.project(weights, x), real
        last, outputs = scan(advance, inputs, cell.zero_state(tf.shape(x)[0]), reverse=reverse)
        return outputs, last

    def _summary(self, top: LayerStates) -> tf.Tensor:
        pairs = [(self.forward_cells, top.forward), (self.backward_cells, top.backward)]
        return tf.concat([cells[-1].output(state) for cells, state in pairs if cells], axis=-1)


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionEncoder(Encoder):
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

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        heads: int,
        layers: int = 1,
        dropout_rate: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.embedding_size, self.units = vocabulary_size, embedding_size, units
        self.heads, self.layers, self.dropout_rate = heads, layers, dropout_rate
        self.annotation_size = units
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_size, name="embedding")
        if embedding_size != units:
            self.entry = self.add_weight((embedding_size, units), "glorot_uniform", name="entry")
        self.blocks = [SelfAttentionLayer(units, heads, name=f"source_layer_{i}") for i in range(layers)]
        self.norm = layer_norm(units, "norm")

    def encode(
        self, weights: Weights, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...], tf.Tensor | None]:
        """See :class:`Encoder`."""
        x = embedded if self.embedding_size == self.units else matmul(embedded, weights.entry)
        positions = sinusoids(tf.range(x.shape[1] or tf.shape(x)[1]), self.units)
        x = dropout(x * self.units**0.5 + self.cast(positions), self.dropout_rate, randomness, "source")
        for block, own in zip(self.blocks, weights.blocks, strict=True):
            masks = draw_masks(x, self.dropout_rate, randomness, block.name)
            x = block.attend_to_own(own, x, mask[:, tf.newaxis], masks)
            x = block.feed_forward(own, x, masks)
        return normalize(weights.norm, x), (), None
