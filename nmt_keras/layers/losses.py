"""Masked cross-entropy with label smoothing, in nats."""

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.layers.base import Masked
from nmt_keras.layers.dropout import require_rates

SMALLEST = float(np.finfo(np.float32).tiny)
"""Minimum attention weight that contributes to guided alignment: the smallest normal float32."""


class LossSums(NamedTuple):
    """Sums over the real tokens of a batch, END included. Training differentiates ``total``."""

    total: tf.Tensor  # [] float32, nats: smoothed cross-entropy, plus the guided alignment loss if there is one
    cross_entropy: tf.Tensor  # [] float32, nats: cross-entropy without smoothing
    correct: tf.Tensor  # [] float32: tokens whose most probable prediction is the label
    tokens: tf.Tensor  # [] float32: real tokens


def masked_cross_entropy(logits: tf.Tensor, labels: tf.Tensor, mask: tf.Tensor, smoothing: float = 0.0) -> LossSums:
    """Sums -SUM_v q_v log p_v over real tokens, where q = (1 - smoothing) · one-hot(label) + smoothing / V.

    Label smoothing follows Szegedy et al. 2016, section 7. The loss is not averaged, because the training step divides
    the summed gradients once by the global denominator.

    Args:
        logits: [B, T, V] float. The loss is computed in float32.
        labels: [B, T] int.
        mask: [B, T] bool. ``True`` at real tokens. Finite logits and labels of padding have no effect.
        smoothing: Float in [0, 1). Probability mass spread evenly over the vocabulary.
    """
    total, cross_entropy, hits = _token_losses(logits, labels, smoothing)
    real = tf.reshape(tf.cast(mask, tf.float32), [-1])
    return LossSums(
        total=tf.reduce_sum(real * total),
        cross_entropy=tf.reduce_sum(real * cross_entropy),
        correct=tf.reduce_sum(real * tf.cast(hits, tf.float32)),
        tokens=tf.reduce_sum(real),
    )


@keras.saving.register_keras_serializable("nmt_keras")
class MaskedCrossEntropy(keras.losses.Loss):
    """Mean smoothed cross-entropy of the target ids that are not PAD, in nats; see ``masked_cross_entropy``.

    Args:
        label_smoothing: Float in [0, 1).

    Example:
        >>> labels, logits = tf.constant([[1, 2, 0]]), tf.zeros([1, 3, 8])  # PAD is 0
        >>> round(float(MaskedCrossEntropy()(labels, logits)), 4)  # log 8
        2.0794
    """

    def __init__(self, label_smoothing: float = 0.0, name: str = "masked_cross_entropy", **kwargs: object) -> None:
        super().__init__(name=name, **kwargs)
        require_rates(label_smoothing=label_smoothing)
        self.label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Returns the loss of each token [B, T] for ids ``y_true`` [B, T] and logits ``y_pred`` [B, T, V]."""
        labels = tf.cast(y_true, tf.int32)
        losses, *_ = _token_losses(y_pred, labels, self.label_smoothing)
        losses = tf.reshape(losses, tf.shape(labels))
        return Masked(autocast=False)(losses, mask=tf.not_equal(labels, PAD))

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def guided_alignment(alignment: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """Alignment loss -SUM_t SUM_s A_ts log alpha_ts, in nats.

    The loss is equation 8 of Chen, Matusov, Khadivi, Peter 2016, summed over t instead of averaged. All losses here are
    sums. A link with alpha below ``SMALLEST`` adds nothing, because its gradient -A / alpha would be infinite. An
    example is a link outside the window of local attention.

    Args:
        alignment: alpha, [B, T, S] float. Each row sums to 1.
        wanted: A, [B, T, S] float32. Each row sums to 1. The row of a token without links is 0 and adds nothing.

    Returns:
        [] float32.
    """
    alpha = tf.cast(alignment, tf.float32)
    seen = alpha >= SMALLEST
    return -tf.reduce_sum(wanted * tf.math.log(tf.where(seen, alpha, 1.0)))


def _token_losses(logits: tf.Tensor, labels: tf.Tensor, smoothing: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns three tensors [B · T]: the smoothed cross-entropy, -log p_label, and hits.

    A hit is ``True`` if the label is the most probable token.

    Args:
        logits: [B, T, V] float.
        labels: [B, T] int.
        smoothing: See ``masked_cross_entropy``.
    """
    flat = tf.reshape(tf.cast(logits, tf.float32), [-1, logits.shape[-1]])
    label_logits = tf.gather(flat, tf.reshape(labels, [-1]), batch_dims=1)
    normaliser = tf.reduce_logsumexp(flat, axis=-1)
    cross_entropy = normaliser - label_logits
    uniform = normaliser - tf.reduce_mean(flat, axis=-1)  # -1/V SUM_v log p_v
    hits = label_logits >= tf.reduce_max(flat, axis=-1)
    return (1.0 - smoothing) * cross_entropy + smoothing * uniform, cross_entropy, hits


@keras.saving.register_keras_serializable("nmt_keras")
class MeanMetric(keras.metrics.MeanMetricWrapper):
    """The mean of a function of labels and logits: of each token, where Keras's mask is True; or of a whole batch.

    Example:
        >>> accuracy = MeanMetric(lambda y, logits: tf.reduce_mean(tf.cast(y == 1, tf.float32)), name="accuracy")
        >>> accuracy.update_state(tf.constant([[1, 1, 2, 2]]), tf.zeros([1, 4, 8]))
        >>> float(accuracy.result())
        0.5
    """

    def update_state(self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None) -> None:
        """Adds a batch. A scalar, as the tutorial's ``masked_acc`` returns, has neither mask nor weights."""
        found = self._fn(y_true, y_pred, **self._fn_kwargs)
        if len(found.shape) == 0:
            keras.metrics.Mean.update_state(self, found)
        else:
            super().update_state(y_true, y_pred, sample_weight)


def with_scalars(metrics: Any) -> Any:
    """Returns the metrics of ``compile``, in which functions may return one number for a batch."""
    if isinstance(metrics, list | tuple):
        return [with_scalars(each) for each in metrics]
    is_function = callable(metrics) and not isinstance(metrics, keras.metrics.Metric | type)
    name = getattr(metrics, "name", None) or getattr(metrics, "__name__", type(metrics).__name__)
    return MeanMetric(metrics, name=name) if is_function else metrics
