"""State of the exported functions: weights in float32 or float16, tables and tokenizers."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from nmt_keras.config import require

if TYPE_CHECKING:
    import keras

    from nmt_keras.translation.model_translator import ModelTranslator


STORED = tf.float16
"""Half precision. bfloat16 has too few mantissa bits for weights (three fewer), and more exponent bits than needed."""


def is_halved(weight: tf.Variable | keras.Variable, half_precision: bool) -> bool:
    """Returns ``True`` if an export stores ``weight`` in half precision."""
    return half_precision and tf.as_dtype(weight.dtype) == tf.float32


def as_float16(values: np.ndarray, name: str, where: str, hint: str) -> np.ndarray:
    """Returns the values of the weight ``name`` in half precision.

    Args:
        values: Values of the weight.
        name: Name of the weight.
        where: Name of the option that asks for half precision.
        hint: Remedy, as a sentence at the end of an error.

    Raises:
        ValueError: the weight is too large.
    """
    largest = np.abs(values).max()
    require(bool(largest <= STORED.max), where, f"weights of at most {STORED.max:g}", f"{largest:g} in {name}", hint)
    return values.astype(STORED.as_numpy_dtype)


class Resources(tf.Module):
    """Tracks the weights, tables and tokenizers that the exported functions read.

    A SavedModel with Keras's own variables restores copies that no function reads. TensorFlow's Python loader accepts
    this, but in TensorFlow Serving every request would fail. Therefore the underlying ``tf.Variable`` objects are
    saved.

    Args:
        translator: The translator whose functions are exported.
        half_precision: If ``True``, stores the weights in float16; see ``HalfPrecisionWeight``.

    Raises:
        ValueError: a weight is too large for float16.
    """

    def __init__(self, translator: ModelTranslator, half_precision: bool = False):
        super().__init__(name="translator")
        self.codec = translator.codec
        self.unknown_words = translator.unknown_words
        weights = [variable.value for variable in translator.model.variables]
        self.half_precision_weights = [HalfPrecisionWeight(each) for each in weights if is_halved(each, half_precision)]
        self.weights = [weight for weight in weights if not is_halved(weight, half_precision)]
        # a TrackableResource tracks no variables itself
        self.stored = [weight.stored for weight in self.half_precision_weights]


class HalfPrecisionWeight(tf.saved_model.experimental.TrackableResource):
    """A float32 weight that is stored as float16 and converted when the export is loaded.

    Functions read the handle of ``weight``. In the export, this handle belongs to a variable that is not stored. It is
    initialised like a table, after the stored variables are restored. Files are half as large, computation is
    unchanged, and weights take 1.5 times the memory on a server.

    Args:
        weight: The weight that the functions read.

    Raises:
        ValueError: the weight is too large for float16.
    """

    def __init__(self, weight: tf.Variable):
        super().__init__()
        half = as_float16(weight.numpy(), weight.name, "half_precision", "Export in full precision.")
        self.stored = tf.Variable(half, trainable=False)
        self._weight = weight
        self._name = f"half-precision-{uuid.uuid4()}"  # two versions in one process must not share a variable
        assert self.resource_handle is weight.handle  # creates the handle now, in eager mode

    def _create_resource(self) -> tf.Tensor:
        if tf.executing_eagerly():
            return self._weight.handle
        return tf.raw_ops.VarHandleOp(dtype=self._weight.dtype, shape=self._weight.shape, shared_name=self._name)

    def _initialize(self) -> None:
        value = tf.cast(self.stored, self._weight.dtype)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)
