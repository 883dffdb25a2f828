"""A decoder that attends to its own earlier states."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import Weights
from nmt_keras.layers.dropout import Randomness, apply_dropout, draw_dropout_mask
from nmt_keras.layers.layer_norm import layer_norm, normalize
from nmt_keras.layers.matmul import matmul
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.self_attention import (
    SelfAttentionLayer,
    SublayerMasks,
    draw_masks,
    sinusoids,
)
from nmt_keras.models.decoder import Decoder, DecoderOutput
from nmt_keras.models.encoder import Encoding


class SelfAttentionInputs(NamedTuple):
    """Inputs of a self-attention decoder, computed from the target tokens."""

    embedded: tf.Tensor  # [B, Q, units] float: scaled embeddings, without positions
    dropout_mask: tf.Tensor | None  # [B, Q, units] float, of embeddings plus positions; None for no dropout
    masks: tuple[SublayerMasks, ...]  # one per layer


class SelfAttentionState(NamedTuple):
    """State of a self-attention decoder: keys and values of each layer's earlier positions."""

    keys: tuple[tf.Tensor, ...]  # one per layer, [B, Q, max_positions, units] float; 0 at later positions
    values: tuple[tf.Tensor, ...]  # one per layer, of the same shape
    position: tf.Tensor  # [B, Q] int32: number of tokens so far


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionDecoder(Decoder):
    """Attends to its own earlier states and to the source in every layer (Vaswani et al. 2017, section 3).

    Position encodings, pre-norm and the last normalisation are as in ``models.encoder.SelfAttentionEncoder``. The
    alignment is the mean over the heads of the last layer's attention to the source. Teacher forcing computes all
    positions at once. ``advance`` computes the same results position by position.

    Args:
        embedding: Embedding of the target tokens, [V, E]. If E differs from ``units``, a linear projection maps E to
            ``units``.
        dropout_rate: Dropout rate of the embeddings and of the output of each sublayer, before the residual addition.
        units: Width of each position.
        heads: Number of heads of each attention.
        layers: Number of layers.
        annotation_size: D, width of the annotations.
        max_positions: Maximum number of target tokens in a search, END included.
        output_layer: Layer that computes features and logits. With tied embeddings, its matrix is that of
            ``embedding``.
    """

    def __init__(
        self,
        *,
        embedding: keras.layers.Embedding,
        units: int,
        heads: int,
        layers: int,
        annotation_size: int,
        max_positions: int,
        output_layer: OutputLayer,
        **options: Any,
    ) -> None:
        super().__init__(embedding=embedding, **options)
        self.units, self.heads, self.layers = units, heads, layers
        self.annotation_size, self.max_positions, self.output_layer = annotation_size, max_positions, output_layer
        if embedding.output_dim != units:
            self.entry = self.add_weight((embedding.output_dim, units), "glorot_uniform", name="entry")
        self.blocks = [
            SelfAttentionLayer(units, heads, annotation_size=annotation_size, name=f"target_layer_{i}")
            for i in range(layers)
        ]
        self.norm = layer_norm(units, "norm")

    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """Returns the annotations, and their keys and values for each layer."""
        layers = zip(self.blocks, weights.blocks, strict=True)
        prepared = tuple(block.source.keys_and_values(own.source, encoding.values) for block, own in layers)
        return Memory(encoding.values, prepared, encoding.mask, encoding.lengths, encoding.states)

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
        if randomness is not None and self.dropout_rate:
            mask = draw_dropout_mask(tf.shape(embedded), self.dropout_rate, randomness, "target", embedded.dtype)
        masks = tuple(draw_masks(embedded, self.dropout_rate, randomness, block.name) for block in self.blocks)
        return SelfAttentionInputs(embedded, mask, masks)

    def advance(
        self, weights: Weights, x: SelfAttentionInputs, state: SelfAttentionState, memory: Memory
    ) -> tuple[SelfAttentionState, tuple[tf.Tensor, tf.Tensor]]:
        """Computes one position, which attends to itself and earlier ones. The results are its output and alignment."""
        hidden = apply_dropout(x.embedded + self.cast(sinusoids(state.position, self.units)), x.dropout_mask)
        here = tf.one_hot(state.position, self.max_positions, dtype=hidden.dtype)[..., tf.newaxis]  # [B, Q, L, 1]
        seen = tf.range(self.max_positions) <= state.position[..., tf.newaxis]  # [B, Q, L], L = max_positions
        all_keys, all_values = [], []
        layers = zip(self.blocks, weights.blocks, memory.prepared, state.keys, state.values, x.masks, strict=True)
        for block, own, source, keys, values, masks in layers:
            normed = normalize(own.own_norm, hidden)
            key, value = tf.split(matmul(normed, own.own.key_value_kernel), 2, axis=-1)
            keys, values = keys + here * key[:, :, tf.newaxis], values + here * value[:, :, tf.newaxis]
            hidden += apply_dropout(block.own.attend_apart(own.own, normed, keys, values, seen), masks.own)
            hidden, alignment = block.attend_to_source(own, hidden, source, memory.mask, masks)
            hidden = block.feed_forward(own, hidden, masks)
            all_keys.append(keys)
            all_values.append(values)
        return SelfAttentionState(tuple(all_keys), tuple(all_values), state.position + 1), (hidden, alignment)

    def features(
        self, weights: Weights, x: SelfAttentionInputs, results: tuple[tf.Tensor, tf.Tensor], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalises the last layer's outputs. Returns the output layer's features and the alignments."""
        outputs, alignment = results
        state = normalize(weights.norm, outputs)
        return self.output_layer.features(weights.output_layer, state, None, x.embedded), alignment

    def _teacher_forcing(
        self, weights: Weights, ids: tf.Tensor, memory: Memory, randomness: Randomness | None
    ) -> DecoderOutput:
        x = self.inputs(weights, ids, randomness)
        positions = tf.range(ids.shape[1] or tf.shape(ids)[1])
        hidden = apply_dropout(x.embedded + self.cast(sinusoids(positions, self.units)), x.dropout_mask)
        earlier = (positions <= positions[:, tf.newaxis])[tf.newaxis]  # [1, T, T]
        for block, own, source, masks in zip(self.blocks, weights.blocks, memory.prepared, x.masks, strict=True):
            hidden = block.attend_to_own(own, hidden, earlier, masks)
            hidden, alignment = block.attend_to_source(own, hidden, source, memory.mask, masks)
            hidden = block.feed_forward(own, hidden, masks)
        return self.output(weights, x, (hidden, alignment), memory, randomness)
