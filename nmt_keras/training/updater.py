"""One update: the gradients of the summed loss are added over batches, divided once, clipped and applied.

An update with a non-finite loss or gradient is skipped. The graph makes this decision, so the host does not wait for
the device. The host reads the counters of skipped updates only for the log.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import PAD, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.layers.dropout import Randomness, current_replica
from nmt_keras.layers.internals import keep_gradients_as_given
from nmt_keras.layers.losses import LossSums, guided_alignment, masked_cross_entropy
from nmt_keras.layers.matmul import Precision, weights_read_once
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.text.tokens import decoder_inputs
from nmt_keras.training.distribution import Replicas, StrategyReplicas
from nmt_keras.training.execution import BFLOAT16_PRODUCTS, uses_xla
from nmt_keras.training.optimizers import build_optimizer
from nmt_keras.training.stability import Stability

Sides = tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]
"""Source [B, S], target [B, T], and alignment [B, T, S] or ``None``."""


class Metrics(NamedTuple):
    """Loss and gradient norm of one update."""

    loss: LossSums  # sums over the batch, nats
    gradient_norm: tf.Tensor  # [] float32, before clipping. The update was skipped if it, or the loss, is not finite


def batch_loss(
    model: Seq2Seq,
    source: tf.Tensor,
    target: tf.Tensor,
    smoothing: float,
    *,
    randomness: Randomness | None = None,
    sampling: tf.Tensor | None = None,
    alignment: tf.Tensor | None = None,
    guided_weight: float = 1.0,
) -> LossSums:
    """Returns the loss of targets given sources, with teacher forcing or scheduled sampling.

    Args:
        model: Built model.
        source: [B, S] int32.
        target: [B, T] int32. END is included, followed by PAD.
        smoothing: Float in [0, 1). Label smoothing.
        randomness: See ``Seq2Seq.call``. If given, layers of one's own run in training mode, such as
            ``keras.layers.Dropout``.
        sampling: See ``sampling_probability`` of ``Seq2Seq.call``.
        alignment: [B, T, S] float32. Alignments for ``guided_alignment``; ``None`` for no guided alignment.
        guided_weight: Weight of the guided alignment loss in the total.
    """
    inputs, training = (source, decoder_inputs(target)), randomness is not None
    output = model(inputs, training=training, randomness=randomness, sampling_probability=sampling)
    loss = masked_cross_entropy(output.logits, target, tf.not_equal(target, PAD), smoothing)
    if alignment is None:
        return loss
    return loss._replace(total=loss.total + guided_weight * guided_alignment(output.alignment, alignment))


class Updater:
    """Updates the weights of a model.

    The forward and backward pass is traced for each length bucket, the optimizer's update once. XLA, if used, compiles
    both. After ``share_trace``, all buckets share one trace.

    Losses that layers of one's own add with ``add_loss``, and regularizers, are part of ``fit`` alone.

    The clipping, loss scaling and accumulation of Keras's optimizers are not used: their accumulation averages batches
    whatever their numbers of tokens, and neither the norm nor skipped updates could be logged.

    Args:
        model: Built model. For several replicas, build the model in the scope of their strategy.
        config: Configuration of the training.
        replicas: Replicas of the model; ``None`` for a single one.

    Raises:
        ValueError: ``config.precision`` does not fit the device or the model's dtype policy; see ``uses_xla``.
    """

    def __init__(self, model: Seq2Seq, config: TrainConfig, replicas: Replicas | None = None):
        self.model, self.config, self.replicas = model, config, replicas or Replicas()
        self.variables = list(model.trainable_variables)
        self.uses_xla = uses_xla(config, model)
        with self.replicas.scope():
            self.optimizer = build_optimizer(config, self.variables)
            keep_gradients_as_given(self.optimizer)
            self.stability = Stability(scales_loss=config.precision == "mixed_float16")

        def compiled(function: Callable[..., object]) -> tf.types.experimental.PolymorphicFunction:
            return tf.function(function, jit_compile=self.uses_xla, autograph=False)

        on_each = self.replicas.on_each
        self.gradients = on_each(compiled(self._gradients))
        self.add = on_each(compiled(partial(tf.nest.map_structure, tf.add)))
        self.clip_and_apply = on_each(
            compiled(self._clip_and_apply) if self.replicas.compiles_update else self._clip_and_apply
        )
        # XLA does not compile the whole function, because its branches would copy every weight.
        self.apply_gradients = tf.function(self._apply_gradients, autograph=False)

    def train_step(
        self, batches: Sequence[Batch], step: int, learning_rate: float, sampling_probability: float = 0.0
    ) -> Metrics:
        """Makes one update with the sums of several batches, as if they were one large batch.

        Args:
            batches: ``config.gradient_accumulation_steps`` batches. More would share dropout masks with the next
                update.
            step: Number of earlier updates.
            learning_rate: Learning rate of the update.
            sampling_probability: Probability of scheduled sampling. Ignored if the configuration has none.
        """
        first = step * self.config.gradient_accumulation_steps
        sums = self.gradients(*self.arguments(batches[0], first, sampling_probability))
        for number, batch in enumerate(batches[1:], first + 1):
            sums = self.add(sums, self.gradients(*self.arguments(batch, number, sampling_probability)))
        gradients, loss = self.replicas.sum(sums)
        loss = tf.nest.map_structure(self.replicas.local, loss)
        pairs = float(sum(batch.pairs for batch in batches))
        denominator = loss.tokens if self.config.denominator == "tokens" else tf.constant(pairs)
        return Metrics(
            loss, self.apply_gradients(gradients, loss.total, denominator, tf.constant(learning_rate, tf.float32))
        )

    def arguments(
        self, batch: Batch, number: int, sampling_probability: float = 0.0
    ) -> tuple[Sides, tf.Tensor, tf.Tensor | None]:
        """Returns the arguments of ``gradients`` for batch ``number`` of the training."""
        samples = self.config.sampling_from > 0.0 or self.config.sampling_to > 0.0
        sampling = tf.constant(sampling_probability) if samples else None
        return self.replicas.split(batch), tf.constant(number), sampling

    def _gradients(
        self, batch: Sides, number: tf.Tensor, sampling: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], LossSums]:
        """Returns the dense gradients of batch ``number``, summed over the batch and scaled, and the loss."""
        source, target, alignment = batch
        # eager calls, which are for debugging, compute in float32
        rounds_products = self.config.precision == BFLOAT16_PRODUCTS and not tf.executing_eagerly()
        precision: Precision = BFLOAT16_PRODUCTS if rounds_products else None
        with tf.GradientTape() as tape, weights_read_once(self.model, precision=precision):
            loss = batch_loss(
                self.model,
                source,
                target,
                self.config.label_smoothing,
                randomness=Randomness(self.config.seed, number, current_replica()),
                sampling=sampling,
                alignment=alignment,
                guided_weight=self.config.guided_weight,
            )
            scaled = loss.total * self.stability.scale
        # The gradient is 0 for variables that do not affect the loss. An example is the target embedding without
        # ``reads_words``.
        unreached = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(scaled, [v.value for v in self.variables], unconnected_gradients=unreached)
        return [tf.convert_to_tensor(g) for g in gradients], loss

    def _apply_gradients(
        self, gradients: list[tf.Tensor], total: tf.Tensor, denominator: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        """Changes the weights if loss and gradients are finite. Returns the norm of the mean gradient."""
        divisor = denominator * self.stability.scale
        # outside XLA, which on a CPU adds the squares one by one
        norm = tf.linalg.global_norm([self.replicas.local(gradient) for gradient in gradients]) / divisor
        finite = tf.math.is_finite(norm) & tf.math.is_finite(total)

        def change_weights() -> None:
            self.optimizer.learning_rate.assign(rate)
            self.clip_and_apply(gradients, divisor, norm)

        tf.cond(finite, change_weights, lambda: None)
        self.stability.record(finite)
        return norm

    def _clip_and_apply(self, gradients: list[tf.Tensor], divisor: tf.Tensor, norm: tf.Tensor) -> None:
        """Divides the summed gradients, clips them (Pascanu, Mikolov, Bengio 2013) and changes the weights.

        Args:
            gradients: Sums over the batches, of any shapes.
            divisor: [] float32.
            norm: [] float32. Joint L2 norm of the divided gradients.
        """
        gradients = [gradient / divisor for gradient in gradients]
        if self.config.clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self.config.clip_norm, use_norm=norm)
        self.optimizer.apply(gradients, self.variables)

    def share_trace(self, batch: Batch) -> None:
        """Traces ``gradients`` once for batches of any shape. Does nothing without XLA, or for several replicas."""
        one_replica = not isinstance(self.replicas, StrategyReplicas)
        if self.uses_xla and one_replica:
            signature = tf.nest.map_structure(_of_any_size, self.arguments(batch, 0))
            self.gradients.get_concrete_function(*signature)  # tf.function uses the most general trace that fits


def _of_any_size(tensor: tf.Tensor | None) -> tf.TensorSpec | None:
    """Returns the signature of a tensor of any size and of its rank."""
    return None if tensor is None else tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)
