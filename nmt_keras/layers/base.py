"""The base class of our layers."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from nmt_keras.layers.matmul import Precision, compute_dtype_weights


class Weights(SimpleNamespace):
    """A layer's weights as tensors, under the names of the layer's attributes.

    A matrix is a ``Weight``; a vector is a tensor in the layer's compute dtype; an embedding is its table; a layer
    normalisation is its scale and its shift; a sublayer's weights are nested.
    """


class BaseLayer(keras.layers.Layer):
    """A layer whose equations are functions of tensors.

    Methods that compute take the layer's weights as their first argument. Call ``read_weights`` once before a loop, and
    use the result inside the loop. If a loop reads a variable, TensorFlow's gradient keeps a copy of it for every step.
    Bridges and ``layers.cudnn`` run outside loops and read variables themselves.

    Most layers have no ``call``, because a decoder calls their methods at different times: once per sentence, inside a
    loop, or after it. Encoders, decoders and attentions also have a ``call``.

    A constructor declares every variable, because its arguments give all sizes. Each argument is stored under its own
    name, so ``get_config`` needs no code in subclasses.
    """

    computed_arguments: ClassVar[tuple[str, ...]] = ()
    """Arguments of a base class's constructor that this class computes from its own arguments."""

    def __init__(self, **options: Any) -> None:
        super().__init__(autocast=False, **options)  # each layer casts where its equations need it
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Marks the layer as built."""
        self.built = True

    def read_weights(self, precision: Precision = compute_dtype_weights) -> Weights:
        """Returns the weights of this layer and its sublayers as tensors.

        These are all public attributes that are variables or layers, or lists of them.

        Args:
            precision: Function that converts each matrix to a ``Weight``; see ``layers.matmul``.
        """
        attributes = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        read = {name: self._read_attribute(value, precision) for name, value in attributes.items()}
        return Weights(**{name: value for name, value in read.items() if value is not None})

    def _read_attribute(self, value: Any, precision: Precision) -> Any:
        if isinstance(value, keras.Variable):
            return precision(value, self.compute_dtype) if len(value.shape) == 2 else self.cast(value)
        if isinstance(value, keras.layers.Embedding):
            return tf.convert_to_tensor(value.embeddings)
        if isinstance(value, keras.layers.LayerNormalization):
            return [tf.convert_to_tensor(value.gamma), tf.convert_to_tensor(value.beta)]
        if isinstance(value, BaseLayer):
            return value.read_weights(precision)
        if isinstance(value, list):
            return [self._read_attribute(item, precision) for item in value]
        return None

    def cast(self, x: Any) -> tf.Tensor:
        """Returns a variable or tensor in this layer's compute dtype."""
        return tf.cast(x, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructors of this class and its bases. Layers among them are serialized."""
        constructors = [base.__init__ for base in type(self).__mro__ if issubclass(base, BaseLayer)]
        names = {name for constructor in constructors for name in inspect.signature(constructor).parameters}
        names -= {"self", "options", *self.computed_arguments}
        own = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in sorted(names)}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Creates a layer from the result of ``get_config``."""
        return cls(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})
