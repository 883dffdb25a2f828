"""What exported functions read: weights, in full or in half precision, tables and tokenizers."""

from __future__ import annotations

import uuid

import numpy as np
import tensorflow as tf

from nmt_keras.translation.model_translator import ModelTranslator

STORED = tf.float16
"""Half precision: nearer to float32 than bfloat16, since weights need its three more bits, and not the exponent."""


class Resources(tf.Module):
    """What the exported functions read: weights, tables and tokenizers, and nothing of Keras.

    A SavedModel of Keras's own variables restores copies of them that no function reads. TensorFlow's Python loader
    does not mind, but in TensorFlow Serving every request would fail. So the variables below them are saved.

    Args:
        translator: whose functions are exported.
        half_precision: store the weights in float16; see ``Widened``.

    Raises:
        ValueError: a weight is too large for float16.
    """

    def __init__(self, translator: ModelTranslator, half_precision: bool = False):
        super().__init__(name="translator")
        self.texts = [translator.source_tokenizer, translator.target_tokenizer]
        self.unknown_words = translator.unknown_words
        self.shortlist = translator.shortlist if translator.search.shortlist else None
        variables = [variable.value for variable in translator.model.variables]
        floats = [variable for variable in variables if half_precision and variable.dtype == tf.float32]
        self.weights = [variable for variable in variables if all(variable is not one for one in floats)]
        self.stored = [_halved(variable) for variable in floats]
        self.widened = [Widened(*both) for both in zip(floats, self.stored, strict=True)]


class Widened(tf.saved_model.experimental.TrackableResource):
    """A weight in float32 that an export fills from its stored half when it is loaded.

    Functions go on reading the handle of ``weight``: in the export it stands for a variable that no file holds and
    that is initialised like a table, once the stored variables are restored. Computation is as fast as ever, a server
    holds half as much again in memory, and files take half the bytes.

    Args:
        weight: what functions read.
        stored: the same in half precision, which the export holds as a variable of its own.
    """

    def __init__(self, weight: tf.Variable, stored: tf.Variable):
        super().__init__()
        self._weight, self._stored = weight, stored
        self._name = f"widened-{uuid.uuid4()}"  # versions that one process holds must not share a variable
        assert self.resource_handle is weight.handle  # asked for here, where it is the live weight's

    def _create_resource(self) -> tf.Tensor:
        if tf.executing_eagerly():
            return self._weight.handle
        return tf.raw_ops.VarHandleOp(dtype=self._weight.dtype, shape=self._weight.shape, shared_name=self._name)

    def _initialize(self) -> None:
        value = tf.cast(self._stored, self._weight.dtype)
        tf.raw_ops.AssignVariableOp(resource=self.resource_handle, value=value)


def _halved(weight: tf.Variable) -> tf.Variable:
    half = tf.cast(weight, STORED)
    if not np.isfinite(half.numpy()).all():
        raise ValueError(
            f"half_precision: expected weights of at most {STORED.max:g}, received {np.abs(weight.numpy()).max():g} in "
            f"{weight.name}. Export in full precision."
        )
    return tf.Variable(half, trainable=False)
