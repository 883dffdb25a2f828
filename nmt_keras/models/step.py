"""The result of one step of a search."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class Step(NamedTuple):
    """What a decoder says of the next token of every hypothesis."""

    logits: tf.Tensor  # [B, Q, V] float
    alignment: tf.Tensor  # [B, Q, S] float
    state: Any  # nest of [B, Q, ...]
