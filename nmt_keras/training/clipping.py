"""Clipping of the joint norm of gradients."""

import tensorflow as tf


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
