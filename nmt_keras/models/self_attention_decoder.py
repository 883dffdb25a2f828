"""A decoder that attends to its own earlier states."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import InitializerLike, Shape, layer_norm
from nmt_keras.layers.dropout import Randomness, apply_dropout, draw_dropout_mask
from nmt_keras.layers.memory import Encoding, Memory, shape_of_encoding
from nmt_keras.layers.output import OutputLayer, StateOutput
from nmt_keras.layers.self_attention import (
    SelfAttentionLayer,
    SublayerMasks,
    draw_masks,
    with_positions,
)
from nmt_keras.models.decoder import BaseDecoder, DecoderOutput


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
class SelfAttentionDecoder(BaseDecoder):
    """Attends to its own earlier states and to the source in every layer (Vaswani et al. 2017, section 3).

    Position encodings, pre-norm and the last normalisation are as in ``models.encoder.SelfAttentionEncoder``. The
    alignment is the mean over the heads of the last layer's attention to the source. Teacher forcing computes all
    positions at once. ``advance`` computes the same results position by position.

    Args:
        vocabulary_size: V of the target.
        embedding_size: E. If it differs from ``units``, a linear projection maps the embeddings to ``units``.
        units: Width of each position.
        heads: Number of heads of each attention.
        num_layers: Number of layers.
        max_positions: Maximum number of target tokens in a search or in scheduled sampling, END included. A search of
            your own must not be longer; ``ModelTranslator`` refuses to.
        output_layer: Layer that computes features and logits; None for one linear layer.
        dropout: Dropout rate of the embeddings and of the output of each sublayer, before the residual addition.
        output_dropout: Dropout rate of the features; ``None`` for ``dropout``.
        embeddings_initializer, kernel_initializer, bias_initializer: Initializers; see :class:`BaseDecoder`.

    Example:
        >>> decoder = SelfAttentionDecoder(90, 16, 8, heads=2)
        >>> decoder(tf.constant([[2, 5, 6]]), tf.ones([1, 4, 16])).logits.shape
        TensorShape([1, 3, 90])
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        *,
        heads: int,
        num_layers: int = 1,
        max_positions: int = 100,
        output_layer: OutputLayer | None = None,
        dropout: float = 0.0,
        output_dropout: float | None = None,
        embeddings_initializer: InitializerLike = "uniform",
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        initializers: dict[str, Any] = {
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer or "zeros",
            "dtype": kwargs.get("dtype"),
        }
        super().__init__(
            vocabulary_size,
            embedding_size,
            units,
            output_layer=output_layer or StateOutput(vocabulary_size, **initializers, name="output_layer"),
            num_layers=num_layers,
            dropout=dropout,
            output_dropout=output_dropout,
            embeddings_initializer=embeddings_initializer,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            **kwargs,
        )
        self.heads, self.max_positions = heads, max_positions
        self.blocks = [
            SelfAttentionLayer(units, heads, **initializers, name=f"target_layer_{i}") for i in range(num_layers)
        ]

    def build(self, ids_shape: Shape, encoding_shape: Encoding | Shape) -> None:
        """Builds all layers; see :class:`BaseDecoder`."""
        super().build(ids_shape, encoding_shape)
        states = (None, None, self.units)
        if self.embedding_size != self.units:
            self.input_kernel = self.add_weight(
                (self.embedding_size, self.units), self.kernel_initializer, name="input_kernel"
            )
        for block in self.blocks:
            block.build(states, shape_of_encoding(encoding_shape).values)
        self.norm = layer_norm(self.units, "norm", self)
        if not self.output_layer.built:
            self.output_layer.build(states, None, states)

    def setup_memory(self, encoding: Encoding) -> Memory:
        """Returns the annotations, and their keys and values for each layer."""
        keys = tuple(block.cross_attention.keys_and_values(encoding.values) for block in self.blocks)
        return Memory(self.cast(encoding.values), *encoding[1:], keys)

    def initial_state(self, memory: Memory) -> SelfAttentionState:
        """Returns a state without earlier positions."""
        batch = tf.shape(memory.lengths)[0]
        empty = tf.zeros([batch, 1, self.max_positions, self.units], self.compute_dtype)
        return SelfAttentionState(
            (empty,) * self.num_layers, (empty,) * self.num_layers, tf.zeros([batch, 1], tf.int32)
        )

    def embed(self, ids: tf.Tensor, randomness: Randomness | None = None) -> SelfAttentionInputs:
        """Returns sqrt(units) · e(y_{i-1}), and the dropout masks."""
        embedded = self.embedding(ids)
        if self.embedding_size != self.units:
            embedded = self.matmul(embedded, self.input_kernel)
        embedded *= self.units**0.5
        mask = draw_dropout_mask(tf.shape(embedded), self.dropout, randomness, "target", embedded.dtype)
        masks = tuple(draw_masks(embedded, self.dropout, randomness, block.name) for block in self.blocks)
        return SelfAttentionInputs(embedded, mask, masks)

    def advance(
        self, x: SelfAttentionInputs, state: SelfAttentionState, memory: Memory
    ) -> tuple[SelfAttentionState, tuple[tf.Tensor, tf.Tensor]]:
        """Computes one position, which attends to itself and earlier ones. The results are its output and alignment."""
        hidden = apply_dropout(with_positions(x.embedded, state.position), x.dropout_mask)
        here = tf.one_hot(state.position, self.max_positions, dtype=hidden.dtype)[..., tf.newaxis]  # [B, Q, L, 1]
        seen = tf.range(self.max_positions) <= state.position[..., tf.newaxis]  # [B, Q, L], L = max_positions
        all_keys, all_values = [], []
        layers = zip(self.blocks, memory.keys, state.keys, state.values, x.masks, strict=True)
        for block, source, keys, values, masks in layers:
            normed = block.self_attention_norm(hidden)
            key, value = tf.split(
                block.self_attention.matmul(normed, block.self_attention.key_value_kernel), 2, axis=-1
            )
            keys, values = keys + here * key[:, :, tf.newaxis], values + here * value[:, :, tf.newaxis]
            added = block.self_attention.attend_per_query(normed, keys, values, seen)
            hidden += apply_dropout(added, masks.self_attention)
            hidden, alignment = block.attend_to_source(hidden, source, memory.mask, masks)
            hidden = block.feed_forward(hidden, masks)
            all_keys.append(keys)
            all_values.append(values)
        return SelfAttentionState(tuple(all_keys), tuple(all_values), state.position + 1), (hidden, alignment)

    def features(
        self, x: SelfAttentionInputs, results: tuple[tf.Tensor, tf.Tensor], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalises the last layer's outputs. Returns the output layer's features and the alignments."""
        outputs, alignment = results
        state = self.norm(outputs)
        return self.output_layer.features(state, None, x.embedded), alignment

    def teacher_forcing(self, ids: tf.Tensor, memory: Memory, randomness: Randomness | None) -> DecoderOutput:
        """Predicts every target token, at all positions at once; see ``call``."""
        x = self.embed(ids, randomness)
        positions = tf.range(keras.ops.shape(ids)[1])
        hidden = apply_dropout(with_positions(x.embedded, positions), x.dropout_mask)
        earlier = (positions <= positions[:, tf.newaxis])[tf.newaxis]  # [1, T, T]
        for block, source, masks in zip(self.blocks, memory.keys, x.masks, strict=True):
            hidden, _ = block.attend_to_self(hidden, earlier, masks)
            hidden, alignment = block.attend_to_source(hidden, source, memory.mask, masks)
            hidden = block.feed_forward(hidden, masks)
        return self.output_of(x, (hidden, alignment), memory, randomness)
