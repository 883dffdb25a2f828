"""Products of a context with a matrix, computed from products of the annotations: C c_i = SUM_j alpha_ij (C h_j).

A decoder multiplies c_i = SUM_j alpha_ij h_j by a matrix C of its cell and by one of its output layer, at every step.
The annotations do not change from step to step, so here both matrices multiply them once per sentence. Gain
with ``conditional-gru`` (docs/speed-history.md): updates 1.13 times as fast, one sentence by beam search 1.13 to 1.18
times. Without this module, ``Attention.context`` returns ``weighted_sum`` of the annotations, and nothing else changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    import keras

    from nmt_keras.layers.attention import Attention, AttentionWeights
    from nmt_keras.layers.base import Part
    from nmt_keras.layers.memory import Memory


class Context:
    """The contexts c_i [B, Q, D] of all queries. TensorFlow converts them to a tensor where one is needed."""

    def __init__(self, attention: Attention, weights: AttentionWeights, memory: Memory):
        self._attention, self._weights, self._memory = attention, weights, memory

    def times(self, kernel: keras.Variable) -> tf.Tensor | None:
        """Returns C c_i, if ``products`` has multiplied the annotations by ``kernel``; else None."""
        product = (self._memory.products or {}).get(kernel.path)
        return None if product is None else self._attention.weighted_sum(self._weights, product)

    def __tf_tensor__(self, dtype: tf.DType | None = None, name: str | None = None) -> tf.Tensor:
        """Returns c_i."""
        summed = self._attention.weighted_sum(self._weights, self._attention.vectors(self._memory))
        return summed if dtype is None else tf.cast(summed, dtype)


def products(vectors: tf.Tensor, readers: list[Part]) -> dict[str, tf.Tensor]:
    """Returns C h_j for the ``context_kernel`` C [D, P] of each layer that has one, by the kernel's path.

    Args:
        vectors: [B, S, D] float, the annotations.
        readers: Layers that multiply contexts.
    """
    kernels = [(layer, getattr(layer, "context_kernel", None)) for layer in readers]
    return {
        kernel.path: layer.matmul(vectors, kernel)
        for layer, kernel in kernels
        if kernel is not None and kernel.shape[0] == vectors.shape[-1]
    }
