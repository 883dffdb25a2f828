"""Encoders: compute annotations from token ids."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import PAD, require, require_choice
from nmt_keras.layers.base import Shape
from nmt_keras.layers.cells import CELLS, Cell
from nmt_keras.layers.cudnn import can_fuse, run_cudnn
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


class BaseEncoder(keras.Model):
    """Computes the annotations of sentences. Dropout needs a ``randomness``, which ``Seq2Seq`` passes in training.

    Args:
        vocabulary_size: V of the source.
        embedding_size: E.
        units: U, state size of each direction of a recurrent encoder; D of a self-attention encoder.
        layers: Number of layers.
        dropout_rate: Dropout rate of the embeddings; see the subclass for others.
    """

    use_cudnn = False
    """If True, training uses cuDNN for recurrent layers whose cells it supports; see ``runs_cudnn``. Search never uses
    cuDNN, because an export must run without a GPU."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        layers: int = 1,
        dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        require(units >= 1 and layers >= 1, "units, layers", "at least 1", (units, layers))
        self.vocabulary_size, self.embedding_size = vocabulary_size, embedding_size
        self.units, self.depth, self.dropout_rate = units, layers, dropout_rate
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_size, name="embedding")

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding of ids [B, S]."""
        raise NotImplementedError

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...], tf.Tensor | None]:
        """Returns the annotations [B, S, D], the ``states`` and the ``summary`` of the ``Encoding``.

        Annotations of padding are undefined; ``call`` sets them to 0.

        Args:
            embedded: [B, S, E] float, embeddings of the tokens.
            mask: [B, S] bool, True at tokens.
            randomness: Source of the training step's random numbers; None outside training.
        """
        raise NotImplementedError

    def call(
        self,
        ids: tf.Tensor,
        mask: tf.Tensor | None = None,
        randomness: Randomness | None = None,
    ) -> Encoding:
        """Encodes sentences.

        Args:
            ids: [B, S] int32. Each row begins with at least one token.
            mask: [B, S] bool, True at tokens. If None, all ids other than PAD are tokens.
            randomness: Source of the training step's random numbers; None outside training.
        """
        mask = tf.not_equal(ids, PAD) if mask is None else mask
        embedded = self.embedding(ids)
        values, states, summary = self.encode(embedded, mask, randomness)
        values = tf.where(mask[:, :, tf.newaxis], values, tf.zeros([], values.dtype))
        return Encoding(values, mask, tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), states, summary)

    @property
    def has_dropout(self) -> bool:
        """True if training draws random numbers."""
        return self.dropout_rate > 0.0

    @property
    def supports_cudnn(self) -> bool:
        """True if one cuDNN operation can compute all positions of a layer and direction."""
        return False

    @property
    def runs_cudnn(self) -> bool:
        """True if one cuDNN operation computes all positions of a layer and direction in training."""
        return self.use_cudnn and self.supports_cudnn

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding."""
        self.embedding.build(ids_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        names = ("vocabulary_size", "embedding_size", "units", "dropout_rate")
        own = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **own, "layers": self.depth}


