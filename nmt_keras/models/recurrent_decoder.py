"""Recurrent decoders: attend then update, conditional, update then attend, and input feeding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.attention import Attended, Attention
from nmt_keras.layers.base import Weights
from nmt_keras.layers.bridges import Bridge
from nmt_keras.layers.cells import Cell
from nmt_keras.layers.cudnn import can_fuse, read_stack
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.stack import Stack, StackMasks
from nmt_keras.models.decoder import Decoder, DecoderOutput
from nmt_keras.models.encoder import Encoding


class Inputs(NamedTuple):
    """Inputs of a recurrent decoder, computed from the target tokens."""

    embedded: tf.Tensor  # [B, Q, E] float: e(y_{i-1})
    projected: tf.Tensor  # [B, Q, projections · U] float: W e(y_{i-1}) + b of the cell that reads the word
    masks: StackMasks  # dropout between and inside the cells


class DecoderState(NamedTuple):
    """State of a recurrent decoder between two steps."""

    cell_states: tuple[Any, ...]  # one per cell, nests of [B, Q, U]
    position: tf.Tensor  # [B, Q] int32: number of tokens so far


class FeedingState(NamedTuple):
    """State of a recurrent decoder with input feeding."""

    cell_states: tuple[Any, ...]  # one per cell, nests of [B, Q, U]
    position: tf.Tensor  # [B, Q] int32: number of tokens so far
    attentional: tf.Tensor  # [B, Q, output_units] float: h~_{t-1}


class RecurrentDecoder(Decoder):
    """Base of the four recurrent decoders.

    Args:
        embedding, dropout_rate: See :class:`Decoder`; ``dropout_rate`` also applies between cells.
        stack: Stack of the cells. The first cell's context is c_i (attend then update, conditional) or h~_{t-1} (input
            feeding).
        bridge: Bridge that computes s_0.
        attention: Attention that computes c_i.
        output_layer: Layer that computes features and logits. With tied embeddings, its matrix is that of
            ``embedding``.
        recurrent_dropout_rate: Dropout rate of the state that a cell reads. All positions share one mask.
    """

    def __init__(
        self,
        *,
        stack: Stack,
        bridge: Bridge,
        attention: Attention,
        output_layer: OutputLayer,
        recurrent_dropout_rate: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.stack, self.bridge, self.attention, self.output_layer = stack, bridge, attention, output_layer
        self.recurrent_dropout_rate = recurrent_dropout_rate

    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """Returns the annotations, their keys for the attention, and C_o h_j for the output layer.

        A context is only ever multiplied by a matrix, and C_o c_i = SUM_j alpha_ij C_o h_j. So each matrix multiplies
        the annotations once per sentence, instead of the contexts at every step.
        """
        prepared = self.attention.prepare(weights.attention, encoding)
        memory = Memory(encoding.values, prepared, encoding.mask, encoding.lengths, encoding.states)
        if not self.attention.context_size:
            return memory
        values = self.attention.values(encoding)
        return memory._replace(output_values=self.output_layer.project_context(weights.output_layer, values))

    def output_context(self, attended: Attended, memory: Memory) -> tf.Tensor | None:
        """Returns C_o c_i; None without attention."""
        return None if memory.output_values is None else self.attention.context(attended, memory.output_values)

    def initial_state(self, memory: Memory) -> Any:
        """Returns s_0."""
        return DecoderState(self.bridge.states(self.stack, memory), tf.zeros_like(memory.lengths)[:, tf.newaxis])

    def inputs(self, weights: Weights, ids: tf.Tensor, randomness: Randomness | None = None) -> Inputs:
        """Returns e(y_{i-1}), W e(y_{i-1}) + b, and the dropout masks."""
        embedded = dropout(self.cast(tf.gather(weights.embedding, ids)), self.dropout_rate, randomness, "target")
        return Inputs(embedded, self._project(weights, embedded), self._draw_masks(embedded, randomness))

    def _project(self, weights: Weights, embedded: tf.Tensor) -> tf.Tensor:
        return self.stack.cells[0].project(weights.stack.cells[0], embedded)

    def _draw_masks(self, embedded: tf.Tensor, randomness: Randomness | None) -> StackMasks:
        if randomness is None:
            return StackMasks()
        batch, length = tf.shape(embedded)[0], embedded.shape[1] or tf.shape(embedded)[1]
        cells, name, dtype = self.stack.cells, self.stack.name, embedded.dtype
        inputs, states = (), ()
        if self.dropout_rate:
            shapes = [tf.stack([batch, length, cell.units]) for cell in cells[:-1]]
            inputs = tuple(
                draw_dropout_mask(shape, self.dropout_rate, randomness, f"{name} layer {number}", dtype)
                for number, shape in enumerate(shapes, 1)
            )
        if self.recurrent_dropout_rate:
            once = replace(randomness, position=0)
            shapes = [tf.stack([batch, 1, cell.units]) for cell in cells]
            masks = (
                draw_dropout_mask(shape, self.recurrent_dropout_rate, once, f"{name} state {number}", dtype)
                for number, shape in enumerate(shapes)
            )
            states = tuple(tf.repeat(mask, length, axis=1) for mask in masks)
        return StackMasks(inputs, states)


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauDecoder(RecurrentDecoder):
    """Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).

        alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(e(y_{i-1}), s_{i-1}, c_i)

    W e(y_{i-1}) is computed for all steps at once. C c_i = SUM_j alpha_ij C h_j is computed in the loop.

    Args:
        output_state: State that the output layer reads: "previous" for the appendix's s_{i-1}, "current" for the main
            text's s_i.
        options: See :class:`RecurrentDecoder`.
    """

    def __init__(self, *, output_state: str = "previous", **options: Any) -> None:
        super().__init__(**options)
        self.output_state = output_state

    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """See :class:`RecurrentDecoder`. Adds C h_j for the first cell."""
        memory = super().remember(weights, encoding)
        if not self.attention.context_size:
            return memory
        values = self.attention.values(encoding)
        return memory._replace(cell_values=self.stack.cells[0].project_context(weights.stack.cells[0], values))

    def advance(
        self, weights: Weights, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, Attended]]:
        """Computes alpha_i and C c_i, then s_i. The results are the output layer's state and alpha_i."""
        previous = self.stack.output(state.cell_states)
        attended = self.attention.attend(weights.attention, previous, state.position, memory)
        projected = x.projected
        if memory.cell_values is not None:
            projected += self.attention.context(attended, memory.cell_values)
        cell_states, current = self.stack.advance(weights.stack, projected, state.cell_states, x.masks)
        output_state = previous if self.output_state == "previous" else current
        return DecoderState(cell_states, state.position + 1), (output_state, attended)

    def features(
        self, weights: Weights, x: Inputs, results: tuple[tf.Tensor, Attended], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's features and the alignments."""
        state, attended = results
        context = self.output_context(attended, memory)
        features = self.output_layer.features(weights.output_layer, state, context, x.embedded)
        return features, self.attention.alignment(attended, memory)


@keras.saving.register_keras_serializable("nmt_keras")
class ConditionalDecoder(BahdanauDecoder):
    """Updates with the word, attends, then updates with the context: the conditional GRU (Sennrich et al. 2017).

        s'_i    = word_cell(e(y_{i-1}), s_{i-1})
        alpha_i = attention(s'_i, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(s'_i, c_i)

    (Nematus: a Toolkit for Neural Machine Translation, section 2.) The query s'_i depends on the word y_{i-1}; the
    query of :class:`BahdanauDecoder` does not. Differences from the paper: the cells can be of any kind, and with
    recurrent dropout, both have the same mask.

    Both cells belong to the first layer, and s_i is its state. Higher layers read s_i.

    Args:
        word_cell: Cell that reads the word. The stack's first cell continues from its state and reads the context.
        options: See :class:`RecurrentDecoder`.
    """

    computed_arguments = ("output_state",)

    def __init__(self, *, word_cell: Cell, **options: Any) -> None:
        super().__init__(output_state="current", **options)
        self.word_cell = word_cell

    def _project(self, weights: Weights, embedded: tf.Tensor) -> tf.Tensor:
        return self.word_cell.project(weights.word_cell, embedded)

    def advance(
        self, weights: Weights, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, Attended]]:
        """Computes s'_i, then alpha_i and C c_i, then s_i. The results are s_i and alpha_i."""
        first, *others = state.cell_states
        mask = x.masks.states[0] if x.masks.states else None
        between = self.word_cell.advance(weights.word_cell, x.projected, first, mask)
        attended = self.attention.attend(weights.attention, self.word_cell.output(between), state.position, memory)
        projected = weights.stack.cells[0].bias + self.attention.context(attended, memory.cell_values)
        cell_states, current = self.stack.advance(weights.stack, projected, (between, *others), x.masks)
        return DecoderState(cell_states, state.position + 1), (current, attended)


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
        """Computes h_t. The results are h_t and its position."""
        cell_states, top = self.stack.advance(weights.stack, x.projected, state.cell_states, x.masks)
        return DecoderState(cell_states, state.position + 1), (top, state.position)

    def features(
        self, weights: Weights, x: Inputs, results: tuple[tf.Tensor, tf.Tensor], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes a_t and h~_t. Returns h~_t and the alignments."""
        states, positions = results
        attended = self.attention.attend(weights.attention, states, positions, memory)
        context = self.output_context(attended, memory)
        features = self.output_layer.features(weights.output_layer, states, context, x.embedded)
        return features, self.attention.alignment(attended, memory)

    @property
    def reads_fused(self) -> bool:
        """True if one cuDNN operation computes all positions of a layer in training."""
        fits = all(can_fuse(cell) and cell.input_size for cell in self.stack.cells)
        return self.use_cudnn and fits and not self.recurrent_dropout_rate

    def _teacher_forcing(
        self, weights: Weights, ids: tf.Tensor, memory: Memory, randomness: Randomness | None
    ) -> DecoderOutput:
        if not self.reads_fused or randomness is None:
            return super()._teacher_forcing(weights, ids, memory, randomness)
        x = self.inputs(weights, ids, randomness)
        states = read_stack(self.stack, x.embedded, self.initial_state(memory).cell_states, x.masks)
        positions = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])
        return self.output(weights, x, (states, positions), memory, randomness)


@keras.saving.register_keras_serializable("nmt_keras")
class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder with input feeding: h_t = cells([e(y_{t-1}) ; h~_{t-1}], h_{t-1}), h~_0 = 0.

    (Luong, Pham, Manning 2015, section 3.3.) Attention and the output layer's features are computed in the loop.

    Args: See :class:`RecurrentDecoder`.
    """

    def initial_state(self, memory: Memory) -> FeedingState:
        """Returns s_0, and h~_0 = 0."""
        cell_states, position = super().initial_state(memory)
        zeros = tf.zeros([tf.shape(position)[0], 1, self.output_layer.feature_size], self.compute_dtype)
        return FeedingState(cell_states, position, zeros)

    def advance(
        self, weights: Weights, x: Inputs, state: FeedingState, memory: Memory
    ) -> tuple[FeedingState, tuple[tf.Tensor, Attended]]:
        """Computes h_t, then a_t, then h~_t. The results are h~_t and a_t."""
        fed = self.stack.cells[0].project_context(weights.stack.cells[0], state.attentional)
        cell_states, top = self.stack.advance(weights.stack, x.projected + fed, state.cell_states, x.masks)
        attended = self.attention.attend(weights.attention, top, state.position, memory)
        context = self.output_context(attended, memory)
        attentional = self.output_layer.features(weights.output_layer, top, context, x.embedded)
        return FeedingState(cell_states, state.position + 1, attentional), (attentional, attended)

    def features(
        self, weights: Weights, x: Inputs, results: tuple[tf.Tensor, Attended], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns h~_t and the alignments."""
        attentional, attended = results
        return attentional, self.attention.alignment(attended, memory)
