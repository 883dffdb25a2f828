"""Non-finite updates: counters of skipped updates, and the loss scale of float16."""

from __future__ import annotations

import tensorflow as tf

FIRST_LOSS_SCALE = 2.0**15

UPDATES_TO_DOUBLE = 2000
"""Consecutive finite updates after which the loss scale doubles. Micikevicius et al. 2018 give no number."""


class SkippedUpdates(tf.Module):
    """Counters of skipped updates, incremented in the graph."""

    def __init__(self) -> None:
        super().__init__(name="skipped")
        self.total = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.in_a_row = tf.Variable(0, dtype=tf.int64, trainable=False)  # consecutive, including the last update
        self.longest_row = tf.Variable(0, dtype=tf.int64, trainable=False)

    def count(self, finite: tf.Tensor, in_a_row: tf.Tensor | bool = True) -> None:
        """Counts an update.

        Args:
            finite: [] bool. ``False`` if the update was skipped.
            in_a_row: [] bool. If ``False``, a skipped update resets ``self.in_a_row`` to 0.
        """
        skipped = tf.cast(~finite, tf.int64)
        self.total.assign_add(skipped)
        self.in_a_row.assign(skipped * tf.cast(in_a_row, tf.int64) * (self.in_a_row + 1))
        self.longest_row.assign(tf.maximum(self.longest_row, self.in_a_row))


class LossScale(tf.Module):
    """Loss scale for float16, which keeps small gradients from becoming 0 (Micikevicius et al. 2018, section 3.2).

    Gradients are divided by the scale afterwards. The scale halves after a non-finite update, and doubles after
    ``UPDATES_TO_DOUBLE`` consecutive finite updates. It is at least 1.
    """

    def __init__(self) -> None:
        super().__init__(name="loss_scale")
        self.value = tf.Variable(FIRST_LOSS_SCALE, dtype=tf.float32, trainable=False)
        self.finite_updates = tf.Variable(0, dtype=tf.int64, trainable=False)  # since the last change of the scale

    def adjust(self, finite: tf.Tensor) -> None:
        """Adjusts the scale after an update.

        Args:
            finite: [] bool. ``False`` if the update was skipped.
        """
        updates = tf.cast(finite, tf.int64) * (self.finite_updates + 1)
        growth = tf.where(updates == UPDATES_TO_DOUBLE, 2.0, 1.0)
        self.value.assign(tf.maximum(1.0, self.value * tf.where(finite, growth, 0.5)))
        self.finite_updates.assign(updates % UPDATES_TO_DOUBLE)
