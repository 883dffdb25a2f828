"""Recurrent decoders: the papers' two orders of attending and updating."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.attention import Attended, Attention
from nmt_keras.layers.bridges import Bridge
from nmt_keras.layers.cudnn import can_fuse, read_stack
from nmt_keras.layers.dropout import Randomness, dropout
from nmt_keras.layers.memory import CachedProjections, Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.stack import Masks, Stack
from nmt_keras.models.decoder import Decoder, DecoderOutput, Hidden
from nmt_keras.models.encoder import Encoding


class Inputs(NamedTuple):
    """Target tokens as a recurrent decoder takes them."""

    embedded: tf.Tensor  # [B, T, E] float: e(y_{i-1})
    projected: tf.Tensor  # [B, T, parts · U] float: the first cell's product with it
    masks: Masks  # dropout inside the stack


class DecoderState(NamedTuple):
    """What a recurrent decoder carries from step to step."""

    states: tuple[Any, ...]  # of each cell, nests of [B, Q, U]
    step: tf.Tensor  # [B, Q] int32: tokens written so far
    fed: Any  # [B, Q, output_units] float: the last attentional vector, under input feeding; else ()


class Emission(NamedTuple):
    """What one step of a recurrent decoder leaves for the output layer."""

    state: tf.Tensor  # [B, Q, U] float: the top state that the output layer sees
    attended: Any  # Attended, or () where attention waits for all states
    step: tf.Tensor  # [B, Q] int32: the target position, from 0


class RecurrentDecoder(Decoder):
    """What the two orders share: embedding, stack, start, attention, output layer.

    Args:
        embedding: of the target tokens, [V, E].
        stack: the cells; the first has the size of the context, or of the fed vector, as its context, and none as its
            input if it reads no words.
        bridge: gives s_0.
        attention: see ``attention.Attention``.
        output_layer: the output layer; one that is tied gets this decoder's embedding.
        dropout: probability of dropping an entry of the embeddings, in training.
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
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.embedding, self.stack, self.bridge = embedding, stack, bridge
        self.attention, self.output_layer = attention, output_layer
        self.dropout = dropout

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        if not self.embedding.built:
            self.embedding.build()
        super().build(input_shape)

    def remember(self, encoding: Encoding) -> Memory:
        """The annotations, and what the attention computes of them once."""
        return Memory(encoding.values, self.attention.keys(encoding), encoding.mask, encoding.lengths, encoding.states)

    def prepare(self, memory: Memory) -> Memory:
        """With the CachedProjections of the annotations: the products that contexts enter, taken once for a sentence.

        Training does not use them: it reads one hypothesis per sentence, and the projections are wider than the
        annotations, which every step would have to weigh.
        """
        return memory._replace(projections=self.attention.read(memory, self._read))

    def _read(self, annotations: tf.Tensor) -> CachedProjections:
        """What cell and output layer make of annotations [B, S, D]."""
        return CachedProjections((), self.output_layer.project_context(annotations))

    def initial_state(self, memory: Memory) -> DecoderState:
        """s_0, at position 0."""
        states = self.bridge.states(self.stack, memory)
        return DecoderState(states, tf.zeros([tf.shape(memory.lengths)[0], 1], tf.int32), ())

    def inputs(self, ids: tf.Tensor, randomness: Randomness | None = None) -> Inputs:
        """e(y_{i-1}) and W e(y_{i-1}) + b."""
        embedded = dropout(
            self.cast(tf.gather(self.value(self.embedding.embeddings), ids)), self.dropout, randomness, "target"
        )
        return Inputs(embedded, self.stack.cells[0].project(embedded), self.stack.masks(embedded, randomness))


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauDecoder(RecurrentDecoder):
    """Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).

        alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(e(y_{i-1}), s_{i-1}, c_i)

    W e(y_{i-1}) is taken for all steps at once, C c_i in the loop.

    Args:
        output_state: "previous" for the appendix's s_{i-1}, "current" for the main text's s_i.
        others: see :class:`RecurrentDecoder`.
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
        **options: Any,
    ) -> None:
        super().__init__(
            embedding=embedding,
            stack=stack,
            bridge=bridge,
            attention=attention,
            output_layer=output_layer,
            dropout=dropout,
            **options,
        )
        self.output_state = output_state

    def _read(self, annotations: tf.Tensor) -> CachedProjections:
        """C h_j, and what the output layer makes of h_j."""
        return super()._read(annotations)._replace(cell=self.stack.cells[0].project_context(annotations))

    def advance(self, x: Inputs, state: DecoderState, memory: Memory) -> tuple[DecoderState, Emission]:
        """alpha_i, c_i, then s_i."""
        previous = self.stack.output(state.states)
        attended = self.attention.attend(previous, state.step, memory)
        projected = x.projected
        if self.attention.context_size:
            projected = self.stack.cells[0].contextualise(projected, attended.context)
        states, current = self.stack.advance(projected, state.states, x.masks)
        seen = previous if self.output_state == "previous" else current
        return DecoderState(states, state.step + 1, ()), Emission(seen, attended, state.step)

    def hidden(self, x: Inputs, emissions: Emission, memory: Memory) -> Hidden:
        """The output layer's hidden values of state, context and embedding."""
        attended = emissions.attended
        values = self.output_layer.hidden(emissions.state, attended.context, x.embedded)
        return Hidden(values, self.attention.alignment(attended, memory))


