"""A decoder that attends to its own earlier states."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.dropout import Randomness, dropout
from nmt_keras.layers.matmul import product
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.self_attention import SelfAttentionLayer, layer_norm, sinusoids
from nmt_keras.models.decoder import Decoder, DecoderOutput, Hidden
from nmt_keras.models.encoder import Encoding


class SelfAttentionInputs(NamedTuple):
    """Target tokens as a self-attention decoder takes them."""

    embedded: tf.Tensor  # [B, T, units] float: scaled embeddings, without positions
    randomness: Any  # Randomness that drops where positions are taken one after another; () for none


class SelfAttentionState(NamedTuple):
    """What a self-attention decoder carries: the keys and values of each layer's earlier states."""

    keys: tuple[tf.Tensor, ...]  # of each layer, [B, Q, P, units] float, P = max_positions; 0 where not yet written
    values: tuple[tf.Tensor, ...]
    step: tf.Tensor  # [B, Q] int32


class SelfAttentionEmission(NamedTuple):
    """What one position of a self-attention decoder leaves for the output layer."""

    state: tf.Tensor  # [B, Q, units] float
    alignment: tf.Tensor  # [B, Q, S] float: the mean over the last layer's heads


@keras.saving.register_keras_serializable("nmt_keras")
class SelfAttentionDecoder(Decoder):
    """Attends to its own earlier states and to the source in every layer (Vaswani et al. 2017, section 3).

    Positions, pre-norm and the last normalisation are those of ``encoder.SelfAttentionEncoder``. Its alignment is the
    mean over the heads of the last layer's attention to the source. Under teacher forcing all positions are computed at
    once; ``advance``, one position after another, gives the same.

    Args:
        embedding: of the target tokens; E must equal ``units`` or is brought to it by a product.
        units: of each position.
        heads: of each attention.
        layers: how many.
        memory_size: D, width of the annotations.
        max_positions: target tokens, END included, that can be written one after another.
        output_layer: reads the last layer's states.
        dropout: probability of dropping an entry of the embeddings and of what each sublayer adds, in training.
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
        super().__init__(**options)
        self.embedding, self.units = embedding, units
        self.heads, self.layers, self.memory_size, self.max_positions = heads, layers, memory_size, max_positions
        self.output_layer, self.dropout = output_layer, dropout
        if embedding.output_dim != units:
            self.entry = self.weight("entry", (embedding.output_dim, units), "glorot_uniform")
        self.blocks = [
            SelfAttentionLayer(units, heads, dropout=dropout, memory_size=memory_size, name=f"target_layer_{i}")
            for i in range(layers)
        ]
        self.scale = self.weight("scale", (units,), "ones")
        self.bias = self.weight("bias", (units,), "zeros")

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        if not self.embedding.built:
            self.embedding.build()
        super().build(input_shape)

    def remember(self, encoding: Encoding) -> Memory:
        """The annotations, and each layer's keys and values of them."""
        keys = tuple(block.source.pairs(encoding.values) for block in self.blocks)
        return Memory(encoding.values, keys, encoding.mask, encoding.lengths, encoding.states)

    def initial_state(self, memory: Memory) -> SelfAttentionState:
        """No earlier states."""
        batch = tf.shape(memory.lengths)[0]
        empty = tf.zeros([batch, 1, self.max_positions, self.units], self.compute_dtype)
        return SelfAttentionState((empty,) * self.layers, (empty,) * self.layers, tf.zeros([batch, 1], tf.int32))

    def inputs(self, ids: tf.Tensor, randomness: Randomness | None = None) -> SelfAttentionInputs:
        """sqrt(units) · e(y_{i-1})."""
        embedded = self.cast(tf.gather(self.value(self.embedding.embeddings), ids))
        if self.embedding.output_dim != self.units:
            embedded = product(embedded, self.matrix(self.entry))
        return SelfAttentionInputs(embedded * self.units**0.5, () if randomness is None else randomness)

    def advance(
        self, x: SelfAttentionInputs, state: SelfAttentionState, memory: Memory
    ) -> tuple[SelfAttentionState, SelfAttentionEmission]:
        """One position, which sees the earlier ones and itself."""
        randomness = x.randomness or None
        hidden = dropout(x.embedded + self.cast(sinusoids(state.step, self.units)), self.dropout, randomness, "target")
        here = tf.one_hot(state.step, self.max_positions, dtype=hidden.dtype)[..., tf.newaxis]  # [B, Q, P, 1]
        seen = tf.range(self.max_positions) <= state.step[..., tf.newaxis]  # [B, Q, P]
        all_keys, all_values = [], []
        for block, source, keys, values in zip(self.blocks, memory.keys, state.keys, state.values, strict=True):
            normed = block.norm(hidden, 0)
            key, value = tf.split(product(normed, block.own.matrix(block.own.pair_kernel)), 2, axis=-1)
            keys, values = keys + here * key[:, :, tf.newaxis], values + here * value[:, :, tf.newaxis]
            added = block.own.attend_apart(normed, keys, values, seen)
            hidden = hidden + dropout(added, self.dropout, randomness, f"{block.name} own")
            hidden, alignment = block.over_source(hidden, source, memory.mask, randomness)
            hidden = block.forward(hidden, randomness)
            all_keys.append(keys)
            all_values.append(values)
        return SelfAttentionState(tuple(all_keys), tuple(all_values), state.step + 1), SelfAttentionEmission(
            hidden, alignment
        )

    def hidden(self, x: SelfAttentionInputs, emissions: SelfAttentionEmission, memory: Memory) -> Hidden:
        """The output layer's hidden values of the normalised states."""
        states = layer_norm(emissions.state, self.cast(self.scale), self.cast(self.bias))
        return Hidden(self.output_layer.hidden(states, memory.values[..., :0], x.embedded), emissions.alignment)

    def call(self, ids: tf.Tensor, encoding: Encoding, randomness: Randomness | None = None) -> DecoderOutput:
        """Teacher forcing, all positions at once: each sees those before it and itself."""
        memory = self.remember(encoding)
        x = self.inputs(ids, randomness)
        steps = tf.range(ids.shape[1] or tf.shape(ids)[1])
        hidden = x.embedded + self.cast(sinusoids(steps, self.units))
        hidden = dropout(hidden, self.dropout, randomness, "target")
        earlier = (steps <= steps[:, tf.newaxis])[tf.newaxis]  # [1, T, T]
        for block, source in zip(self.blocks, memory.keys, strict=True):
            normed = block.norm(hidden, 0)
            added, _ = block.own.attend(normed, *block.own.pairs(normed), earlier)
            hidden = hidden + dropout(added, self.dropout, randomness, f"{block.name} own")
            hidden, alignment = block.over_source(hidden, source, memory.mask, randomness)
            hidden = block.forward(hidden, randomness)
        return self.output(x, SelfAttentionEmission(hidden, alignment), memory, randomness)
