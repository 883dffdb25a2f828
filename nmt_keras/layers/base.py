"""The base class of our layers and models: initial weights, precision, configurations."""

import inspect
from abc import ABC
from typing import Any, NoReturn, Self, TypeAlias

import keras
import tensorflow as tf

from nmt_keras.io.errors import require
from nmt_keras.io.startup import use_tensorflow_for_keras
from nmt_keras.layers.context import Context
from nmt_keras.layers.internals import inner_layers, layers_of
from nmt_keras.layers.matmul import matmul

use_tensorflow_for_keras()

Shape: TypeAlias = tuple[Any, ...]
"""Sizes of a tensor's axes: int, or None where a size is not known."""

Nest: TypeAlias = Any
"""Nest of tensors, as in ``tf.nest``: a tensor, None, or a tuple of nests."""

InitializerLike: TypeAlias = str | keras.initializers.Initializer
"""An initializer or its name, as in Keras."""


class Part(keras.layers.Layer, ABC):
    """Base of our layers and models.

    Each layer multiplies in the compute dtype of its own dtype policy, and converts its inputs to it. Its variables are
    not cast where they are read: inside a loop, Keras would cast a variable at every position. ``layers.matmul`` casts
    each matrix once.
    """

    _frozen: tuple[str, ...] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def add_weight(
        self, shape: Shape | None = None, initializer: InitializerLike | None = None, **kwargs: Any
    ) -> keras.Variable:
        """Creates a weight, as in Keras. Weights that share an initializer without a seed draw different numbers."""
        found = keras.initializers.get(initializer)
        fresh = found.clone() if isinstance(found, keras.initializers.Initializer) else found
        return super().add_weight(shape, fresh, **{"autocast": False, **kwargs})

    def compute_output_shape(self, *args: Nest, **kwargs: Nest) -> Nest:
        """Returns the shapes of the results of ``call``. The arguments are its shapes; keywords end in ``_shape``."""
        names = inspect.signature(self.call).parameters
        shapes = {**{f"{name}_shape": shape for name, shape in zip(names, args, strict=False)}, **kwargs}
        copy, read = self, inspect.signature(self.build).parameters
        if not self.built:  # a copy, which may draw weights
            copy = type(self).from_config(self.get_config())
            copy.build(**{name: shape for name, shape in shapes.items() if name in read})
        inputs = {name.removesuffix("_shape"): _symbolic(shape, self.compute_dtype) for name, shape in shapes.items()}
        try:
            results = keras.Operation.compute_output_spec(copy, **inputs)
        except TypeError as error:  # Keras's protocol: summary shows "?"
            raise NotImplementedError(f"Pass the shapes of all inputs of {type(self).__name__}. {error}") from error
        return keras.tree.map_structure(lambda x: None if x is None else x.shape, results)

    def compute_output_spec(self, *args: Nest, **kwargs: Nest) -> Nest:
        """Computes the results of ``call`` for symbolic tensors."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def cast(self, x: Nest) -> Nest:
        """Returns a variable or a nest of tensors in this layer's compute dtype."""
        return tf.nest.map_structure(lambda each: tf.cast(each, self.compute_dtype), x)

    def matmul(
        self,
        x: tf.Tensor | Context,
        kernel: keras.Variable,
        bias: keras.Variable | None = None,
        *,
        transpose: bool = False,
    ) -> tf.Tensor:
        """Returns x W + b in this layer's compute dtype; see ``layers.matmul``."""
        if isinstance(x, Context) and not transpose and (product := x.times(kernel)) is not None:
            return product if bias is None else product + self.cast(bias)
        return matmul(self.cast(x), kernel, bias, transpose=transpose)

    def quantize(self, mode: str, *_: object, **__: object) -> NoReturn:
        """Refuses, as Keras's own layers without quantisation do: it would convert some matrices, and leave others."""
        raise NotImplementedError(
            f"mode: expected no quantisation of {type(self).__name__}, received {mode}. Export the model with "
            "ExportConfig.half_precision, or build it with the dtype mixed_bfloat16."
        )

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments, and the paths of inner layers that are frozen."""
        given = _given(self)
        missing = [name for name in arguments(type(self)) if name not in given]
        require(
            not missing or type(self).get_config is not Part.get_config,
            type(self).__name__,
            "an attribute for each argument of the constructor",
            f"none for {', '.join(missing)}",
            "Set the attributes, or override get_config.",
        )
        config = {**super().get_config(), **{name: _serialize(value) for name, value in given.items()}}
        frozen = [path for path, layer in _own_layers(self) if not layer.trainable]
        return {**config, "frozen": frozen} if frozen and self.trainable else config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Creates a layer from the result of ``get_config``."""
        arguments = {name: value for name, value in config.items() if name != "frozen"}
        make = keras.saving.deserialize_keras_object
        layer = cls(**{name: value if name == "dtype" else make(value) for name, value in arguments.items()})
        layer._frozen = tuple(config.get("frozen", ()))
        layer.freeze()
        return layer

    def _post_build(self) -> None:
        """Freezes the layers that ``build`` has made. Keras calls this after ``build``."""
        super()._post_build()
        self.freeze()

    def freeze(self) -> None:
        """Freezes what was frozen when the configuration was made."""
        for path, layer in [("", self), *_own_layers(self)]:
            if not layer.trainable or path in self._frozen:
                for inner in layers_of(layer):  # one by one: Keras ignores a value that the attribute has already
                    inner.trainable = False
                self._frozen = tuple(each for each in self._frozen if each != path)  # once: it may be unfrozen later