@keras.saving.register_keras_serializable("nmt_keras")
class LuongDecoder(RecurrentDecoder):
    """Updates, then attends with h_t (Luong, Pham, Manning 2015, section 3).

        h_t  = cells(e(y_{t-1}), h_{t-1})                 with input feeding cells([e(y_{t-1}) ; h~_{t-1}], h_{t-1})
        a_t  = attention(h_t, h)                          c_t = SUM_s a_ts h_s
        h~_t = tanh(W_c [c_t ; h_t])                      the output layer

    Nothing in the loop depends on a_t unless it is fed: without input feeding, attention is taken for all steps at
    once, after the loop. With it, h~_0 is 0.

    Args:
        input_feeding: input feeding (section 3.3).
        fused: whether teacher forcing without input feeding reads each layer with one operation where its cell allows,
            instead of a loop: the same numbers, by cuDNN where there is a GPU. Not for XLA, nor for exports.
        others: see :class:`RecurrentDecoder`.
    """

    def __init__(
        self,
        *,
        embedding: keras.layers.Embedding,
        stack: Stack,
        bridge: Bridge,
        attention: Attention,
        output_layer: OutputLayer,
        input_feeding: bool = False,
        dropout: float = 0.0,
        fused: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            embedding=embedding,
            stack=stack,
            bridge=bridge,
            attention=attention,
            output_layer=output_layer,
            dropout=dropout,
            **options,
        )
        self.input_feeding, self.fused = input_feeding, fused

    @property
    def trains_fused(self) -> bool:
        """Whether teacher forcing reads whole sentences with one operation, as cuDNN has it, in training."""
        return self._fuses and not self.stack.recurrent_dropout

    @property
    def _fuses(self) -> bool:
        """Whether it does where nothing is dropped."""
        fits = all(can_fuse(cell) and cell.input_size for cell in self.stack.cells)
        return self.fused and fits and not self.input_feeding

    def call(self, ids: tf.Tensor, encoding: Encoding, randomness: Randomness | None = None) -> DecoderOutput:
        """See :class:`Decoder`."""
        dropping = randomness is not None and self.stack.recurrent_dropout > 0.0
        if not self._fuses or dropping:
            return super().call(ids, encoding, randomness)
        memory = self.remember(encoding)
        x, first = self.inputs(ids, randomness), self.initial_state(memory)
        steps = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])
        states = read_stack(self.stack, x.embedded, first.states, x.masks)
        return self.output(x, Emission(states, (), steps), memory, randomness)

    def initial_state(self, memory: Memory) -> DecoderState:
        """The first states, and h~_0 = 0."""
        state = super().initial_state(memory)
        if not self.input_feeding:
            return state
        return state._replace(fed=tf.zeros([tf.shape(state.step)[0], 1, self.output_layer.units], self.compute_dtype))

    def advance(self, x: Inputs, state: DecoderState, memory: Memory) -> tuple[DecoderState, Emission]:
        """h_t; with input feeding a_t, c_t and h~_t as well."""
        if not self.input_feeding:
            states, hidden = self.stack.advance(x.projected, state.states, x.masks)
            return DecoderState(states, state.step + 1, ()), Emission(hidden, (), state.step)
        projected = self.stack.cells[0].contextualise(x.projected, state.fed)
        states, hidden = self.stack.advance(projected, state.states, x.masks)
        attended = self.attention.attend(hidden, state.step, memory)
        attentional = self.output_layer.hidden(hidden, attended.context, x.embedded)
        return DecoderState(states, state.step + 1, attentional), Emission(attentional, attended, state.step)

    def hidden(self, x: Inputs, emissions: Emission, memory: Memory) -> Hidden:
        """The attentional vectors; without input feeding, attention first."""
        if self.input_feeding:
            return Hidden(emissions.state, self.attention.alignment(emissions.attended, memory))
        attended: Attended = self.attention.attend(emissions.state, emissions.step, memory)
        values = self.output_layer.hidden(emissions.state, attended.context, x.embedded)
        return Hidden(values, self.attention.alignment(attended, memory))
