"""Decoders: one interface for teacher forcing and search.

Teacher forcing and search compute the same equations because they call the same methods. ``embed`` does not depend
on the previous step, and no later step depends on ``features``. Teacher forcing therefore computes ``embed`` and
``features`` outside the loop.

    teacher forcing     x = embed(ids);  _, results = scan(advance, x, initial_state);  output_of(x, results)
    search step         x = embed(ids);  state, results = advance(x, state);            output_of(x, results)

Both also pass the memory. Teacher forcing reads all T positions at once, a search step one position of Q hypotheses.
A self-attention decoder has no loop: it overrides ``teacher_forcing``.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.config import END, PAD, require
from nmt_keras.layers.base import InitializerLike, Nest, Part, Shape, require_layer
from nmt_keras.layers.dropout import Randomness, dropout, random_uniform, require_rates
from nmt_keras.layers.memory import Encoding, Memory, as_encoding
from nmt_keras.layers.output import OutputLayer
from nmt_keras.layers.scan import scan
from nmt_keras.models.prediction import Prediction


class DecoderOutput(NamedTuple):
    """Predictions for every target position."""

    logits: tf.Tensor  # [B, T, V] float
    alignment: tf.Tensor  # [B, T, S] float: each row sums to 1


class BaseDecoder(Part, keras.Model):
    """Embeds target tokens, reads the memory of the source, and predicts the next tokens.

    Subclasses define ``setup_memory``, ``initial_state``, ``embed``, ``advance`` and ``features``.

    Args:
        vocabulary_size: V of the target.
        embedding_size: E.
        units: U, width of the states.
        num_layers: Number of layers.
        output_layer: Layer that computes features and logits. With tied embeddings, its matrix is that of the
            embedding.
        dropout: Dropout rate of the embeddings.
        output_dropout: Dropout rate of the features; ``None`` for ``dropout``.
        embeddings_initializer, kernel_initializer, bias_initializer: Initializers of the embeddings, and of the
            matrices and biases of the layers that the decoder makes; None for the default of the layers.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        units: int,
        *,
        output_layer: OutputLayer,
        num_layers: int,
        dropout: float,
        output_dropout: float | None,
        embeddings_initializer: InitializerLike,
        kernel_initializer: InitializerLike,
        bias_initializer: InitializerLike | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        sizes = (vocabulary_size, embedding_size, units, num_layers)
        require(min(sizes) >= 1, "vocabulary_size, embedding_size, units, num_layers", "at least 1", sizes)
        require_layer("output_layer", output_layer, OutputLayer, "LinearOutput(vocabulary_size)")
        require(
            output_layer.vocabulary_size == vocabulary_size,
            "output_layer.vocabulary_size",
            f"{vocabulary_size}, the decoder's vocabulary_size",
            output_layer.vocabulary_size,
        )
        require_rates(dropout=dropout, output_dropout=output_dropout)
        self.input_spec = keras.layers.InputSpec(ndim=2)
        self.vocabulary_size, self.embedding_size = vocabulary_size, embedding_size
        self.units, self.num_layers, self.output_layer = units, num_layers, output_layer
        self.dropout, self.output_dropout = dropout, output_dropout
        self.embeddings_initializer, self.kernel_initializer, self.bias_initializer = map(
            keras.initializers.get, (embeddings_initializer, kernel_initializer, bias_initializer)
        )
        self.embedding = keras.layers.Embedding(
            vocabulary_size, embedding_size, self.embeddings_initializer, dtype=self.dtype_policy, name="embedding"
        )

    def build(self, ids_shape: Shape, encoding_shape: Encoding | Shape) -> None:
        """Builds the embedding.

        Args:
            ids_shape: Shape of the ids, [B, T].
            encoding_shape: Shapes of the encoding, see ``BaseEncoder.encoding_shape``; or of annotations, [B, S, D].
        """
        self.embedding.build(ids_shape)

    def compute_mask(self, inputs: tf.Tensor, previous_mask: Nest = None) -> DecoderOutput:
        """Returns the mask that Keras attaches to the logits: no token follows END, and none follows PAD."""
        real = keras.ops.logical_and(keras.ops.not_equal(inputs, PAD), keras.ops.not_equal(inputs, END))
        return DecoderOutput(real, None)

    @abstractmethod
    def setup_memory(self, encoding: Encoding) -> Memory:
        """Returns the decoder memory: the annotations, and the keys that are computed from them once per sentence."""

    @abstractmethod
    def initial_state(self, memory: Memory) -> Nest:
        """Returns the state before the first token: a nest of [B, 1, ...]."""

    @abstractmethod
    def embed(self, ids: tf.Tensor, randomness: Randomness | None = None) -> Nest:
        """Embeds tokens ``ids`` [B, Q], projects the embeddings with one matrix product, and draws dropout masks."""

    @abstractmethod
    def advance(self, x: Nest, state: Nest, memory: Memory) -> tuple[Nest, Nest]:
        """Computes the next state and the results of one position. Only this part depends on the previous state."""

    @abstractmethod
    def features(self, x: Nest, results: Nest, memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the output layer's features [B, Q, feature_size] and the alignments [B, Q, S]."""

    def output_of(self, x: Nest, results: Nest, memory: Memory, randomness: Randomness | None = None) -> DecoderOutput:
        """Returns the logits [B, Q, V] and alignments [B, Q, S] of ``results``."""
        features, alignment = self.features(x, results, memory)
        rate = self.dropout if self.output_dropout is None else self.output_dropout
        features = dropout(features, rate, randomness, "readout")
        return DecoderOutput(self.output_layer.logits(features, self.embedding.embeddings), alignment)

    def step(self, ids: tf.Tensor, state: Nest, memory: Memory) -> Prediction:
        """Computes one search step.

        Args:
            ids: [B, Q] int32, the last token of each hypothesis.
            state: State before these tokens.
            memory: Memory of the source sentences.
        """
        x = self.embed(ids)
        state, results = self.advance(x, state, memory)
        logits, alignment = self.output_of(x, results, memory)
        return Prediction(logits, alignment, state)

    def call(
        self,
        ids: tf.Tensor,
        encoding: Encoding | tf.Tensor,
        encoding_mask: tf.Tensor | None = None,
        training: bool | None = None,
        randomness: Randomness | None = None,
        sampling_probability: tf.Tensor | None = None,
    ) -> DecoderOutput:
        """Predicts every target token by teacher forcing or scheduled sampling.

        Args:
            ids: [B, T] int32: START, then the reference without its last token.
            encoding: Encoding of the sources; or any annotations, [B, S, D] float.
            encoding_mask: [B, S] bool, True at the annotations that exist. None for the mask of ``encoding``, for the
                mask that Keras has attached to the annotations, or for all.
            training: If True, applies dropout. Scheduled sampling always does.
            randomness: Source of the random numbers, with which dropout is applied even if ``training`` is not True.
                None draws them from Keras's global generator.
            sampling_probability: [] float32, probability of reading the decoder's previous prediction instead of the
                reference (scheduled sampling); None for teacher forcing.
        """
        memory = self.setup_memory(as_encoding(encoding, encoding_mask))
        if training and randomness is None:
            randomness = Randomness.draw()
        if sampling_probability is None:
            return self.teacher_forcing(ids, memory, randomness)
        return self._scheduled_sampling(ids, memory, sampling_probability, randomness or Randomness.draw())

    def teacher_forcing(self, ids: tf.Tensor, memory: Memory, randomness: Randomness | None) -> DecoderOutput:
        """Predicts every target token from the earlier tokens of the reference; see ``call``."""
        x = self.embed(ids, randomness)
        _, results = scan(lambda x, state: self.advance(x, state, memory), x, self.initial_state(memory))
        return self.output_of(x, results, memory, randomness)

    def _scheduled_sampling(
        self, ids: tf.Tensor, memory: Memory, probability: tf.Tensor, randomness: Randomness
    ) -> DecoderOutput:
        """Predicts every target token by scheduled sampling (Bengio et al. 2015).

        At each position after the first, the decoder reads a previous token. With probability ``probability``, it is
        the most probable token of the decoder's previous step. Otherwise, it is the token of the reference. Draws are
        independent for each sentence and position. With probability 0 this equals teacher forcing, except that the
        dropout masks are drawn differently.
        """
        ids = tf.cast(ids, tf.int32)
        sampled = random_uniform(tf.shape(ids), randomness, "scheduled sampling") < probability  # [B, T]
        positions = tf.ones_like(ids) * tf.range(keras.ops.shape(ids)[1])

        def advance(
            inputs: tuple[tf.Tensor, tf.Tensor, tf.Tensor], state: tuple[Nest, tf.Tensor]
        ) -> tuple[Nest, DecoderOutput]:
            reference, sampled, position = inputs
            decoder_state, predicted = state
            here = replace(randomness, position=position[0, 0])
            x = self.embed(tf.where(sampled & (position > 0), predicted, reference), here)
            decoder_state, results = self.advance(x, decoder_state, memory)
            output = self.output_of(x, results, memory, here)
            return (decoder_state, tf.argmax(output.logits, axis=-1, output_type=tf.int32)), output

        _, outputs = scan(advance, (ids, sampled, positions), (self.initial_state(memory), ids[:, 0, tf.newaxis]))
        return outputs
