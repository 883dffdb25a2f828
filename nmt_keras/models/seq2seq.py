"""Seq2Seq: an encoder and a decoder as one Keras model."""

from typing import Any

import keras
import tensorflow as tf

from nmt_keras.config import ModelConfig, require
from nmt_keras.layers.base import Nest, Part, require_layer
from nmt_keras.layers.cells import Cell
from nmt_keras.layers.dropout import Randomness, current_replica
from nmt_keras.layers.internals import batches_seen, layers_of
from nmt_keras.layers.losses import MaskedCrossEntropy, with_scalars
from nmt_keras.layers.matmul import weights_read_once
from nmt_keras.layers.memory import Memory
from nmt_keras.models.builder import build_decoder, build_encoder
from nmt_keras.models.decoder import BaseDecoder, DecoderOutput
from nmt_keras.models.encoder import BaseEncoder
from nmt_keras.models.prediction import Prediction


@keras.saving.register_keras_serializable("nmt_keras")
class Seq2Seq(Part, keras.Model):
    """Encoder-decoder model: ``model((source_ids, target_inputs))`` returns a DecoderOutput.

    Its logits predict p(y_i | y_<i, x) for all i at once. ``compile`` and ``fit`` train the model on batches
    ((source_ids, target_inputs), target_ids). Training with ``fit`` cannot be resumed exactly; see the guide
    "Train with fit".

    Args:
        encoder: Encoder.
        decoder: Decoder, which attends to the encoder's annotations.
        shares_recurrence: If True, encoder and decoder, which both have one tanh layer, have one recurrent matrix U.
        seed: Seed of dropout under ``fit``.

    Example:
        >>> encoder, decoder = Encoder(100, 16, 8), Decoder(90, 16, 8, attention=BahdanauAttention(8))
        >>> model = Seq2Seq(encoder, decoder)
        >>> model.compile("adam", metrics=["accuracy"])
        >>> source, target = np.array([[5, 6, 3]]), np.array([[7, 8, 3]])  # END is 3
        >>> read = np.array([[2, 7, 8]])  # START is 2
        >>> history = model.fit((source, read), target, verbose=0)
        >>> model((source, read)).logits.shape
        TensorShape([1, 3, 90])
    """

    _batch: Randomness | None = None  # of the batch of ``fit``

    def __init__(
        self,
        encoder: BaseEncoder,
        decoder: BaseDecoder,
        *,
        shares_recurrence: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        require_layer("encoder", encoder, BaseEncoder, "Encoder(vocabulary_size, embedding_size, units)")
        require_layer("decoder", decoder, BaseDecoder, "Decoder(vocabulary_size, embedding_size, units, ...)")
        require(0 <= seed < 2**31, "seed", "0 or more, and less than 2^31", seed)
        self.encoder, self.decoder = encoder, decoder
        self.shares_recurrence, self.seed = shares_recurrence, seed
        self.source_vocabulary_size, self.target_vocabulary_size = encoder.vocabulary_size, decoder.vocabulary_size

    def build(self, input_shape: Nest = None) -> None:
        """Builds encoder and decoder. Needs no input shape, because the constructors' arguments give all sizes."""
        shape = (None, None)
        if not self.encoder.built:
            self.encoder.build(shape)
        if self.shares_recurrence:
            cells = [
                [each for each in layers_of(part) if isinstance(each, Cell)] for part in (self.encoder, self.decoder)
            ]
            kinds = [[type(cell).__name__ for cell in each] for each in cells]
            require(
                kinds == 2 * [["TanhCell"]],
                "shares_recurrence",
                "one tanh cell in the encoder and one in the decoder",
                kinds,
                "Pass cell='tanh' to both.",
            )
            require(
                not self.decoder.built,
                "shares_recurrence",
                "a decoder that has not been called",
                self.decoder.name,
                "Make a new decoder.",
            )
            cells[1][0].recurrent = cells[0][0].recurrent
        if not self.decoder.built:
            self.decoder.build(shape, self.encoder.encoding_shape(shape))

    def call(
        self,
        inputs: tuple[tf.Tensor, tf.Tensor],
        training: bool | None = None,
        randomness: Randomness | None = None,
        sampling_probability: tf.Tensor | None = None,
    ) -> DecoderOutput:
        """Predicts every target token from the source and the tokens before it.

        Args:
            inputs: Source ids [B, S], and target inputs [B, T]: START, then the reference without its last token. Both
                are padded with PAD.
            training: If True, applies dropout. Scheduled sampling always does.
            randomness: Source of a training step's random numbers. If given, dropout is applied even if ``training`` is
                not True. If None, the random numbers of a batch of ``fit`` are a function of ``seed``, the number of
                batches before it, and the replica. Others are drawn from Keras's global generator.
            sampling_probability: See ``BaseDecoder.call``; None for teacher forcing.
        """
        is_pair = isinstance(inputs, tuple | list) and len(inputs) == 2
        require(is_pair, "inputs", "(source ids, target inputs)", type(inputs))
        source, target = inputs
        if randomness is None and (training or sampling_probability is not None):
            randomness = self._batch or Randomness.draw()
        with weights_read_once(self) as losses:
            encoding = self.encoder(source, randomness=randomness)
            output = self.decoder(target, encoding, randomness=randomness, sampling_probability=sampling_probability)
        for loss in losses:
            self.add_loss(loss)
        return output

    def train_step(self, data: Nest) -> Any:
        """Trains on a batch of ``fit``, as in Keras. Its dropout is a function of seed, batch and replica."""
        number = tf.cast(batches_seen(self.optimizer), tf.int32)
        self._batch = Randomness(self.seed, number, current_replica())
        try:
            return super().train_step(data)
        finally:
            self._batch = None

    def compile(
        self,
        optimizer: str | keras.optimizers.Optimizer = "rmsprop",
        loss: Nest = None,
        loss_weights: Nest = None,
        metrics: Nest = None,
        **kwargs: Any,
    ) -> None:
        """Configures ``fit``, as in Keras. The default loss is :class:`MaskedCrossEntropy`."""
        loss = MaskedCrossEntropy() if loss is None else loss
        super().compile(optimizer, loss, loss_weights, with_scalars(metrics), **kwargs)

    def compile_from_config(self, config: dict[str, object]) -> None:
        """Compiles a loaded model, as Keras does for a model that does not override ``compile``."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_mask(self, inputs: tuple[tf.Tensor, tf.Tensor], previous_mask: Nest = None) -> DecoderOutput:
        """Returns the mask that Keras attaches to the logits; see ``BaseDecoder.compute_mask``."""
        return self.decoder.compute_mask(inputs[1])

    def compute_loss(
        self, x: Nest = None, y: Nest = None, y_pred: Nest = None, sample_weight: Nest = None, training: bool = True
    ) -> tf.Tensor:
        """Returns the loss of the logits, as in Keras. Padding has no effect."""
        return super().compute_loss(x, y, y_pred.logits, sample_weight, training)

    def compute_metrics(self, x: Nest, y: Nest, y_pred: Nest, sample_weight: Nest = None) -> dict[str, object]:
        """Returns the metrics of the logits, as in Keras. Padding has no effect."""
        return super().compute_metrics(x, y, y_pred.logits, sample_weight)

    def encode(self, ids: tf.Tensor) -> Memory:
        """Encodes sources and returns the decoder memory.

        Args:
            ids: [B, S] int32, S >= 1.
        """
        if not self.built:
            self.build()
        with weights_read_once(self):
            return self.decoder.setup_memory(self.encoder(ids))

    def initial_state(self, memory: Memory) -> Nest:
        """Returns the state before the first token: a nest of [B, 1, ...]."""
        return self.decoder.initial_state(memory)

    def step(self, ids: tf.Tensor, state: Nest, memory: Memory) -> Prediction:
        """Computes one search step from ``ids`` [B, Q]. Open ``weights_read_once`` around the search."""
        return self.decoder.step(ids, state, memory)


def build_model(
    config: ModelConfig,
    source_vocabulary_size: int,
    target_vocabulary_size: int,
    dtype: str | keras.DTypePolicy | None = None,
) -> Seq2Seq:
    """Builds the model that ``config`` declares, with initial weights.

    Args:
        config: Configuration of encoder, attention and decoder.
        source_vocabulary_size, target_vocabulary_size: V of each side.
        dtype: Dtype policy of all layers, such as "mixed_bfloat16"; None for Keras's global policy.
    """
    encoder = build_encoder(config, source_vocabulary_size, dtype)
    decoder = build_decoder(config, target_vocabulary_size, dtype)
    model = Seq2Seq(encoder, decoder, shares_recurrence=config.decoder.shares_recurrence, dtype=dtype)
    model.build()
    return model
