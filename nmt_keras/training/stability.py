"""Non-finite updates: counters of skipped updates, and the loss scale of float16."""

import tensorflow as tf

FIRST_LOSS_SCALE, UPDATES_TO_DOUBLE = 2.0**15, 2000
"""First loss scale, and consecutive finite updates after which it doubles: those of
``keras.optimizers.LossScaleOptimizer``, which keeps no account of skipped updates."""


class Stability(tf.Module):
    """Counts skipped updates and holds the loss scale. Both change in the graph.

    In float16, the loss scale keeps small gradients from becoming 0 (Micikevicius et al. 2018, section 3.2). Gradients
    are divided by the scale afterwards. The scale halves after a non-finite update, and doubles after
    ``UPDATES_TO_DOUBLE`` consecutive finite updates. It is at least 1. For other precisions, it is always 1.

    Args:
        scales_loss: If ``True``, the loss is scaled.
    """

    def __init__(self, scales_loss: bool):
        super().__init__(name="stability")
        self.scales_loss = scales_loss
        self.skipped = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False)  # consecutive, including the last update
        self.longest_row = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.scale = tf.Variable(FIRST_LOSS_SCALE if scales_loss else 1.0, dtype=tf.float32, trainable=False)
        self.finite_updates = tf.Variable(0, dtype=tf.int64, trainable=False)  # since the last change of the scale

    def record(self, finite: tf.Tensor) -> None:
        """Counts an update and adjusts the loss scale.

        The first scale is too large by design, so skipped updates count as consecutive only at a scale of 1.

        Args:
            finite: [] bool. ``False`` if the update was skipped.
        """
        skipped = tf.cast(~finite, tf.int64)
        self.skipped.assign_add(skipped)
        self.in_a_row.assign(skipped * tf.cast(self.scale <= 1.0, tf.int64) * (self.in_a_row + 1))
        self.longest_row.assign(tf.maximum(self.longest_row, self.in_a_row))
        if self.scales_loss:
            updates = tf.cast(finite, tf.int64) * (self.finite_updates + 1)
            growth = tf.where(updates == UPDATES_TO_DOUBLE, 2.0, 1.0)
            self.scale.assign(tf.maximum(1.0, self.scale * tf.where(finite, growth, 0.5)))
            self.finite_updates.assign(updates % UPDATES_TO_DOUBLE)
