"""The encoded sentence as the decoder reads it."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class Memory(NamedTuple):
    """An encoded batch as the decoder reads it. It is never tiled: the hypotheses of a sentence share it."""

    values: tf.Tensor  # [B, S, D] float: annotations h_j
    keys: Any  # nest of [B, ...]: what the attention computes once per sentence, such as U_a h_j; None without
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: tokens
    states: Any  # nest of [B, U]: the encoder's last states
