"""Decoders: one contract for teacher forcing and search, and the papers' orders of attending and updating.

Teacher forcing and search are the same equations because they are made of the same parts. ``inputs`` and ``readout``
have no dependence on the previous step and so stand outside the loop; their middle axis is T in training and Q in
search.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.layers.base import Part
from nmt_keras.layers.dropout import Noise, uniform
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import Softmax
from nmt_keras.layers.scan import scan
from nmt_keras.models.encoder import Encoding


class Output(NamedTuple):
    """What a decoder says of every target position."""

    logits: tf.Tensor  # [B, T, V] float
    alignment: tf.Tensor  # [B, T, S] float: each row sums to 1, or to less under local-p


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

    @property
    def trains_fused(self) -> bool:
        """Whether teacher forcing reads whole sentences with one operation, as cuDNN has it, in training."""
        return False

    def prepare(self, memory: Memory) -> Memory:
        """``memory`` with what a search would else compute at every step of every hypothesis."""
        return memory

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
    def readout(
        self, x: Any, emissions: Any, memory: Memory, noise: Noise | None = None, softmax: Softmax | None = None
    ) -> Output:
        """Logits and alignments of all positions at once; logits of the tokens of ``softmax`` alone, if it is given."""

    def step(self, ids: tf.Tensor, carry: Any, memory: Memory, softmax: Softmax | None = None) -> Step:
        """One step of a search: the last tokens ids [B, Q] of Q hypotheses give the next token's logits.

        ``softmax`` holds the tokens that compete. With a shortlist's, logits are those of its C tokens at the memory's
        prices, [B, Q, C].
        """
        x = self.inputs(ids)
        carry, emission = self.advance(x, carry, memory)
        logits, alignment = self.readout(x, emission, memory, softmax=softmax)
        if tf.is_tensor(memory.price):
            logits += self.cast(memory.price)[:, tf.newaxis]
        return Step(logits, alignment, carry)

    def call(self, ids: tf.Tensor, encoding: Encoding, noise: Noise | None = None) -> Output:
        """Teacher forcing: ids [B, T] begin with START and hold the reference's tokens but the last."""
        memory = self.remember(encoding)
        x = self.inputs(ids, noise)
        _, emissions = scan(lambda x, carry: self.advance(x, carry, memory), x, self.start(memory))
        return self.readout(x, emissions, memory, noise)

    def call_sampling(self, ids: tf.Tensor, encoding: Encoding, probability: tf.Tensor, noise: Noise) -> Output:
        """Scheduled sampling (Bengio et al. 2015): some of the tokens that the decoder reads are its own.

        At each position but the first, for each sentence by itself, the decoder reads its most probable last token
        with ``probability``, else the reference's. At 1 it runs free; at 0 this is teacher forcing, step by step.

        Args:
            ids: [B, T], as for teacher forcing.
            encoding: of the sources.
            probability: [] float32.
            noise: decides, and drops.
        """
        memory = self.remember(encoding)
        own = uniform(tf.shape(ids), noise, "scheduled sampling") < probability  # [B, T]
        positions = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])

        def advance(x: tuple[tf.Tensor, tf.Tensor, tf.Tensor], carry: tuple[Any, tf.Tensor]) -> tuple[Any, Output]:
            reference, take_own, position = x
            inner, last = carry
            at = position[0, 0]
            read = tf.where(take_own & (at > 0), last, reference)
            here = noise._replace(position=at)
            inputs = self.inputs(read, here)
            inner, emission = self.advance(inputs, inner, memory)
            output = self.readout(inputs, emission, memory, here)
            return (inner, tf.argmax(output.logits, axis=-1, output_type=tf.int32)), output

        _, outputs = scan(advance, (ids, own, positions), (self.start(memory), ids[:, :1]))
        return outputs
