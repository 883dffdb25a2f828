"""Decoders: one interface for teacher forcing and search.

Teacher forcing and search compute the same equations because they call the same methods. ``inputs`` does not depend
on the previous step, and no later step depends on ``features``. Teacher forcing therefore computes ``inputs`` and
``features`` outside the loop.

    teacher forcing     output(inputs(ids), scan(advance, inputs(ids), initial_state))      all T positions at once
    search step         output(inputs(ids), advance(inputs(ids), state))                    one position of Q hypotheses
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer, Weights
from nmt_keras.layers.dropout import Randomness, dropout, random_uniform
from nmt_keras.layers.matmul import Precision, compute_dtype_weights
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.scan import scan
from nmt_keras.models.encoder import Encoding
from nmt_keras.models.predictor import Prediction


class DecoderOutput(NamedTuple):
    """Predictions for every target position."""

    logits: tf.Tensor  # [B, T, V] float
    alignment: tf.Tensor  # [B, T, S] float: each row sums to 1


class Decoder(BaseLayer):
    """Embeds target tokens, reads the memory of the source, and predicts the next tokens.

    Subclasses define ``remember``, ``initial_state``, ``inputs``, ``advance`` and ``features``.

    Args:
        embedding: Embedding of the target tokens, [V, E].
        dropout_rate: Dropout rate of the embeddings.
        output_dropout_rate: Dropout rate of the features; ``None`` for ``dropout_rate``.
    """

    output_layer: OutputLayer
    """Layer that computes features and logits. With tied embeddings, its matrix is that of ``embedding``."""

    use_cudnn = False
    """If True, training uses cuDNN for cells that cuDNN supports; see ``reads_fused``."""

    def __init__(
        self,
        *,
        embedding: keras.layers.Embedding,
        dropout_rate: float = 0.0,
        output_dropout_rate: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.embedding, self.dropout_rate, self.output_dropout_rate = embedding, dropout_rate, output_dropout_rate

    def build(self, input_shape: Any = None) -> None:
        """Builds the embedding."""
        if not self.embedding.built:
            self.embedding.build()
        super().build(input_shape)

    @property
    def reads_fused(self) -> bool:
        """True if teacher forcing computes all positions of a layer with one cuDNN operation."""
        return False

    def read_weights(self, precision: Precision = compute_dtype_weights) -> Weights:
        """See :class:`BaseLayer`. With tied embeddings, the output layer gets the matrix of ``embedding``."""
        weights = super().read_weights(precision)
        if self.output_layer.tie_embeddings:
            weights.output_layer.output_kernel = precision(self.embedding.embeddings, self.compute_dtype)
        return weights

    @abstractmethod
    def remember(self, weights: Weights, encoding: Encoding) -> Memory:
        """Returns the decoder memory: the annotations, and the keys that are computed from them once per sentence."""

    @abstractmethod
    def initial_state(self, memory: Memory) -> Any:
        """Returns the state before the first token: a nest of [B, 1, ...]."""

    @abstractmethod
    def inputs(self, weights: Weights, ids: tf.Tensor, randomness: Randomness | None = None) -> Any:
        """Embeds tokens ``ids`` [B, Q], projects the embeddings with one matrix product, and draws dropout masks."""

    @abstractmethod
    def advance(self, weights: Weights, x: Any, state: Any, memory: Memory) -> tuple[Any, Any]:
        """Computes the next state and the results of one position. Only this part depends on the previous state."""

    @abstractmethod
    def features(self, weights: Weights, x: Any, results: Any, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's features [B, Q, feature_size] and the alignments [B, Q, S]."""

    def output(
        self, weights: Weights, x: Any, results: Any, memory: Memory, randomness: Randomness | None = None
    ) -> DecoderOutput:
        """Returns the logits [B, Q, V] and alignments [B, Q, S] of ``results``."""
        features, alignment = self.features(weights, x, results, memory)
        rate = self.dropout_rate if self.output_dropout_rate is None else self.output_dropout_rate
        features = dropout(features, rate, randomness, "readout")
        return DecoderOutput(self.output_layer.logits(weights.output_layer, features), alignment)

    def step(self, weights: Weights, ids: tf.Tensor, state: Any, memory: Memory) -> Prediction:
        """Computes one search step from ``ids`` [B, Q], the last token of each hypothesis."""
        x = self.inputs(weights, ids)
        state, results = self.advance(weights, x, state, memory)
        logits, alignment = self.output(weights, x, results, memory)
        return Prediction(logits, alignment, state)

    def call(
        self,
        ids: tf.Tensor,
        encoding: Encoding,
        randomness: Randomness | None = None,
        own_token_probability: tf.Tensor | None = None,
        weights: Weights | None = None,
    ) -> DecoderOutput:
        """Predicts every target token by teacher forcing or scheduled sampling.

        Args:
            ids: [B, T] int32: START, then the reference without its last token.
            encoding: Encoding of the sources.
            randomness: Source of the training step's random numbers; None outside training.
            own_token_probability: [] float32, probability of reading the decoder's own previous token instead of the
                reference's (scheduled sampling); None for teacher forcing.
            weights: Result of ``read_weights``; None reads them in the compute dtype.

        Raises:
            ValueError: ``own_token_probability`` is given without ``randomness``.
        """
        weights = weights or self.read_weights()
        memory = self.remember(weights, encoding)
        if own_token_probability is None:
            return self._teacher_forcing(weights, ids, memory, randomness)
        if randomness is None:
            raise ValueError(
                "randomness: expected a `Randomness` with own_token_probability, received None. Scheduled sampling "
                "draws random numbers. Pass both arguments, or omit own_token_probability."
            )
        return self._scheduled_sampling(weights, ids, memory, own_token_probability, randomness)

    def _teacher_forcing(
        self, weights: Weights, ids: tf.Tensor, memory: Memory, randomness: Randomness | None
    ) -> DecoderOutput:
        x = self.inputs(weights, ids, randomness)
        _, results = scan(lambda x, state: self.advance(weights, x, state, memory), x, self.initial_state(memory))
        return self.output(weights, x, results, memory, randomness)

    def _scheduled_sampling(
        self, weights: Weights, ids: tf.Tensor, memory: Memory, probability: tf.Tensor, randomness: Randomness
    ) -> DecoderOutput:
        """Predicts every target token by scheduled sampling (Bengio et al. 2015).

        At each position after the first, the decoder reads a previous token. With probability ``probability``, it is
        the most probable token of the decoder's previous step. Otherwise, it is the token of the reference. Draws are
        independent for each sentence and position. With probability 0 this equals teacher forcing, except that the
        dropout masks are drawn differently.
        """
        # Keras autocasts float arguments to the compute dtype in mixed precision; the draws are float32
        probability = tf.cast(probability, tf.float32)
        takes_own = random_uniform(tf.shape(ids), randomness, "scheduled sampling") < probability  # [B, T]
        positions = tf.ones_like(ids) * tf.range(ids.shape[1] or tf.shape(ids)[1])

        def advance(
            inputs: tuple[tf.Tensor, tf.Tensor, tf.Tensor], state: tuple[Any, tf.Tensor]
        ) -> tuple[Any, DecoderOutput]:
            reference, takes_own, position = inputs
            decoder_state, own = state
            here = replace(randomness, position=position[0, 0])
            x = self.inputs(weights, tf.where(takes_own & (position > 0), own, reference), here)
            decoder_state, results = self.advance(weights, x, decoder_state, memory)
            output = self.output(weights, x, results, memory, here)
            return (decoder_state, tf.argmax(output.logits, axis=-1, output_type=tf.int32)), output

        _, outputs = scan(advance, (ids, takes_own, positions), (self.initial_state(memory), ids[:, 0, tf.newaxis]))
        return outputs
