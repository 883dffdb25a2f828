"""Decoders: one interface for teacher forcing and search.

Teacher forcing and search compute the same equations because they call the same methods. ``inputs`` and ``hidden`` do
not depend on the previous step, so they stand outside the loop; their middle axis is T in training and Q in search.

    teacher forcing     output(inputs(ids), scan(advance), ...)
    search step         the same with T = 1
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer, Weights
from nmt_keras.layers.dropout import Randomness, dropout, random_uniform
from nmt_keras.layers.matmul import Precision, full_precision
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.scan import scan
from nmt_keras.models.encoder import Encoding
from nmt_keras.models.step import Step


class DecoderOutput(NamedTuple):
    """Predictions for every target position."""

    logits: tf.Tensor  # [B, T, V] float
    alignment: tf.Tensor  # [B, T, S] float: each row sums to 1


class Decoder(BaseLayer):
    """Embeds target tokens, reads the memory of the source, and predicts the next tokens.

    Subclasses define ``remember``, ``initial_state``, ``inputs``, ``advance`` and ``hidden``.

    Args:
        embedding: Of the target tokens, [V, E].
        dropout: Dropout rate of the embeddings and of the softmax layer's input.
    """

    output_layer: OutputLayer
    """Computes logits. If it is tied, its matrix is ``embedding``."""

    use_cudnn = False
    """If True, teacher forcing reads whole sentences with one cuDNN operation where it can."""

    def __init__(self, *, embedding: keras.layers.Embedding, dropout: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self.embedding, self.dropout = embedding, dropout

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        if not self.embedding.built:
            self.embedding.build()
        super().build(input_shape)

    @property
    def trains_fused(self) -> bool:
        """``True`` if training reads whole sentences with one cuDNN operation."""
        return False

    def read_weights(self, precision: Precision = full_precision) -> Weights:
        """See :class:`BaseLayer`; a tied output layer gets the embedding."""
        weights = super().read_weights(precision)
        if self.output_layer.tied:
            weights.output_layer.rows = precision(self.embedding.embeddings, self.compute_dtype)
        return weights

    @abstractmethod
    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """Returns the decoder memory: the annotations, and what is computed of them once per sentence."""

    @abstractmethod
    def initial_state(self, memory: Memory) -> Any:
        """Returns the state before the first token: a nest of [B, 1, ...]."""

    @abstractmethod
    def inputs(self, weights: Weights, ids: tf.Tensor, randomness: Randomness | None = None) -> Any:
        """Embeds tokens ids [B, T] (or [B, Q]), projects them in one product, and draws their dropout masks."""

    @abstractmethod
    def advance(self, weights: Weights, x: Any, state: Any, memory: Memory) -> tuple[Any, Any]:
        """The sequential part: returns the next state and the position's results from one position's inputs."""

    @abstractmethod
    def hidden(self, weights: Weights, x: Any, results: Any, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the softmax layer's input [B, T, hidden_size] and the alignments [B, T, S] of all positions."""

    def output(
        self, weights: Weights, x: Any, results: Any, memory: Memory, randomness: Randomness | None = None
    ) -> DecoderOutput:
        """Returns logits and alignments of all positions."""
        hidden, alignment = self.hidden(weights, x, results, memory)
        hidden = dropout(hidden, self.dropout, randomness, "readout")
        return DecoderOutput(self.output_layer.logits(weights.output_layer, hidden), alignment)

    def step(self, weights: Weights, ids: tf.Tensor, state: Any, memory: Memory) -> Step:
        """One step of a search: returns logits, alignment and state after the last tokens ids [B, Q]."""
        x = self.inputs(weights, ids)
        state, results = self.advance(weights, x, state, memory)
        logits, alignment = self.output(weights, x, results, memory)
        return Step(logits, alignment, state)

    def call(
        self,
        ids: tf.Tensor,
        encoding: Encoding,
        randomness: Randomness | None = None,
        sampling: tf.Tensor | None = None,
        weights: Weights | None = None,
    ) -> DecoderOutput:
        """Teacher forcing, or scheduled sampling.

        Args:
            ids: [B, T] int32: START, then the reference without its last token.
            encoding: Of the sources.
            randomness: Of a training step; None outside training.
            sampling: [] float32, the probability of reading the decoder's own token instead of the reference's; None
                for teacher forcing. It needs ``randomness``.
            weights: From ``read_weights``; None reads them in full precision.
        """
        weights = weights or self.read_weights()
        memory = self.remember(weights, encoding)
        if sampling is not None and randomness is not None:
            return self._sample(weights, ids, memory, sampling, randomness)
        return self._teach(weights, ids, memory, randomness)

    def _teach(self, weights: Weights, ids: tf.Tensor, memory: Memory, randomness: Randomness | None) -> DecoderOutput:
        x = self.inputs(weights, ids, randomness)
        _, results = scan(lambda x, state: self.advance(weights, x, state, memory), x, self.initial_state(memory))
        return self.output(weights, x, results, memory, randomness)

    def _sample(
        self, weights: Weights, ids: tf.Tensor, memory: Memory, probability: tf.Tensor, randomness: Randomness
    ) -> DecoderOutput:
        """Scheduled sampling (Bengio et al. 2015).

        At each position but the first, for each sentence by itself, the decoder reads its most probable last token with
        ``probability``, else the reference's. At 1 it runs free; at 0 this equals teacher forcing.
        """
        own = random_uniform(tf.shape(ids), randomness, "scheduled sampling") < probability  # [B, T]
        positions = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])

        def advance(
            inputs: tuple[tf.Tensor, tf.Tensor, tf.Tensor], state: tuple[Any, tf.Tensor]
        ) -> tuple[Any, DecoderOutput]:
            reference, take_own, position = inputs
            inner, last = state
            here = replace(randomness, position=position[0, 0])
            x = self.inputs(weights, tf.where(take_own & (position > 0), last, reference), here)
            inner, results = self.advance(weights, x, inner, memory)
            output = self.output(weights, x, results, memory, here)
            return (inner, tf.argmax(output.logits, axis=-1, output_type=tf.int32)), output

        _, outputs = scan(advance, (ids, own, positions), (self.initial_state(memory), ids[:, :1]))
        return outputs
