"""The base class of our layers."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

Shape = tuple[Any, ...]
"""Sizes of a tensor's axes: int, or None where a size is not known."""


class BaseLayer(keras.layers.Layer):
    """A layer whose variables are not cast when they are read.

    Inside a loop, Keras would cast a variable at every position. ``layers.matmul`` casts each matrix once.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True

    def cast(self, x: Any) -> tf.Tensor:
        """Returns a variable or tensor in this layer's compute dtype."""
        return tf.cast(x, self.compute_dtype)


def serialize(layer: keras.layers.Layer) -> dict[str, Any]:
    """Returns the configuration of a layer that is an argument of another layer, which will build it."""
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config
