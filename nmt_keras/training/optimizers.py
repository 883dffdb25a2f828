"""Optimizers and gradient clipping."""

from __future__ import annotations

import keras
import tensorflow as tf

from nmt_keras.config import TrainConfig


def build_optimizer(config: TrainConfig, variables: list[keras.Variable]) -> keras.optimizers.Optimizer:
    """Returns the optimizer of ``config``, built, so that a checkpoint can restore its variables.

    The optimizer is Adam (Kingma, Ba 2015), AdamW (Loshchilov, Hutter 2019: decoupled weight decay), Adadelta (Zeiler
    2012) or plain SGD. AdamW does not decay vectors (biases and normalisation scales).
    """
    match config.optimizer:
        case "adadelta":
            optimizer = keras.optimizers.Adadelta(config.learning_rate, rho=config.rho, epsilon=config.epsilon)
        case "sgd":
            optimizer = keras.optimizers.SGD(config.learning_rate)
        case "adamw":
            optimizer = keras.optimizers.AdamW(
                config.learning_rate, config.weight_decay, beta_2=config.beta_2, epsilon=config.epsilon
            )
            optimizer.exclude_from_weight_decay(var_list=[v for v in variables if len(v.shape) < 2])
        case _:
            optimizer = keras.optimizers.Adam(config.learning_rate, beta_2=config.beta_2, epsilon=config.epsilon)
    optimizer.build(variables)
    return optimizer


def global_norm(gradients: list[tf.Tensor]) -> tf.Tensor:
    """Returns the joint L2 norm of gradients. The norm is non-finite if any gradient has a non-finite value.

    Call this outside XLA, because XLA on a CPU adds the squares one by one.

    Returns:
        [] float32.
    """
    return tf.sqrt(2.0 * tf.add_n([tf.nn.l2_loss(tf.cast(g, tf.float32)) for g in gradients]))


def clip(gradients: list[tf.Tensor], norm: tf.Tensor, clip_norm: float | None) -> list[tf.Tensor]:
    """Returns gradients scaled by min(1, clip_norm / norm) (Pascanu, Mikolov, Bengio 2013, algorithm 1).

    Args:
        gradients: Tensors of any shapes.
        norm: [] float32. Joint L2 norm of ``gradients``, from ``global_norm``.
        clip_norm: Maximum norm; ``None`` returns the gradients unchanged.
    """
    if clip_norm is None:
        return gradients
    scale = tf.minimum(1.0, clip_norm / tf.maximum(norm, 1e-30))
    return [g * tf.cast(scale, g.dtype) for g in gradients]
