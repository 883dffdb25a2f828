"""Decoders: one contract for teacher forcing and search, and the papers' orders of attending and updating.

Teacher forcing and search are the same equations because they are made of the same parts. ``inputs`` and ``output``
have no dependence on the previous step and so stand outside the loop; their middle axis is T in training and Q in
search.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.dropout import Randomness, random_uniform
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.scan import scan
from nmt_keras.models.encoder import Encoding
from nmt_keras.models.step import Step


class Hidden(NamedTuple):
    """A decoder's results below the softmax."""

    values: tf.Tensor  # [B, T, hidden_size] float: the input of ``OutputLayer.logits``
    alignment: tf.Tensor  # [B, T, S] float


class DecoderOutput(NamedTuple):
    """What a decoder says of every target position."""

    logits: tf.Tensor  # [B, T, V] float
    alignment: tf.Tensor  # [B, T, S] float: each row sums to 1, or to less under local-p


class HiddenStep(NamedTuple):
    """One step of a search, below the softmax."""

    hidden: Hidden  # of [B, Q, ...]
    state: Any  # nest of [B, Q, ...]


class Decoder(BaseLayer):
    """The interface of decoders: ``remember``, ``initial_state``, ``inputs``, ``advance`` and ``hidden``."""

    output_layer: OutputLayer

    @abstractmethod
    def remember(self, encoding: Encoding) -> Memory:
        """What the decoder needs of a sentence, computed once."""

    @property
    def trains_fused(self) -> bool:
        """Whether teacher forcing reads whole sentences with one operation, as cuDNN has it, in training."""
        return False

    def prepare(self, memory: Memory) -> Memory:
        """``memory`` with what a search would else compute at every step of every hypothesis."""
        return memory

    @abstractmethod
    def initial_state(self, memory: Memory) -> Any:
        """The state before the first token: a nest of [B, 1, ...]."""

    @abstractmethod
    def inputs(self, ids: tf.Tensor, randomness: Randomness | None = None) -> Any:
        """What the tokens ids [B, T] (or [B, Q]) contribute: embeddings and their projections, one product each."""

    @abstractmethod
    def advance(self, x: Any, state: Any, memory: Memory) -> tuple[Any, Any]:
        """The sequential part, nothing else: one position's inputs and the state give the next state and emission."""

    @abstractmethod
    def hidden(self, x: Any, emissions: Any, memory: Memory) -> Hidden:
        """Computes what stands below the softmax, and the alignments, for all positions at once."""

    def output(self, x: Any, emissions: Any, memory: Memory, randomness: Randomness | None = None) -> DecoderOutput:
        """Computes logits and alignments for all positions at once."""
        hidden = self.hidden(x, emissions, memory)
        return DecoderOutput(self.output_layer.logits(hidden.values, randomness), hidden.alignment)

    def step_hidden(self, ids: tf.Tensor, state: Any, memory: Memory) -> HiddenStep:
        """Computes ``step`` without the product of the softmax."""
        x = self.inputs(ids)
        state, emission = self.advance(x, state, memory)
        return HiddenStep(self.hidden(x, emission, memory), state)

    def step(self, ids: tf.Tensor, state: Any, memory: Memory) -> Step:
        """Computes one step of a search: the last tokens ids [B, Q] of Q hypotheses give the next token's logits."""
        hidden, state = self.step_hidden(ids, state, memory)
        return Step(self.output_layer.logits(hidden.values), hidden.alignment, state)

    def call(self, ids: tf.Tensor, encoding: Encoding, randomness: Randomness | None = None) -> DecoderOutput:
        """Teacher forcing: ids [B, T] begin with START and hold the reference's tokens but the last."""
        memory = self.remember(encoding)
        x = self.inputs(ids, randomness)
        _, emissions = scan(lambda x, state: self.advance(x, state, memory), x, self.initial_state(memory))
        return self.output(x, emissions, memory, randomness)

    def call_sampling(
        self, ids: tf.Tensor, encoding: Encoding, probability: tf.Tensor, randomness: Randomness
    ) -> DecoderOutput:
        """Scheduled sampling (Bengio et al. 2015): some of the tokens that the decoder reads are its own.

        At each position but the first, for each sentence by itself, the decoder reads its most probable last token
        with ``probability``, else the reference's. At 1 it runs free; at 0 this is teacher forcing, step by step.

        Args:
            ids: [B, T], as for teacher forcing.
            encoding: of the sources.
            probability: [] float32.
            randomness: decides, and drops.
        """
        memory = self.remember(encoding)
        own = random_uniform(tf.shape(ids), randomness, "scheduled sampling") < probability  # [B, T]
        positions = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])

        def advance(
            x: tuple[tf.Tensor, tf.Tensor, tf.Tensor], state: tuple[Any, tf.Tensor]
        ) -> tuple[Any, DecoderOutput]:
            reference, take_own, position = x
            inner, last = state
            at = position[0, 0]
            read = tf.where(take_own & (at > 0), last, reference)
            here = randomness._replace(position=at)
            inputs = self.inputs(read, here)
            inner, emission = self.advance(inputs, inner, memory)
            output = self.output(inputs, emission, memory, here)
            return (inner, tf.argmax(output.logits, axis=-1, output_type=tf.int32)), output

        _, outputs = scan(advance, (ids, own, positions), (self.initial_state(memory), ids[:, :1]))
        return outputs