class Masked(Part):
    """Attaches a mask to a tensor, which Keras's layers, losses and metrics read."""

    def call(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Returns ``x``."""
        return x


def _symbolic(shape: Nest, dtype: str) -> Nest:
    """Returns tensors of the given shapes, without values."""
    if hasattr(shape, "_fields"):
        return type(shape)(*(_symbolic(each, dtype) for each in shape))
    if shape and all(size is None or isinstance(size, int) for size in shape):
        return keras.KerasTensor(shape, dtype)
    return None if shape is None else type(shape)(_symbolic(each, dtype) for each in shape)


def arguments(kind: type) -> list[str]:
    """Returns the names of the constructor's arguments, which are also names of attributes.

    The ``**kwargs`` of our own layers are Keras's. Those of any other layer are the arguments of the layer it extends.
    """
    names: dict[str, None] = {}
    for each in (base for base in kind.__mro__ if "__init__" in vars(base)):
        _, *parameters = inspect.signature(vars(each)["__init__"]).parameters.values()
        takes_others = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        names |= {one.name: None for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
        if not takes_others or each.__module__.startswith(f"{__name__.partition('.')[0]}."):
            break
    return list(names)


def _given(layer: Part) -> dict[str, Any]:
    """Returns the constructor's arguments that are attributes: all, unless the layer overrides ``get_config``."""
    return {name: getattr(layer, name) for name in arguments(type(layer)) if hasattr(layer, name)}


def _own_layers(layer: Part) -> list[tuple[str, keras.layers.Layer]]:
    """Returns the layers that ``layer`` has made, by path: those of its arguments keep their own configurations."""
    given = tf.nest.flatten(list(_given(layer).values()))
    others = [inner for each in given if isinstance(each, keras.layers.Layer) for inner in layers_of(each)]
    return [(path, inner) for path, inner in inner_layers(layer) if not any(inner is each for each in others)]


def _serialize(value: object) -> object:
    """Returns the configuration of an argument. Another layer that is an argument is built by its owner."""
    config = keras.saving.serialize_keras_object(value)
    for each in config if isinstance(config, list) else [config]:
        if isinstance(each, dict):
            each.pop("build_config", None)
    return config


def require_layer(name: str, value: object, kind: type[Part], example: str) -> None:
    """Raises TypeError unless the argument ``name`` of a layer is a layer of class ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected a layer of class {kind.__name__}, such as {example}, received {value!r}.")


def layer_norm(units: int, name: str, layer: Part) -> keras.layers.LayerNormalization:
    """Returns a layer normalisation (Ba, Kiros, Hinton 2016) of vectors of size ``units``, for a layer."""
    norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=layer.dtype_policy, name=name)
    norm.build((None, None, units))
    return norm
