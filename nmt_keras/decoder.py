"""The decoder: one contract for teacher forcing and search, and Bahdanau's order of attending, then updating.

Teacher forcing and search are the same equations because they are made of the same parts. ``inputs`` and ``readout``
have no dependence on the previous step and so stand outside the loop; their middle axis is T in training and Q in
search.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.attention import BahdanauAttention, Memory, context
from nmt_keras.cells import GRUCell, Noise, Part, dropout, product, scan
from nmt_keras.encoder import Encoding


class Output(NamedTuple):
    """What a decoder says of every target position."""

    logits: tf.Tensor  # [B, T, V] float
    alignment: tf.Tensor  # [B, T, S] float: each row sums to 1


class Step(NamedTuple):
    """What a decoder says of the next token of every hypothesis."""

    logits: tf.Tensor  # [B, Q, V] float
    alignment: tf.Tensor  # [B, Q, S] float
    carry: Any  # nest of [B, Q, ...]


class Decoder(Part):
    """The contract: a decoder gives ``remember``, ``start``, ``inputs``, ``advance``, ``readout``; the rest follows."""

    @abstractmethod
    def remember(self, encoding: Encoding) -> Memory:
        """What the decoder needs of a sentence, computed once."""

    @abstractmethod
    def start(self, memory: Memory) -> Any:
        """The carry before the first token: a nest of [B, 1, ...]."""

    @abstractmethod
    def inputs(self, ids: tf.Tensor, noise: Noise | None = None) -> Any:
        """What the tokens ids [B, T] (or [B, Q]) contribute: embeddings and their projections, one product each."""

    @abstractmethod
    def advance(self, x: Any, carry: Any, memory: Memory) -> tuple[Any, Any]:
        """The sequential part, nothing else: one position's inputs and the carry give the next carry and emission."""

    @abstractmethod
    def readout(self, x: Any, emissions: Any, memory: Memory, noise: Noise | None = None) -> Output:
        """Logits and alignments of all positions at once."""

    def step(self, ids: tf.Tensor, carry: Any, memory: Memory) -> Step:
        """One step of a search: the last tokens ids [B, Q] of Q hypotheses give the next token's logits."""
        x = self.inputs(ids)
        carry, emission = self.advance(x, carry, memory)
        output = self.readout(x, emission, memory)
        return Step(output.logits, output.alignment, carry)

    def call(self, ids: tf.Tensor, encoding: Encoding, noise: Noise | None = None) -> Output:
        """Teacher forcing: ids [B, T] begin with START and hold the reference's tokens but the last."""
        memory = self.remember(encoding)
        x = self.inputs(ids, noise)
        _, emissions = scan(lambda x, carry: self.advance(x, carry, memory), x, self.start(memory))
        return self.readout(x, emissions, memory, noise)


class Inputs(NamedTuple):
    """Target tokens as a recurrent decoder takes them."""

    embedded: tf.Tensor  # [B, T, E] float: e(y_{i-1})
    projected: tf.Tensor  # [B, T, 3U] float: the cell's product with it


class Carry(NamedTuple):
    """What a recurrent decoder carries from step to step."""

    state: tf.Tensor  # [B, Q, U] float: s_{i-1}
    step: tf.Tensor  # [B, Q] int32: tokens written so far


class Emission(NamedTuple):
    """What one step of a recurrent decoder leaves for the readout."""

    previous: tf.Tensor  # [B, Q, U] float: s_{i-1}
    state: tf.Tensor  # [B, Q, U] float: s_i
    context: tf.Tensor  # [B, Q, D] float: c_i
    alignment: tf.Tensor  # [B, Q, S] float


