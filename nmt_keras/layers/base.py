"""The base class of our layers."""

from abc import ABC
from typing import Any, Self, TypeAlias

import keras
import tensorflow as tf

from nmt_keras.config import without_removed
from nmt_keras.layers.initializers import initializer_of

Shape: TypeAlias = tuple[Any, ...]
"""Sizes of a tensor's axes: int, or None where a size is not known."""

Nest: TypeAlias = Any
"""Nest of tensors, as in ``tf.nest``: a tensor, None, or a tuple of nests."""


class BaseLayer(keras.layers.Layer, ABC):
    """A layer whose variables are not cast when they are read.

    Inside a loop, Keras would cast a variable at every position. ``layers.matmul`` casts each matrix once.

    Args:
        initializer: Scheme of the initial weights; see ``layers.initializers``. The default is "glorot".
    """

    def __init__(self, **kwargs: object) -> None:
        initializer = str(kwargs.pop("initializer", "glorot"))
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.initializer = initializer

    def add_weight(
        self,
        shape: Shape,
        initializer: str | keras.initializers.Initializer,
        *,
        role: str = "kernel",
        **kwargs: object,
    ) -> keras.Variable:
        """Creates a weight.

        Args:
            shape: Sizes of the weight.
            initializer: Initializer in the scheme "glorot".
            role: Role of the weight in the other schemes; see ``layers.initializers``.
            kwargs: As in Keras.
        """
        return super().add_weight(shape, initializer_of(self.initializer, role, initializer), **kwargs)

    @classmethod
    def from_config(cls, config: dict[str, object]) -> Self:
        """Creates a layer from the result of ``get_config``."""
        return super().from_config(deserialize(cls, config))

    def cast(self, x: tf.Tensor | keras.Variable) -> tf.Tensor:
        """Returns a variable or tensor in this layer's compute dtype."""
        return tf.cast(x, self.compute_dtype)


def layer_norm(units: int, name: str, dtype: keras.DTypePolicy) -> keras.layers.LayerNormalization:
    """Returns a built layer normalisation (Ba, Kiros, Hinton 2016) of vectors of size ``units``."""
    layer = keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name=name)
    layer.build((None, None, units))
    return layer


def token_embedding(
    vocabulary_size: int, size: int, initializer: str, dtype: keras.DTypePolicy
) -> keras.layers.Embedding:
    """Returns the embedding of the tokens of one side, [V, E], with initial weights of the scheme ``initializer``."""
    weights = initializer_of(initializer, "kernel", "uniform")
    return keras.layers.Embedding(vocabulary_size, size, weights, dtype=dtype.name, name="embedding")


def serialize(layer: keras.layers.Layer) -> dict[str, object]:
    """Returns the configuration of a layer that is an argument of another layer, which will build it."""
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


def deserialize(kind: type, config: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the constructor of ``kind`` from the result of ``get_config``."""
    build, config = keras.saving.deserialize_keras_object, without_removed(kind, config, f"{kind.__name__}.")
    return {name: value if name == "dtype" else build(value) for name, value in config.items()}
