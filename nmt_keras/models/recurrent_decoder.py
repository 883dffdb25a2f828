"""Recurrent decoders: attend then update, conditional, update then attend, and input feeding."""

from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import require_choice
from nmt_keras.layers.attention import Attention, AttentionWeights
from nmt_keras.layers.base import Shape, serialize
from nmt_keras.layers.bridges import Bridge, DenseBridge
from nmt_keras.layers.cells import CELLS, CellState
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout
from nmt_keras.layers.memory import Encoding, Memory
from nmt_keras.layers.output import AttentionalOutput, MaxoutOutput, OutputLayer, StateOutput
from nmt_keras.layers.stack import StackedCells, StackMasks
from nmt_keras.models.decoder import BaseDecoder


class Inputs(NamedTuple):
    """Inputs of a recurrent decoder, computed from the target tokens."""

    embedded: tf.Tensor  # [B, Q, E] float: e(y_{i-1})
    projected: tf.Tensor  # [B, Q, projections · U] float: W e(y_{i-1}) + b of the cell that reads the word
    masks: StackMasks  # dropout between and inside the cells


class DecoderState(NamedTuple):
    """State of a recurrent decoder between two steps."""

    cell_states: tuple[CellState, ...]  # one per cell, nests of [B, Q, U]
    position: tf.Tensor  # [B, Q] int32: number of tokens so far
    attentional: tf.Tensor | tuple[()] = ()  # [B, Q, output_units] float: h~_{t-1}, for input feeding


