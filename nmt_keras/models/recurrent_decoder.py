"""Recurrent decoders: attend then update, conditional, update then attend, and input feeding."""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import require, require_choice
from nmt_keras.layers.attention import Attention, AttentionWeights, NoAttention
from nmt_keras.layers.base import InitializerLike, Shape, require_layer
from nmt_keras.layers.bridges import Bridge, DenseBridge
from nmt_keras.layers.cells import CellState, new_cell
from nmt_keras.layers.context import products
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout, require_rates
from nmt_keras.layers.memory import Encoding, Memory, shape_of_encoding
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
        vocabulary_size: V of the target.
        embedding_size: E.
        units: U, state size of each layer.
        attention: Attention that computes c_i.
        output_state: State that the output layer reads, "previous" or "current"; None for the class's default.
        cell: "tanh", "gru", "gru-reset-after", "gru-layer-norm", "lstm", or a name given to ``nmt_keras.register``.
        num_layers: Number of layers.
        reads_words: If True, the cells read the embedding of the previous token.
        bridge: Bridge that computes s_0; None for a :class:`DenseBridge`.
        output_layer: Layer that computes features and logits; None for the class's default. With tied embeddings, its
            matrix is that of the embedding.
        dropout: Dropout rate of the embeddings and between layers.
        output_dropout: Dropout rate of the features; ``None`` for ``dropout``.
        recurrent_dropout: Dropout rate of the state that a cell reads. All positions share one mask.
        embeddings_initializer, kernel_initializer, recurrent_initializer, bias_initializer: Initializers of the
            layers that the decoder makes; see :class:`BaseDecoder` and ``Cell``.
    """

    cell_reads_context: ClassVar[bool] = False
    """If True, the first cell reads c_i."""

    has_word_cell: ClassVar[bool] = False
    """If True, ``word_cell`` reads the word, before the attention."""

    output_states: ClassVar[tuple[str, ...]] = ("current",)
    """States that the output layer can read; the first is the default."""

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        *,
        attention: Attention,
        output_state: str | None = None,
        cell: str = "gru",
        num_layers: int = 1,
        reads_words: bool = True,
        bridge: Bridge | None = None,
        output_layer: OutputLayer | None = None,
        dropout: float = 0.0,
        output_dropout: float | None = None,
        recurrent_dropout: float = 0.0,
        embeddings_initializer: InitializerLike = "uniform",
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        dense: dict[str, Any] = {
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer or "zeros",
            "dtype": kwargs.get("dtype"),
        }
        if output_layer is None and isinstance(attention, NoAttention):  # no context to read
            output_layer = StateOutput(vocabulary_size, **dense, name="output_layer")
        super().__init__(
            vocabulary_size,
            embedding_size,
            units,
            output_layer=output_layer or self.default_output_layer(vocabulary_size, units, **dense),
            num_layers=num_layers,
            dropout=dropout,
            output_dropout=output_dropout,
            embeddings_initializer=embeddings_initializer,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            **kwargs,
        )
        require_layer("attention", attention, Attention, "BahdanauAttention(units)")
        require_rates(recurrent_dropout=recurrent_dropout)
        self.cell, self.reads_words, self.recurrent_dropout = cell, reads_words, recurrent_dropout
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        cells = [new_cell(self, f"cell_{i}") for i in range(num_layers)]
        self.stack = StackedCells(cells, dtype=self.dtype_policy, name="stack")
        self.bridge = bridge or DenseBridge(units, num_layers, **dense, name="bridge")
        require_layer("bridge", self.bridge, Bridge, "DenseBridge(units, num_layers)")
        self.attention = attention
        if self.has_word_cell:
            self.word_cell = new_cell(self, "word_cell")
        # the previous state alone depends on neither the previous word nor its context
        states = ("current",) if isinstance(self.output_layer, StateOutput) else self.output_states
        self.output_state = states[0] if output_state is None else output_state
        require_choice("output_state", states, self.output_state)

    @staticmethod
    def default_output_layer(vocabulary_size: int, units: int, **kwargs: Any) -> OutputLayer:
        """Returns a deep output with U / 2 maxout units, as in Bahdanau et al. 2014."""
        return MaxoutOutput(vocabulary_size, max(1, units // 2), **kwargs, name="output_layer")

    def build(self, ids_shape: Shape, encoding_shape: Encoding | Shape) -> None:
        """Builds all layers; see :class:`BaseDecoder`."""
        super().build(ids_shape, encoding_shape)
        encoding = shape_of_encoding(encoding_shape)
        states, words = (None, None, self.units), (None, None, self.embedding_size)
        width = self.attention.context_size(encoding)
        contexts = (None, None, width) if width else None
        if not self.attention.built:
            self.attention.build(states, encoding.values)
        if not self.bridge.built:
            self.bridge.build(encoding)
        if not self.output_layer.built:
            self.output_layer.build(states, contexts, words)
        self.build_cells(words if self.reads_words else None, contexts)

    def build_cells(self, words_shape: Shape | None, contexts_shape: Shape | None) -> None:
        """Builds the cells. A shape is None if there are no words or no contexts."""
        self.stack.build(words_shape, contexts_shape if self.cell_reads_context else None)

    def setup_memory(self, encoding: Encoding) -> Memory:
        """Returns the annotations, and their keys for the attention."""
        memory = Memory(self.cast(encoding.values), *encoding[1:], self.attention.keys(encoding))
        readers = [self.stack.cells[0], self.output_layer] if self.cell_reads_context else [self.output_layer]
        return memory._replace(products=products(self.attention.vectors(memory), readers))

    def initial_state(self, memory: Memory) -> DecoderState:
        """Returns s_0."""
        states, cells = self.bridge.states(memory), self.stack.cells
        require(len(states) == len(cells), "bridge", f"states of {len(cells)} layers", len(states))
        initial, hint = [], "The bridge needs the decoder's units and kind of cell."
        for cell, state in zip(cells, states, strict=True):
            tensors = [each[:, tf.newaxis] for each in tf.nest.flatten(state)]
            sizes, widths = tf.nest.flatten(cell.state_size), [each.shape[-1] for each in tensors]
            require(widths == sizes[: len(widths)], "bridge", f"states of widths {sizes}", widths, hint)
            initial.append(cell.state_of(*tensors))
        return DecoderState(tuple(initial), tf.zeros_like(memory.lengths)[:, tf.newaxis])

    def embed(self, ids: tf.Tensor, randomness: Randomness | None = None) -> Inputs:
        """Returns e(y_{i-1}), W e(y_{i-1}) + b, and the dropout masks."""
        embedded = dropout(self.embedding(ids), self.dropout, randomness, "target")
        reader = self.word_cell if self.has_word_cell else self.stack.cells[0]
        return Inputs(embedded, reader.project(embedded), self._draw_masks(embedded, randomness))

    def _draw_masks(self, embedded: tf.Tensor, randomness: Randomness | None) -> StackMasks:
        batch, length = tf.shape(embedded)[0], keras.ops.shape(embedded)[1]
        once = randomness and replace(randomness, position=0)  # the same mask at all positions

        def draw(positions: int | tf.Tensor, rate: float, source: Randomness | None, name: str) -> tf.Tensor | None:
            shape = tf.stack([batch, positions, self.units])
            return draw_dropout_mask(shape, rate, source, f"{self.stack.name} {name}", embedded.dtype)

        inputs = [draw(length, self.dropout, randomness, f"layer {n}") for n in range(1, self.num_layers)]
        states = [draw(1, self.recurrent_dropout, once, f"state {n}") for n in range(self.num_layers)]
        states = [mask if mask is None else tf.repeat(mask, length, axis=1) for mask in states]
        return StackMasks(tuple(inputs), tuple(states))

    def features(
        self, x: Inputs, results: tuple[tf.Tensor, AttentionWeights], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's features and the alignments."""
        state, weights = results
        context = self.attention.context(weights, memory)  # c_i
        features = self.output_layer.features(state, context, x.embedded)
        return features, self.attention.alignment(weights, memory)


