"""Uses of private parts of TensorFlow and Keras, collected in one module. Look here if an upgrade fails."""

from collections.abc import Iterator

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.framework import ops


def optimization_barrier(x: tf.Tensor) -> tf.Tensor:
    """Returns ``x`` and keeps XLA from moving operations across it. For functions that XLA compiles."""
    [same] = gen_xla_ops.xla_optimization_barrier([x])
    return same


def start_names_anew() -> None:
    """Makes the names of functions that are traced from now on the same in every process.

    A traced function's name ends in a counter of all functions and eager tensors of the process. XLA's persistent
    cache finds a function by its name and content. This call advances the counter to the next multiple of 2^20. That
    multiple is the same in all processes that trace the same functions, even if their counters differ a little.
    """
    while ops.uid() % 2**20:
        pass


def keep_gradients_as_given(optimizer: keras.optimizers.Optimizer) -> None:
    """Stops the optimizer from adding the gradients of all replicas.

    Keras adds them when it applies them under a strategy. The training step has already added them, because it clips
    the norm of their sum.
    """
    optimizer._all_reduce_sum_gradients = lambda pairs: pairs


def batches_seen(optimizer: keras.optimizers.Optimizer) -> tf.Tensor:
    """Returns the number of batches before this one. The public ``iterations`` counts updates, of several batches."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # a LossScaleOptimizer counts nothing itself
    return inner._iterations.value


def inner_layers(layer: keras.layers.Layer, path: str = "") -> Iterator[tuple[str, keras.layers.Layer]]:
    """Yields all layers inside a layer with their paths, such as "source_layer_0/self_attention"."""
    for inner in layer._layers:
        yield f"{path}{inner.name}", inner
        yield from inner_layers(inner, f"{path}{inner.name}/")


def layers_of(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a layer and all layers inside it."""
    return layer._flatten_layers()