class RecurrentDecoder(BaseDecoder):
    """Base of the four recurrent decoders.

    Args:
        units: U, state size of each layer.
        attention: Attention that computes c_i.
        cell: Name in ``cells.CELLS``.
        reads_words: If True, the cells read the embedding of the previous token.
        bridge: Bridge that computes s_0; None for a :class:`DenseBridge`.
        output_layer: Layer that computes features and logits; None for the class's default. With tied embeddings, its
            matrix is that of the embedding.
        dropout_rate: Dropout rate of the embeddings and between layers.
        recurrent_dropout_rate: Dropout rate of the state that a cell reads. All positions share one mask.
        initializer: Scheme of the initial weights of the layers that the decoder makes.
        kwargs: See :class:`BaseDecoder`.
    """

    cell_reads_context = False
    """If True, the first cell reads c_i."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        units: int,
        attention: Attention,
        cell: str = "gru",
        layers: int = 1,
        reads_words: bool = True,
        bridge: Bridge | None = None,
        output_layer: OutputLayer | None = None,
        recurrent_dropout_rate: float = 0.0,
        initializer: str = "glorot",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size=vocabulary_size,
            units=units,
            layers=layers,
            output_layer=output_layer or self.default_output_layer(vocabulary_size, units, initializer),
            initializer=initializer,
            **kwargs,
        )
        require_choice("cell", tuple(CELLS), cell)
        if not isinstance(attention, Attention):
            raise TypeError(
                "attention: expected a layer of nmt_keras.layers.attention, such as BahdanauAttention(units), received "
                f"{attention!r}."
            )
        self.cell, self.reads_words = cell, reads_words
        self.recurrent_dropout_rate = recurrent_dropout_rate
        cells = [
            CELLS[cell](units, initializer=initializer, dtype=self.dtype_policy.name, name=f"cell_{i}")
            for i in range(layers)
        ]
        self.stack = StackedCells(cells, dtype=self.dtype_policy.name, name="stack")
        self.bridge = bridge or DenseBridge(
            units, layers=layers, initializer=initializer, dtype=self.dtype_policy.name, name="bridge"
        )
        self.attention = attention

    @staticmethod
    def default_output_layer(vocabulary_size: int, units: int, initializer: str) -> OutputLayer:
        """Returns a deep output with U / 2 maxout units, as in Bahdanau et al. 2014."""
        units = max(1, units // 2)
        return MaxoutOutput(vocabulary_size, units=units, initializer=initializer, name="output_layer")

    def build(self, ids_shape: Shape, encoding_shape: Encoding) -> None:
        """Builds all layers; see :class:`BaseDecoder`."""
        super().build(ids_shape, encoding_shape)
        states, words = (None, None, self.units), (None, None, self.embedding_size)
        contexts = (None, None, self.attention.context_size(encoding_shape))
        self.has_context = contexts[-1] > 0
        if not self.attention.built:
            self.attention.build(states, encoding_shape.values)
        if not self.bridge.built:
            self.bridge.build(encoding_shape)
        if not self.output_layer.built:
            self.output_layer.build(states, contexts, words)
        self.build_cells(words if self.reads_words else None, contexts if self.has_context else None)

    def build_cells(self, words_shape: Shape | None, contexts_shape: Shape | None) -> None:
        """Builds the cells. A shape is None if there are no words or no contexts."""
        self.stack.build(words_shape, contexts_shape if self.cell_reads_context else None)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        names = ("cell", "reads_words", "recurrent_dropout_rate")
        layers = {name: serialize(getattr(self, name)) for name in ("attention", "bridge")}
        return {**super().get_config(), **{name: getattr(self, name) for name in names}, **layers}

    def setup_memory(self, encoding: Encoding) -> Memory:
        """Returns the annotations, their keys for the attention, and the annotations multiplied by C and C_o.

        The papers multiply c_i = SUM_j alpha_ij h_j by C in the cell and by C_o in the output layer. Here, C and C_o
        multiply the annotations, once per sentence: C c_i = SUM_j alpha_ij (C h_j). docs/speed-history.md has the
        gain.
        """
        memory = Memory(*encoding, self.attention.keys(encoding))
        if not self.has_context:
            return memory
        values = self.attention.values(encoding)
        return memory._replace(
            cell_values=self.stack.cells[0].project_context(values) if self.cell_reads_context else None,
            output_values=self.output_layer.project_context(values),
        )

    def initial_state(self, memory: Memory) -> DecoderState:
        """Returns s_0."""
        return DecoderState(self.bridge.states(self.stack, memory), tf.zeros_like(memory.lengths)[:, tf.newaxis])

    def inputs(self, ids: tf.Tensor, randomness: Randomness | None = None) -> Inputs:
        """Returns e(y_{i-1}), W e(y_{i-1}) + b, and the dropout masks."""
        embedded = dropout(self.embedding(ids), self.dropout_rate, randomness, "target")
        return Inputs(embedded, self._project(embedded), self._draw_masks(embedded, randomness))

    def _project(self, embedded: tf.Tensor) -> tf.Tensor:
        return self.stack.cells[0].project(embedded)

    def _draw_masks(self, embedded: tf.Tensor, randomness: Randomness | None) -> StackMasks:
        batch, length = tf.shape(embedded)[0], keras.ops.shape(embedded)[1]
        once = randomness and replace(randomness, position=0)  # the same mask at all positions

        def draw(positions: int | tf.Tensor, rate: float, source: Randomness | None, name: str) -> tf.Tensor | None:
            shape = tf.stack([batch, positions, self.units])
            return draw_dropout_mask(shape, rate, source, f"{self.stack.name} {name}", embedded.dtype)

        inputs = [draw(length, self.dropout_rate, randomness, f"layer {n}") for n in range(1, self.depth)]
        states = [draw(1, self.recurrent_dropout_rate, once, f"state {n}") for n in range(self.depth)]
        states = [mask if mask is None else tf.repeat(mask, length, axis=1) for mask in states]
        return StackMasks(tuple(inputs), tuple(states))


@keras.saving.register_keras_serializable("nmt_keras")
class Decoder(RecurrentDecoder):
    """Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).

        alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(e(y_{i-1}), s_{i-1}, c_i)

    W e(y_{i-1}) is computed for all steps at once.

    Args:
        output_state: State that the output layer reads: "previous" for the appendix's s_{i-1}, "current" for the main
            text's s_i. None for "current" if the output layer reads the state alone, else for "previous".
        kwargs: See :class:`RecurrentDecoder`.
    """

    cell_reads_context = True

    def __init__(self, *, output_state: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # s_{i-1} alone depends on neither y_{i-1} nor c_i
        states = ("current",) if isinstance(self.output_layer, StateOutput) else ("previous", "current")
        self.output_state = states[0] if output_state is None else output_state
        require_choice("output_state", states, self.output_state)

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "output_state": self.output_state}

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, AttentionWeights]]:
        """Computes alpha_i, c_i and s_i. The results are the output layer's state and alpha_i."""
        previous = self.stack.output(state.cell_states)  # s_{i-1}
        weights = self.attention.attend(previous, state.position, memory)  # alpha_i
        context = self.attention.context(weights, memory.cell_values)  # C c_i
        cell_states, current = self.stack.advance(x.projected, state.cell_states, x.masks, context)  # s_i
        output_state = previous if self.output_state == "previous" else current
        return DecoderState(cell_states, state.position + 1), (output_state, weights)

    def features(
        self, x: Inputs, results: tuple[tf.Tensor, AttentionWeights], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's features and the alignments."""
        state, weights = results
        context = self.attention.context(weights, memory.output_values)  # C_o c_i
        features = self.output_layer.features(state, context, x.embedded)
        return features, self.attention.alignment(weights, memory)


@keras.saving.register_keras_serializable("nmt_keras")
class ConditionalDecoder(Decoder):
    """Updates with the word, attends, then updates with the context: the conditional GRU (Sennrich et al. 2017).

        s'_i    = word_cell(e(y_{i-1}), s_{i-1})
        alpha_i = attention(s'_i, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(s'_i, c_i)

    (Nematus: a Toolkit for Neural Machine Translation, section 2.) The query s'_i depends on the word y_{i-1}; the
    query of :class:`Decoder` does not. Differences from the paper: the cells can be of any kind, and with
    recurrent dropout, both have the same mask.

    Both cells belong to the first layer, and s_i is its state. Higher layers read s_i.

    Args:
        output_state: "current": the output layer reads s_i.
        kwargs: See :class:`RecurrentDecoder`.
    """

    def __init__(self, *, output_state: str = "current", **kwargs: Any) -> None:
        require_choice("output_state", ("current",), output_state)
        super().__init__(output_state=output_state, **kwargs)
        self.word_cell = CELLS[self.cell](
            self.units, initializer=self.initializer, dtype=self.dtype_policy.name, name="word_cell"
        )

    def build_cells(self, words_shape: Shape | None, contexts_shape: Shape | None) -> None:
        """Builds the cell that reads the word, and the others, of which the first reads the context."""
        self.word_cell.build(words_shape)
        self.stack.build(None, contexts_shape)

    def _project(self, embedded: tf.Tensor) -> tf.Tensor:
        return self.word_cell.project(embedded)

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, AttentionWeights]]:
        """Computes s'_i, alpha_i, c_i and s_i. The results are s_i and alpha_i."""
        first, *others = state.cell_states
        intermediate = self.word_cell.advance(x.projected, first, x.masks.states[0])  # s'_i
        weights = self.attention.attend(self.word_cell.output(intermediate), state.position, memory)  # alpha_i
        context = self.attention.context(weights, memory.cell_values)  # C c_i
        bias = tf.cast(self.stack.cells[0].bias, self.compute_dtype)
        cell_states, current = self.stack.advance(bias, (intermediate, *others), x.masks, context)  # s_i
        return DecoderState(cell_states, state.position + 1), (current, weights)


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

    @staticmethod
    def default_output_layer(vocabulary_size: int, units: int, initializer: str) -> OutputLayer:
        """Returns a layer with h~_t of width U."""
        return AttentionalOutput(vocabulary_size, units=units, initializer=initializer, name="output_layer")

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, tf.Tensor]]:
        """Computes h_t. The results are h_t and its position."""
        cell_states, top = self.stack.advance(x.projected, state.cell_states, x.masks)
        return DecoderState(cell_states, state.position + 1), (top, state.position)

    def features(self, x: Inputs, results: tuple[tf.Tensor, tf.Tensor], memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes a_t and h~_t. Returns h~_t and the alignments."""
        states, positions = results
        weights = self.attention.attend(states, positions, memory)  # a_t
        context = self.attention.context(weights, memory.output_values)  # W_c's block of c_t
        features = self.output_layer.features(states, context, x.embedded)
        return features, self.attention.alignment(weights, memory)


@keras.saving.register_keras_serializable("nmt_keras")
class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder with input feeding: h_t = cells([e(y_{t-1}) ; h~_{t-1}], h_{t-1}), h~_0 = 0.

    (Luong, Pham, Manning 2015, section 3.3.) Attention and the output layer's features are computed in the loop.

    Args: See :class:`RecurrentDecoder`.
    """

    default_output_layer = staticmethod(LuongDecoder.default_output_layer)

    def build_cells(self, words_shape: Shape | None, contexts_shape: Shape | None) -> None:
        """Builds the cells, of which the first reads h~_{t-1}."""
        self.stack.build(words_shape, (None, None, self.output_layer.feature_size))

    def initial_state(self, memory: Memory) -> DecoderState:
        """Returns s_0, and h~_0 = 0."""
        state = super().initial_state(memory)
        zeros = tf.zeros([tf.shape(state.position)[0], 1, self.output_layer.feature_size], self.compute_dtype)
        return state._replace(attentional=zeros)

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, AttentionWeights]]:
        """Computes h_t, a_t, c_t and h~_t. The results are h~_t and a_t."""
        feeding = self.stack.cells[0].project_context(state.attentional)
        cell_states, top = self.stack.advance(x.projected, state.cell_states, x.masks, feeding)  # h_t
        weights = self.attention.attend(top, state.position, memory)  # a_t
        context = self.attention.context(weights, memory.output_values)  # c_t, times its block of W_c
        attentional = self.output_layer.features(top, context, x.embedded)  # h~_t
        return DecoderState(cell_states, state.position + 1, attentional), (attentional, weights)

    def features(
        self, x: Inputs, results: tuple[tf.Tensor, AttentionWeights], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns h~_t and the alignments."""
        attentional, weights = results
        return attentional, self.attention.alignment(weights, memory)