@keras.saving.register_keras_serializable("nmt_keras")
class Decoder(RecurrentDecoder):
    """Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).

        alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
        s_i     = cell(e(y_{i-1}), s_{i-1}, c_i)

    W e(y_{i-1}) is computed for all steps at once.

    The output layer reads "previous", the appendix's s_{i-1}, or "current", the main text's s_i.

    Args: See :class:`RecurrentDecoder`.

    Example:
        >>> encoder, decoder = Encoder(100, 16, 8), Decoder(90, 16, 8, attention=BahdanauAttention(8))
        >>> decoder(tf.constant([[2, 5, 6]]), encoder(tf.constant([[5, 6, 7, 3]]))).logits.shape
        TensorShape([1, 3, 90])
        >>> pixels = tf.ones([1, 49, 32])  # any annotations
        >>> Decoder(90, 16, 8, attention=BahdanauAttention(8))(tf.constant([[2, 5, 6]]), pixels).alignment.shape
        TensorShape([1, 3, 49])
    """

    cell_reads_context = True
    output_states: ClassVar[tuple[str, ...]] = ("previous", "current")

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, AttentionWeights]]:
        """Computes alpha_i, c_i and s_i. The results are the output layer's state and alpha_i."""
        previous = self.stack.output_of(state.cell_states)  # s_{i-1}
        weights = self.attention.attend(previous, state.position, memory)  # alpha_i
        context = self.attention.context(weights, memory)  # c_i
        cell_states, current = self.stack.advance(x.projected, state.cell_states, x.masks, context)  # s_i
        output_state = previous if self.output_state == "previous" else current
        return DecoderState(cell_states, state.position + 1), (output_state, weights)


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

    Args: See :class:`RecurrentDecoder`.

    Example:
        >>> decoder = ConditionalDecoder(90, 16, 8, attention=BahdanauAttention(8))
        >>> decoder(tf.constant([[2, 5, 6]]), tf.ones([1, 4, 16])).logits.shape
        TensorShape([1, 3, 90])
    """

    has_word_cell = True
    output_states = ("current",)

    def build_cells(self, words_shape: Shape | None, contexts_shape: Shape | None) -> None:
        """Builds the cell that reads the word, and the others, of which the first reads the context."""
        self.word_cell.build(words_shape)
        self.stack.build(None, contexts_shape)

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, AttentionWeights]]:
        """Computes s'_i, alpha_i, c_i and s_i. The results are s_i and alpha_i."""
        first, *others = state.cell_states
        intermediate = self.word_cell.advance(x.projected, first, x.masks.states[0])  # s'_i
        weights = self.attention.attend(self.word_cell.output_of(intermediate), state.position, memory)  # alpha_i
        context = self.attention.context(weights, memory)  # c_i
        bias = self.stack.cells[0].cast(self.stack.cells[0].bias)
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

    Example:
        >>> decoder = LuongDecoder(90, 16, 8, attention=GlobalAttention(GeneralScore()))
        >>> decoder(tf.constant([[2, 5, 6]]), tf.ones([1, 4, 16])).logits.shape
        TensorShape([1, 3, 90])
    """

    @staticmethod
    def default_output_layer(vocabulary_size: int, units: int, **kwargs: Any) -> OutputLayer:
        """Returns a layer with h~_t of width U."""
        return AttentionalOutput(vocabulary_size, units, **kwargs, name="output_layer")

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
        return super().features(x, (states, weights), memory)


@keras.saving.register_keras_serializable("nmt_keras")
class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder with input feeding: h_t = cells([e(y_{t-1}) ; h~_{t-1}], h_{t-1}), h~_0 = 0.

    (Luong, Pham, Manning 2015, section 3.3.) Attention and the output layer's features are computed in the loop.

    Args: See :class:`RecurrentDecoder`.

    Example:
        >>> decoder = InputFeedingDecoder(90, 16, 8, attention=GlobalAttention(GeneralScore()))
        >>> decoder(tf.constant([[2, 5, 6]]), tf.ones([1, 4, 16])).logits.shape
        TensorShape([1, 3, 90])
    """

    default_output_layer = staticmethod(LuongDecoder.default_output_layer)

    def build_cells(self, words_shape: Shape | None, contexts_shape: Shape | None) -> None:
        """Builds the cells, of which the first reads h~_{t-1}."""
        self.stack.build(words_shape, (None, None, self.output_layer.feature_size))

    def initial_state(self, memory: Memory) -> DecoderState:
        """Returns s_0, and h~_0 = 0."""
        state = super().initial_state(memory)
        shape = [tf.shape(state.position)[0], 1, self.output_layer.feature_size]
        zeros = tf.zeros(shape, self.output_layer.compute_dtype)
        return state._replace(attentional=zeros)

    def advance(
        self, x: Inputs, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, tuple[tf.Tensor, AttentionWeights]]:
        """Computes h_t, a_t, c_t and h~_t. The results are h~_t and a_t."""
        cell_states, top = self.stack.advance(x.projected, state.cell_states, x.masks, state.attentional)  # h_t
        weights = self.attention.attend(top, state.position, memory)  # a_t
        context = self.attention.context(weights, memory)  # c_t
        attentional = self.output_layer.features(top, context, x.embedded)  # h~_t
        return DecoderState(cell_states, state.position + 1, attentional), (attentional, weights)

    def features(
        self, x: Inputs, results: tuple[tf.Tensor, AttentionWeights], memory: Memory
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns h~_t and the alignments."""
        attentional, weights = results
        return attentional, self.attention.alignment(weights, memory)
