"""The encoded sentences as the decoder reads them."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class Memory(NamedTuple):
    """Fields of an ``Encoding``, and tensors that are computed from it once per sentence.

    The hypotheses of a sentence share one row.
    """

    values: tf.Tensor  # [B, S, D] float: annotations h_j
    keys: Any  # nest of [B, ...]: results of ``Attention.keys``, such as U_a h_j; None without attention
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: number of tokens of each sentence
    states: Any  # nest of [B, U]: the encoder's last states
    cell_values: tf.Tensor | None = None  # [B, S, projections · U] float: C h_j; None if the cell does not read c_i
    output_values: tf.Tensor | None = None  # [B, S, ...] float: C_o h_j of the output layer; None without attention
