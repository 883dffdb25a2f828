"""Recurrent decoders: the papers' two orders of attending and updating."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.attention import Attended, Attention
from nmt_keras.layers.base import Weights
from nmt_keras.layers.bridges import Bridge
from nmt_keras.layers.cudnn import can_fuse, read_stack
from nmt_keras.layers.dropout import Randomness, dropout, dropout_mask
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.stack import Stack, StackMasks
from nmt_keras.models.decoder import Decoder, DecoderOutput
from nmt_keras.models.encoder import Encoding


class Inputs(NamedTuple):
    """Target tokens as a recurrent decoder reads them."""

    embedded: tf.Tensor  # [B, T, E] float: e(y_{i-1})
    projected: tf.Tensor  # [B, T, parts · U] float: the first cell's W e(y_{i-1}) + b
    masks: StackMasks  # dropout between and inside the cells


class DecoderState(NamedTuple):
    """State of a recurrent decoder between two steps."""

    cells: tuple[Any, ...]  # of each cell, nests of [B, Q, U]
    step: tf.Tensor  # [B, Q] int32: tokens written so far


class FeedingState(NamedTuple):
    """State of a recurrent decoder with input feeding."""

    cells: tuple[Any, ...]  # of each cell, nests of [B, Q, U]
    step: tf.Tensor  # [B, Q] int32: tokens written so far
    attentional: tf.Tensor  # [B, Q, output_units] float: h~_{t-1}


class RecurrentDecoder(Decoder):
    """Base of the two orders.

    Args:
        embedding, dropout: See :class:`Decoder`; ``dropout`` also applies between cells.
        stack: The cells. The context of the first is c_i, or h~_{t-1} under input feeding.
        bridge: Computes s_0.
        attention: Computes c_i.
        output_layer: Computes logits. If it is tied, its matrix is ``embedding``.
        recurrent_dropout: Dropout rate of a state where its cell reads it; one mask for all positions.
    """

    def __init__(
        self,
        *,
        embedding: keras.layers.Embedding,
        stack: Stack,
        bridge: Bridge,
        attention: Attention,
        output_layer: OutputLayer,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(embedding=embedding, dropout=dropout, **options)
        self.stack, self.bridge, self.attention, self.output_layer = stack, bridge, attention, output_layer
        self.recurrent_dropout = recurrent_dropout

    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """Returns the annotations and the attention's keys."""
        keys = self.attention.keys(weights.attention, encoding)
        return Memory(encoding.values, keys, encoding.mask, encoding.lengths, encoding.states)

    def initial_state(self, memory: Memory) -> Any:
        """Returns s_0."""
        return DecoderState(self.bridge.states(self.stack, memory), tf.zeros_like(memory.lengths)[:, tf.newaxis])

    def inputs(self, weights: Weights, ids: tf.Tensor, randomness: Randomness | None = None) -> Inputs:
        """Returns e(y_{i-1}), W e(y_{i-1}) + b, and the dropout masks."""
        embedded = dropout(self.cast(tf.gather(weights.embedding, ids)), self.dropout, randomness, "target")
        projected = self.stack.cells[0].project(weights.stack.cells[0], embedded)
        return Inputs(embedded, projected, self._draw_masks(embedded, randomness))

    def _draw_masks(self, embedded: tf.Tensor, randomness: Randomness | None) -> StackMasks:
        if randomness is None:
            return StackMasks()
        batch, steps = tf.shape(embedded)[0], embedded.shape[1] or tf.shape(embedded)[1]
        cells, name, dtype = self.stack.cells, self.stack.name, embedded.dtype
        inputs, states = (), ()
        if self.dropout:
            shapes = [tf.stack([batch, steps, cell.units]) for cell in cells[:-1]]
            inputs = tuple(
                dropout_mask(shape, self.dropout, randomness, f"{name} layer {number}", dtype)
                for number, shape in enumerate(shapes, 1)
            )
        if self.recurrent_dropout:
            once = replace(randomness, position=0)
            shapes = [tf.stack([batch, 1, cell.units]) for cell in cells]
            masks = (
                dropout_mask(shape, self.recurrent_dropout, once, f"{name} state {number}", dtype)
                for number, shape in enumerate(shapes)
            )
            states = tuple(tf.repeat(mask, steps, axis=1) for mask in masks)
        return StackMasks(inputs, states)


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauDecoder(RecurrentDecoder):
    """Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).

        alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(e(y_{i-1}), s_{i-1}, c_i)

    W e(y_{i-1}) is computed for all steps at once, C c_i in the loop.

    Args:
        output_state: "previous" for the appendix's s_{i-1}, "current" for the main text's s_i.
        others: See :class:`RecurrentDecoder`.
    """

    def __init__(
        self,
        *,
        embedding: keras.layers.Embedding,
        stack: Stack,
        bridge: Bridge,
        attention: Attention,
        output_layer: OutputLayer,
        output_state: str = "previous",
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(
            embedding=embedding,
            stack=stack,
            bridge=bridge,
            attention=attention,
            output_layer=output_layer,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            **options,
        )
        self.output_state = output_state

    def advance(
        self, weights: Weights, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, Attended]]:
        """Computes alpha_i and c_i, then s_i. Returns the state that the output layer reads, and what was attended."""
        previous = self.stack.output(state.cells)
        attended = self.attention.attend(weights.attention, previous, state.step, memory)
        projected = x.projected
        if self.attention.context_size:
            projected += self.stack.cells[0].project_context(weights.stack.cells[0], attended.context)
        cells, current = self.stack.advance(weights.stack, projected, state.cells, x.masks)
        read = previous if self.output_state == "previous" else current
        return DecoderState(cells, state.step + 1), (read, attended)

    def hidden(
        self, weights: Weights, x: Inputs, results: tuple[tf.Tensor, Attended], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's hidden values of state, context and embedding, and the alignments."""
        state, attended = results
        hidden = self.output_layer.hidden(weights.output_layer, state, attended.context, x.embedded)
        return hidden, self.attention.alignment(attended, memory)


@keras.saving.register_keras_serializable("nmt_keras")
class LuongDecoder(RecurrentDecoder):
    """Updates, then attends with h_t (Luong, Pham, Manning 2015, section 3).

        h_t  = cells(e(y_{t-1}), h_{t-1})
        a_t  = attention(h_t, h)                          c_t = SUM_s a_ts h_s
        h~_t = tanh(W_c [c_t ; h_t])                      the output layer

    The recurrence does not depend on a_t, so attention is computed for all steps at once, after the loop.
    :class:`InputFeedingDecoder` feeds h~_{t-1} back.

    Args: See :class:`RecurrentDecoder`.
    """

    def advance(
        self, weights: Weights, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, tf.Tensor]]:
        """Computes h_t. Returns it with its position."""
        cells, top = self.stack.advance(weights.stack, x.projected, state.cells, x.masks)
        return DecoderState(cells, state.step + 1), (top, state.step)

    def hidden(
        self, weights: Weights, x: Inputs, results: tuple[tf.Tensor, tf.Tensor], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes a_t, c_t and h~_t. Returns h~_t and the alignments."""
        states, steps = results
        attended = self.attention.attend(weights.attention, states, steps, memory)
        hidden = self.output_layer.hidden(weights.output_layer, states, attended.context, x.embedded)
        return hidden, self.attention.alignment(attended, memory)

    @property
    def trains_fused(self) -> bool:
        """``True`` if training reads whole sentences with one cuDNN operation."""
        fits = all(can_fuse(cell) and cell.input_size for cell in self.stack.cells)
        return self.use_cudnn and fits and not self.recurrent_dropout

    def _teach(self, weights: Weights, ids: tf.Tensor, memory: Memory, randomness: Randomness | None) -> DecoderOutput:
        if not self.trains_fused:
            return super()._teach(weights, ids, memory, randomness)
        x = self.inputs(weights, ids, randomness)
        states = read_stack(self.stack, x.embedded, self.initial_state(memory).cells, x.masks)
        steps = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])
        return self.output(weights, x, (states, steps), memory, randomness)


@keras.saving.register_keras_serializable("nmt_keras")
class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder with input feeding: h_t = cells([e(y_{t-1}) ; h~_{t-1}], h_{t-1}), h~_0 = 0.

    (Luong, Pham, Manning 2015, section 3.3.) Attention and the output layer's hidden values are computed in the loop.

    Args: See :class:`RecurrentDecoder`.
    """

    def initial_state(self, memory: Memory) -> FeedingState:
        """Returns s_0, and h~_0 = 0."""
        cells, step = super().initial_state(memory)
        zeros = tf.zeros([tf.shape(step)[0], 1, self.output_layer.hidden_size], self.compute_dtype)
        return FeedingState(cells, step, zeros)

    def advance(
        self, weights: Weights, x: Inputs, state: FeedingState, memory: Memory
    ) -> tuple[FeedingState, tuple[tf.Tensor, Attended]]:
        """Computes h_t, then a_t and c_t, then h~_t. Returns h~_t and what was attended."""
        fed = self.stack.cells[0].project_context(weights.stack.cells[0], state.attentional)
        cells, top = self.stack.advance(weights.stack, x.projected + fed, state.cells, x.masks)
        attended = self.attention.attend(weights.attention, top, state.step, memory)
        attentional = self.output_layer.hidden(weights.output_layer, top, attended.context, x.embedded)
        return FeedingState(cells, state.step + 1, attentional), (attentional, attended)

    def hidden(
        self, weights: Weights, x: Inputs, results: tuple[tf.Tensor, Attended], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns h~_t and the alignments."""
        attentional, attended = results
        return attentional, self.attention.alignment(attended, memory)
