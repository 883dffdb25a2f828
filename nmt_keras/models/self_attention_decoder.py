"""A decoder that attends to its own earlier states."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import Weights
from nmt_keras.layers.dropout import Randomness, apply_mask, dropout_mask
from nmt_keras.layers.matmul import matmul
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.self_attention import (
    SelfAttentionLayer,
    SublayerMasks,
    draw_masks,
    layer_norm,
    normalize,
    sinusoids,
)
from nmt_keras.models.decoder import Decoder, DecoderOutput
from nmt_keras.models.encoder import Encoding


class SelfAttentionInputs(NamedTuple):
    """Target tokens as a self-attention decoder reads them."""

    embedded: tf.Tensor  # [B, T, units] float: scaled embeddings, without positions
    mask: tf.Tensor | None  # [B, T, units] float: dropout of embeddings with positions; None drops nothing
    masks: tuple[SublayerMasks, ...]  # of each layer


class SelfAttentionState(NamedTuple):
    """State of a self-attention decoder: keys and values of each layer's earlier positions."""

    keys: tuple[tf.Tensor, ...]  # of each layer, [B, Q, P, units] float, P = max_positions; 0 where not yet written
    values: tuple[tf.Tensor, ...]
    step: tf.Tensor  # [B, Q] int32: tokens written so far


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionDecoder(Decoder):
    """Attends to its own earlier states and to the source in every layer (Vaswani et al. 2017, section 3).

    Positions, pre-norm and the last normalisation are as in ``models.encoder.SelfAttentionEncoder``. The alignment is
    the mean over the heads of the last layer's attention to the source. Teacher forcing computes all positions at once;
    ``advance`` gives the same, one position after another.

    Args:
        embedding, dropout: See :class:`Decoder`; ``dropout`` also applies to what each sublayer adds. A product maps E
            to ``units`` if they differ.
        units: Width of each position.
        heads: Of each attention.
        layers: Number of layers.
        memory_size: D, width of the annotations.
        max_positions: Target tokens, END included, that can be written one after another.
        output_layer: Computes logits. If it is tied, its matrix is ``embedding``.
    """

    def __init__(
        self,
        *,
        embedding: keras.layers.Embedding,
        units: int,
        heads: int,
        layers: int,
        memory_size: int,
        max_positions: int,
        output_layer: OutputLayer,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(embedding=embedding, dropout=dropout, **options)
        self.units, self.heads, self.layers = units, heads, layers
        self.memory_size, self.max_positions, self.output_layer = memory_size, max_positions, output_layer
        if embedding.output_dim != units:
            self.entry = self.add_weight((embedding.output_dim, units), "glorot_uniform", name="entry")
        self.blocks = [
            SelfAttentionLayer(units, heads, memory_size=memory_size, name=f"target_layer_{i}") for i in range(layers)
        ]
        self.norm = layer_norm(units, "norm")

    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """Returns the annotations, and each layer's keys and values of them."""
        layers = zip(self.blocks, weights.blocks, strict=True)
        keys = tuple(block.source.pairs(own.source, encoding.values) for block, own in layers)
        return Memory(encoding.values, keys, encoding.mask, encoding.lengths, encoding.states)

    def initial_state(self, memory: Memory) -> SelfAttentionState:
        """Returns a state without earlier positions."""
        batch = tf.shape(memory.lengths)[0]
        empty = tf.zeros([batch, 1, self.max_positions, self.units], self.compute_dtype)
        return SelfAttentionState((empty,) * self.layers, (empty,) * self.layers, tf.zeros([batch, 1], tf.int32))

    def inputs(self, weights: Weights, ids: tf.Tensor, randomness: Randomness | None = None) -> SelfAttentionInputs:
        """Returns sqrt(units) · e(y_{i-1}), and the dropout masks."""
        embedded = self.cast(tf.gather(weights.embedding, ids))
        if self.embedding.output_dim != self.units:
            embedded = matmul(embedded, weights.entry)
        embedded *= self.units**0.5
        mask = None
        if randomness is not None and self.dropout:
            mask = dropout_mask(tf.shape(embedded), self.dropout, randomness, "target", embedded.dtype)
        masks = tuple(draw_masks(embedded, self.dropout, randomness, block.name) for block in self.blocks)
        return SelfAttentionInputs(embedded, mask, masks)

    def advance(
        self, weights: Weights, x: SelfAttentionInputs, state: SelfAttentionState, memory: Memory
    ) -> tuple[SelfAttentionState, tuple[tf.Tensor, tf.Tensor]]:
        """Computes one position, which attends to the earlier ones and itself. Returns its state and alignment."""
        hidden = apply_mask(x.embedded + self.cast(sinusoids(state.step, self.units)), x.mask)
        here = tf.one_hot(state.step, self.max_positions, dtype=hidden.dtype)[..., tf.newaxis]  # [B, Q, P, 1]
        seen = tf.range(self.max_positions) <= state.step[..., tf.newaxis]  # [B, Q, P]
        all_keys, all_values = [], []
        layers = zip(self.blocks, weights.blocks, memory.keys, state.keys, state.values, x.masks, strict=True)
        for block, own, source, keys, values, masks in layers:
            normed = normalize(own.own_norm, hidden)
            key, value = tf.split(matmul(normed, own.own.pair_kernel), 2, axis=-1)
            keys, values = keys + here * key[:, :, tf.newaxis], values + here * value[:, :, tf.newaxis]
            hidden += apply_mask(block.own.attend_apart(own.own, normed, keys, values, seen), masks.own)
            hidden, alignment = block.attend_to_source(own, hidden, source, memory.mask, masks)
            hidden = block.feed_forward(own, hidden, masks)
            all_keys.append(keys)
            all_values.append(values)
        return SelfAttentionState(tuple(all_keys), tuple(all_values), state.step + 1), (hidden, alignment)

    def hidden(
        self, weights: Weights, x: SelfAttentionInputs, results: tuple[tf.Tensor, tf.Tensor], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's hidden values of the normalised states, and the alignments."""
        states, alignment = results
        no_context = memory.values[..., :0]
        hidden = self.output_layer.hidden(weights.output_layer, normalize(weights.norm, states), no_context, x.embedded)
        return hidden, alignment

    def _teach(self, weights: Weights, ids: tf.Tensor, memory: Memory, randomness: Randomness | None) -> DecoderOutput:
        x = self.inputs(weights, ids, randomness)
        steps = tf.range(ids.shape[1] or tf.shape(ids)[1])
        hidden = apply_mask(x.embedded + self.cast(sinusoids(steps, self.units)), x.mask)
        earlier = (steps <= steps[:, tf.newaxis])[tf.newaxis]  # [1, T, T]
        for block, own, source, masks in zip(self.blocks, weights.blocks, memory.keys, x.masks, strict=True):
            hidden = block.attend_to_own(own, hidden, earlier, masks)
            hidden, alignment = block.attend_to_source(own, hidden, source, memory.mask, masks)
            hidden = block.feed_forward(own, hidden, masks)
        return self.output(weights, x, (hidden, alignment), memory, randomness)
