"""The base class of the layers whose methods are called one by one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Self

import keras
import tensorflow as tf

from nmt_keras.layers.matmul import _having, _matrix_reader

Reader = Callable[[keras.Variable, str], tf.Tensor]
"""Gives a variable's value in a dtype."""

_reader: ContextVar[Reader] = ContextVar("reader", default=tf.cast)


def _reading(reader: Reader) -> AbstractContextManager[None]:
    """Lets ``reader`` answer whenever a part reads a variable."""
    return _having(_reader, reader)


class BaseLayer(keras.layers.Layer):
    """A layer whose methods are called one by one, past ``__call__``.

    So it casts its own variables to the compute dtype, and it declares them when it is constructed: a part knows all
    its sizes, and nothing is created inside a loop. Each argument of a constructor is an attribute of the same name,
    and so the configuration.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(autocast=False, **options)  # what is rounded stays so, also past __call__
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Marks the part as built: its constructor has made every variable and sublayer."""
        self.built = True

    def weight(self, name: str, shape: tuple[int, ...], initializer: str | keras.initializers.Initializer) -> Any:
        """Declares a trainable variable."""
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def value(self, variable: keras.Variable) -> tf.Tensor:
        """A variable's value in its own dtype."""
        return _reader.get()(variable, variable.dtype)

    def cast(self, x: Any) -> tf.Tensor:
        """``x`` (a variable or a tensor) in the dtype that this part computes in."""
        return _reader.get()(x, self.compute_dtype) if isinstance(x, keras.Variable) else tf.cast(x, self.compute_dtype)

    def matrix(self, x: Any) -> tf.Tensor:
        """As ``cast``, for ``product``; in the precision of ``rounded_matrices`` where that is entered."""
        read = _matrix_reader.get()
        return self.cast(x) if read is None else read(x)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments; layers among them serialised."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "options")]
        own = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in names}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The inverse of ``get_config``."""
        return cls(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})
