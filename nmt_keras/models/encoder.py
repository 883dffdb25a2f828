"""Encoders: from token ids to annotations."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.cells import CELLS, Cell
from nmt_keras.layers.cudnn import can_fuse, read_fused
from nmt_keras.layers.dropout import Randomness, dropout, dropout_mask
from nmt_keras.layers.matmul import product
from nmt_keras.layers.scan import scan
from nmt_keras.layers.self_attention import SelfAttentionLayer, layer_norm, sinusoids


class LayerStates(NamedTuple):
    """The last states of one layer; () for a direction that it does not read in."""

    forward: Any  # nest of [B, U]: after the last token
    backward: Any  # nest of [B, U]: after the first token


class Encoding(NamedTuple):
    """A batch of encoded sentences."""

    values: tf.Tensor  # [B, S, D] float: annotation h_j of each position; 0 at padding
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: tokens
    states: tuple[LayerStates, ...]  # of each layer, from the bottom up; () in a self-attention encoder
    summary: Any  # [B, D'] float: the top layer's last state, of both directions side by side; () where there is none


class Encoder(BaseLayer):
    """The contract: ids [B, S] and their mask give an Encoding."""

    @abstractmethod
    def call(self, ids: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None = None) -> Encoding:
        """Encodes ids [B, S] whose mask [B, S] is True at tokens; each row begins with at least one token."""

    @property
    def trains_fused(self) -> bool:
        """Whether whole sentences are read with one operation, as cuDNN has it, in training."""
        return False

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        self.embedding.build()
        super().build(input_shape)


@keras.saving.register_keras_serializable("nmt_keras")
class RecurrentEncoder(Encoder):
    """Recurrent layers in one direction or both (Bahdanau, Cho, Bengio 2014, section 3.2).

        h_j = [forward h_j ; backward h_j]                       (or their sum; + W_r e(x_j) with ``word_view``)

    The first layer reads the source embeddings, each other the annotations of the one below. Padding holds the state
    still: the forward state is the one at the sentence's last token however wide the batch is, and the backward state
    starts there. Reading backward is reading the reversed source: END comes first, and annotations keep the order of
    the source.

    Args:
        vocabulary_size: source vocabulary.
        embedding_size: E.
        units: U, of each direction.
        cell: a name in ``cells.CELLS``.
        direction: "bidirectional", "forward" or "backward".
        merge: "concatenate" (D = 2U) or "sum" (D = U), of two directions.
        layers: how many, one upon the other.
        residual: whether each layer but the first adds its input to its output.
        word_view: whether to add W_r e(x_j), a linear view of the word itself, to its annotation. The papers do not;
            with it the decoder learns which word translates which before the recurrence has learnt to carry words.
        dropout: probability of dropping an entry of the embeddings and of what a layer hands to the next, in training.
        recurrent_dropout: probability of dropping an entry of a state where its cell reads it, in training; one mask
            for all positions.
        fused: whether to read with one operation where the cell allows, instead of a loop: the same numbers, by cuDNN
            where there is a GPU. Not for XLA, nor for exports.
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
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        fused: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.embedding_size, self.units = vocabulary_size, embedding_size, units
        self.fused = fused
        self.cell, self.direction, self.merge, self.layers = cell, direction, merge, layers
        self.residual, self.word_view = residual, word_view
        self.dropout, self.recurrent_dropout = dropout, recurrent_dropout
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
            self.word_kernel = self.weight("word_kernel", (embedding_size, self.annotation_size), "glorot_uniform")

    @property
    def trains_fused(self) -> bool:
        """Whether whole sentences are read with one operation, as cuDNN has it, in training."""
        return self._fuses and not self.recurrent_dropout

    @property
    def _fuses(self) -> bool:
        """Whether they are where nothing is dropped."""
        return self.fused and all(map(can_fuse, (*self.forward_cells, *self.backward_cells)))

    def call(self, ids: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None = None) -> Encoding:
        """See :class:`Encoder`."""
        embedded = dropout(self.cast(tf.gather(self.embedding.embeddings, ids)), self.dropout, randomness, "source")
        held = mask[:, :, tf.newaxis]
        below, states = embedded, []
        for layer in range(self.layers):
            x = dropout(below, self.dropout, randomness, f"source layer {layer}") if layer else below
            values, last = self._layer(layer, x, held, randomness)
            below = values + x if layer and self.residual else values
            states.append(last)
        values = below
        if self.word_view:
            values += product(embedded, self.matrix(self.word_kernel))
        values = tf.where(held, values, tf.zeros([], values.dtype))
        lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        return Encoding(values, mask, lengths, tuple(states), self._summary(states[-1]))

    def _layer(
        self, layer: int, x: tf.Tensor, held: tf.Tensor, randomness: Randomness | None
    ) -> tuple[tf.Tensor, LayerStates]:
        """One layer's annotations [B, S, D] of inputs [B, S, I], and its last states."""
        outputs, lasts = [], []
        for cells, reverse in ((self.forward_cells, False), (self.backward_cells, True)):
            if not cells:
                lasts.append(())
                continue
            output, last = self._read(cells[layer], x, held, reverse, randomness)
            outputs.append(output)
            lasts.append(tf.nest.map_structure(lambda s: s[:, 0], last))
        if self.merge == "sum" or len(outputs) == 1:
            return tf.add_n(outputs), LayerStates(*lasts)
        return tf.concat(outputs, axis=-1), LayerStates(*lasts)

    def _read(
        self, cell: Cell, x: tf.Tensor, held: tf.Tensor, reverse: bool, randomness: Randomness | None
    ) -> tuple[tf.Tensor, Any]:
        """One direction of one layer: outputs [B, S, U], and the state at its end, a nest of [B, 1, U]."""
        batch, keep = tf.shape(x)[0], None
        dropping = randomness is not None and self.recurrent_dropout > 0.0
        if self._fuses and not dropping:
            return read_fused(cell, x, held[..., 0], reverse=reverse)
        if randomness is not None and self.recurrent_dropout:
            shape = tf.stack([batch, 1, self.units])
            keep = dropout_mask(shape, self.recurrent_dropout, randomness, f"source {cell.name}", x.dtype)

        def advance(inputs: tuple[tf.Tensor, tf.Tensor], state: Any) -> tuple[Any, tf.Tensor]:
            projected, real = inputs
            new = cell.advance(projected, state, keep)
            state = tf.nest.map_structure(lambda after, before: tf.where(real, after, before), new, state)
            return state, cell.output(state)

        last, outputs = scan(advance, (cell.project(x), held), cell.zero_state(batch), reverse=reverse)
        return outputs, last

    def _summary(self, top: LayerStates) -> tf.Tensor:
        pairs = [(self.forward_cells, top.forward), (self.backward_cells, top.backward)]
        return tf.concat([cells[-1].output(state) for cells, state in pairs if cells], axis=-1)


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionEncoder(Encoder):
    """Layers in which every position attends to all others, in parallel (Vaswani et al. 2017, section 3).

    Sinusoidal positions are added to the scaled embeddings; each layer normalises its input first (pre-norm: Xiong et
    al. 2020), and the last one's output is normalised once more.

    Args:
        vocabulary_size: source vocabulary.
        embedding_size: E; another width than ``units`` is brought to it by a product.
        units: D, of each position.
        heads: of each layer; they divide ``units``.
        layers: how many.
        dropout: probability of dropping an entry of the embeddings and of what each sublayer adds, in training.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        heads: int,
        layers: int = 1,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.embedding_size, self.units = vocabulary_size, embedding_size, units
        self.heads, self.layers, self.dropout = heads, layers, dropout
        self.annotation_size = units
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_size, name="embedding")
        if embedding_size != units:
            self.entry = self.weight("entry", (embedding_size, units), "glorot_uniform")
        self.blocks = [
            SelfAttentionLayer(units, heads, dropout=dropout, name=f"source_layer_{i}") for i in range(layers)
        ]
        self.scale = self.weight("scale", (units,), "ones")
        self.bias = self.weight("bias", (units,), "zeros")

    def call(self, ids: tf.Tensor, mask: tf.Tensor, randomness: Randomness | None = None) -> Encoding:
        """See :class:`Encoder`."""
        x = self.cast(tf.gather(self.embedding.embeddings, ids))
        if self.embedding_size != self.units:
            x = product(x, self.matrix(self.entry))
        positions = sinusoids(tf.range(x.shape[1] or tf.shape(x)[1]), self.units)
        x = dropout(x * self.units**0.5 + self.cast(positions), self.dropout, randomness, "source")
        for block in self.blocks:
            x = block.over_all(x, mask[:, tf.newaxis], randomness)
        values = layer_norm(x, self.cast(self.scale), self.cast(self.bias))
        values = tf.where(mask[:, :, tf.newaxis], values, tf.zeros([], values.dtype))
        return Encoding(values, mask, tf.reduce_sum(tf.cast(mask, tf.int32), axis=1), (), ())