@keras.saving.register_keras_serializable("nmt_keras")
class Encoder(BaseEncoder):
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
        cell: str = "gru",
        direction: str = "bidirectional",
        merge: str = "concatenate",
        residual: bool = False,
        word_view: bool = False,
        recurrent_dropout_rate: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_choice("Encoder.cell", tuple(CELLS), cell)
        require_choice("Encoder.direction", ("bidirectional", "forward", "backward"), direction)
        require_choice("Encoder.merge", ("concatenate", "sum"), merge)
        self.cell, self.direction, self.merge = cell, direction, merge
        self.residual, self.word_view, self.recurrent_dropout_rate = residual, word_view, recurrent_dropout_rate
        both = direction == "bidirectional"
        self.annotation_size = 2 * self.units if both and merge == "concatenate" else self.units
        numbers, make = range(self.depth), CELLS[cell]
        self.forward_cells = [make(self.units, name=f"forward_{i}") for i in numbers if direction != "backward"]
        self.backward_cells = [make(self.units, name=f"backward_{i}") for i in numbers if direction != "forward"]

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding and the cells."""
        super().build(ids_shape)
        sizes = [self.embedding_size, *[self.annotation_size] * (self.depth - 1)]
        for cells in (self.forward_cells, self.backward_cells):
            for cell, size in zip(cells, sizes, strict=False):
                cell.build((None, None, size))
        if self.word_view:
            shape = (self.embedding_size, self.annotation_size)
            self.word_kernel = self.add_weight(shape, "glorot_uniform", name="word_kernel")

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding; of an LSTM's states, the shape of h."""
        batch, length = ids_shape
        state = (batch, self.units)
        last = LayerStates(state if self.forward_cells else None, state if self.backward_cells else None)
        summary = (batch, 2 * self.units if self.direction == "bidirectional" else self.units)
        values = (batch, length, self.annotation_size)
        return Encoding(values, (batch, length), (batch,), (last,) * self.depth, summary)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        names = ("cell", "direction", "merge", "residual", "word_view", "recurrent_dropout_rate")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    @property
    def has_dropout(self) -> bool:
        """See :class:`BaseEncoder`."""
        return super().has_dropout or self.recurrent_dropout_rate > 0.0

    @property
    def supports_cudnn(self) -> bool:
        """See :class:`BaseEncoder`."""
        return all(map(can_fuse, (*self.forward_cells, *self.backward_cells))) and not self.recurrent_dropout_rate

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...], tf.Tensor | None]:
        """See :class:`BaseEncoder`."""
        embedded = dropout(embedded, self.dropout_rate, randomness, "source")
        real = mask[:, :, tf.newaxis]  # True at tokens
        below, states = embedded, []
        for layer in range(self.depth):
            x = dropout(below, self.dropout_rate, randomness, f"source layer {layer}") if layer else below
            values, last = self._read_layer(layer, x, real, randomness)
            below = values + x if layer and self.residual else values
            states.append(last)
        values = below
        if self.word_view:
            values += matmul(embedded, self.word_kernel)
        return values, tuple(states), self._summary(states[-1])

    def _read_layer(
        self, layer: int, x: tf.Tensor, real: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, LayerStates]:
        """Returns one layer's annotations [B, S, D] of inputs [B, S, I], and its last states."""
        outputs: list[tf.Tensor] = []
        states: dict[str, Any] = {"forward": None, "backward": None}
        for direction, cells in (("forward", self.forward_cells), ("backward", self.backward_cells)):
            if not cells:
                continue
            cell = cells[layer]
            reverse = direction == "backward"
            if self.runs_cudnn and randomness is not None:
                output, last = run_cudnn(cell, x, real[..., 0], reverse=reverse)
            else:
                dropout_mask = self._state_dropout_mask(cell, x, randomness)
                output, last = self._read(cell, x, real, dropout_mask, reverse)
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
        self, cell: Cell, x: tf.Tensor, real: tf.Tensor, dropout_mask: tf.Tensor | None, reverse: bool
    ) -> tuple[tf.Tensor, Any]:
        """Runs the cell in one direction.

        Returns the outputs [B, S, U] and the state after the last position it reads, a nest of [B, 1, U].
        """

        def advance(inputs: tuple[tf.Tensor, tf.Tensor], state: Any) -> tuple[Any, tf.Tensor]:
            projected, here = inputs
            new = cell.advance(projected, state, dropout_mask)
            state = tf.nest.map_structure(lambda after, before: tf.where(here, after, before), new, state)
            return state, cell.output(state)

        inputs = cell.project(x), real
        last, outputs = scan(advance, inputs, cell.zero_state(tf.shape(x)[0]), reverse=reverse)
        return outputs, last

    def _summary(self, top: LayerStates) -> tf.Tensor:
        pairs = [(self.forward_cells, top.forward), (self.backward_cells, top.backward)]
        return tf.concat([cells[-1].output(state) for cells, state in pairs if cells], axis=-1)


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
        self.blocks = [SelfAttentionLayer(self.units, heads, name=f"source_layer_{i}") for i in range(self.depth)]

    def build(self, ids_shape: Shape = (None, None)) -> None:
        """Builds the embedding and the layers."""
        super().build(ids_shape)
        if self.embedding_size != self.units:
            self.entry = self.add_weight((self.embedding_size, self.units), "glorot_uniform", name="entry")
        for block in self.blocks:
            block.build()
        self.norm = layer_norm(self.units, "norm")

    def encoding_shape(self, ids_shape: Shape) -> Encoding:
        """Returns the shapes of the encoding."""
        batch, length = ids_shape
        return Encoding((batch, length, self.units), (batch, length), (batch,), (), None)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "heads": self.heads}

    def encode(
        self, embedded: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, tuple[LayerStates, ...], tf.Tensor | None]:
        """See :class:`BaseEncoder`."""
        x = embedded if self.embedding_size == self.units else matmul(embedded, self.entry)
        positions = sinusoids(tf.range(x.shape[1] or tf.shape(x)[1]), self.units)
        x = dropout(x * self.units**0.5 + tf.cast(positions, x.dtype), self.dropout_rate, randomness, "source")
        for block in self.blocks:
            masks = draw_masks(x, self.dropout_rate, randomness, block.name)
            x = block.attend_to_own(x, mask[:, tf.newaxis], masks)
            x = block.feed_forward(x, masks)
        return normalize(self.norm, x), (), None