@keras.saving.register_keras_serializable("nmt_keras")
class MaxoutReadout(Part):
    """The deep output with one maxout layer (Bahdanau, Cho, Bengio 2014, appendix A.2.2).

        t~_i = U_o s + V_o e(y_{i-1}) + C_o c_i          2l numbers
        t_i  = max of each neighbouring pair of t~_i     l numbers
        p(y_i | ...) = softmax(W_o t_i)

    The appendix reads s as s_{i-1}, the main text (equation 4) as s_i: the caller passes the one it means.

    Args:
        vocabulary_size: V.
        units: l, maxout units.
        state_size, context_size, embedding_size: U, D, E.
        dropout: probability of dropping an entry of t_i, in training.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        state_size: int,
        context_size: int,
        embedding_size: int,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.units, self.dropout = vocabulary_size, units, dropout
        self.state_size, self.context_size, self.embedding_size = state_size, context_size, embedding_size
        self.kernel = self.weight("kernel", (state_size + context_size + embedding_size, 2 * units), "glorot_uniform")
        self.bias = self.weight("bias", (2 * units,), "zeros")
        self.output_kernel = self.weight("output_kernel", (units, vocabulary_size), "glorot_uniform")
        self.output_bias = self.weight("output_bias", (vocabulary_size,), "zeros")

    def call(self, state: tf.Tensor, context: tf.Tensor, embedded: tf.Tensor, noise: Noise | None = None) -> tf.Tensor:
        """Logits [B, T, V] from states [B, T, U], contexts [B, T, D] and embeddings [B, T, E]."""
        joined = product(tf.concat([state, context, embedded], axis=-1), self.cast(self.kernel)) + self.cast(self.bias)
        hidden = tf.maximum(joined[..., 0::2], joined[..., 1::2])
        hidden = dropout(hidden, self.dropout, noise, "readout")
        return product(hidden, self.cast(self.output_kernel)) + self.cast(self.output_bias)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "state_size": self.state_size,
            "context_size": self.context_size,
            "embedding_size": self.embedding_size,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauDecoder(Decoder):
    """Attends with s_{i-1}, then updates (Bahdanau, Cho, Bengio 2014, appendix A.1.2 and A.2.2).

        s_0     = tanh(W_s · backward h_1 + b_s)
        alpha_i = attention(s_{i-1}, h)         c_i = SUM_j alpha_ij h_j
        s_i     = GRU(e(y_{i-1}), s_{i-1}, c_i)

    W e(y_{i-1}) is taken for all steps at once, C c_i in the loop.

    Args:
        vocabulary_size: V.
        embedding_size: E.
        units: U.
        annotation_size: D, width of the encoder's annotations.
        attention_units: A.
        readout_units: l, maxout units.
        readout_state: "previous" for the appendix's s_{i-1}, "current" for the main text's s_i.
        dropout: probability of dropping an entry of the embeddings and of the readout's maxout units, in training.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        annotation_size: int,
        attention_units: int,
        readout_units: int,
        readout_state: str = "previous",
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.vocabulary_size, self.embedding_size, self.units = vocabulary_size, embedding_size, units
        self.annotation_size, self.attention_units, self.readout_units = annotation_size, attention_units, readout_units
        self.readout_state, self.dropout = readout_state, dropout
        self.embedding = keras.layers.Embedding(vocabulary_size, embedding_size, name="embedding")
        self.start_kernel = self.weight("start_kernel", (annotation_size // 2, units), "glorot_uniform")
        self.start_bias = self.weight("start_bias", (units,), "zeros")
        self.attention = BahdanauAttention(attention_units, units, annotation_size, name="attention")
        self.cell = GRUCell(units, embedding_size, annotation_size, name="cell")
        self.output_layer = MaxoutReadout(
            vocabulary_size, readout_units, units, annotation_size, embedding_size, dropout, name="readout"
        )

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        self.embedding.build()
        super().build(input_shape)

    def remember(self, encoding: Encoding) -> Memory:
        """The annotations, and U_a h_j."""
        return Memory(encoding.values, self.attention.keys(encoding.values), *encoding[1:])

    def start(self, memory: Memory) -> Carry:
        """s_0 = tanh(W_s · backward h_1 + b_s); the paper leaves biases out of its formulas."""
        _, backward = memory.states
        state = tf.tanh(product(backward, self.cast(self.start_kernel)) + self.cast(self.start_bias))
        return Carry(state[:, tf.newaxis], tf.zeros([tf.shape(state)[0], 1], tf.int32))

    def inputs(self, ids: tf.Tensor, noise: Noise | None = None) -> Inputs:
        """e(y_{i-1}) and W e(y_{i-1}) + b."""
        embedded = dropout(self.cast(tf.gather(self.embedding.embeddings, ids)), self.dropout, noise, "target")
        return Inputs(embedded, self.cell.project(embedded))

    def advance(self, x: Inputs, carry: Carry, memory: Memory) -> tuple[Carry, Emission]:
        """alpha_i, c_i, then s_i."""
        alignment = self.attention.align(carry.state, memory)
        attended = context(alignment, memory)
        state = self.cell.advance(self.cell.contextualise(x.projected, attended), carry.state)
        return Carry(state, carry.step + 1), Emission(carry.state, state, attended, alignment)

    def readout(self, x: Inputs, emissions: Emission, memory: Memory, noise: Noise | None = None) -> Output:
        """softmax's logits from state, context and embedding."""
        state = emissions.previous if self.readout_state == "previous" else emissions.state
        return Output(self.output_layer(state, emissions.context, x.embedded, noise), emissions.alignment)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_size": self.embedding_size,
            "units": self.units,
            "annotation_size": self.annotation_size,
            "attention_units": self.attention_units,
            "readout_units": self.readout_units,
            "readout_state": self.readout_state,
            "dropout": self.dropout,
        }
