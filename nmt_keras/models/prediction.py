"""The interface between models and searches."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from nmt_keras.layers.base import Nest


class Prediction(NamedTuple):
    """A model's prediction of the next token of every hypothesis."""

    logits: tf.Tensor  # [B, Q, V] float
    alignment: tf.Tensor  # [B, Q, S] float
    state: Nest  # nest of [B, Q, ...]: after the last tokens


StepFunction = Callable[[tf.Tensor, Nest, Nest], Prediction]
"""One step of a search. Arguments: last tokens [B, Q] int32; state, nest of [B, Q, ...]; memory, nest of [B, ...].
Open ``weights_read_once`` around the search."""
