"""Attention: what the decoder remembers of a sentence, and how a query is answered from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from nmt_keras.cells import Part, product


class Memory(NamedTuple):
    """An encoded sentence as the decoder sees it. It is never tiled: hypotheses share it."""

    values: tf.Tensor  # [B, S, D] float: the annotations h_j
    keys: tf.Tensor  # [B, S, A] float: U_a h_j, computed once for a sentence
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: tokens
    states: Any  # nest of [B, U]: the encoder's last states


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """exp(e_j) / SUM_k exp(e_k) over the positions k where ``mask`` is True; exactly 0 elsewhere.

    Computed in float32 whatever the dtype of ``scores`` [B, Q, S] is, and returned in that dtype. ``mask`` is [B, S].
    Each row
    of it holds at least one True: every sentence ends in END.
    """
    logits = tf.where(mask[:, tf.newaxis, :], tf.cast(scores, tf.float32), tf.float32.min)
    return tf.cast(tf.nn.softmax(logits), scores.dtype)


@keras.saving.register_keras_serializable("nmt_keras")
class BahdanauAttention(Part):
    """Additive attention (Bahdanau, Cho, Bengio 2014, section 3.1 and appendix A.1.2).

        e_ij     = v_a · tanh(W_a s_{i-1} + U_a h_j)
        alpha_ij = exp(e_ij) / SUM_k exp(e_ik)                    over the source's tokens; padding gets 0
        c_i      = SUM_j alpha_ij h_j

    Our names: query s_{i-1}, values h_j, keys U_a h_j, ``query_kernel`` W_a, ``key_kernel`` U_a, ``energy`` v_a,
        alignment alpha.

    Args:
        units: A, the alignment model's hidden units (n' in the paper).
        query_size: width of s_{i-1}.
        value_size: D, width of h_j.
    """

    def __init__(self, units: int, query_size: int, value_size: int, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.query_size, self.value_size = units, query_size, value_size
        self.query_kernel = self.weight("query_kernel", (query_size, units), "glorot_uniform")
        self.key_kernel = self.weight("key_kernel", (value_size, units), "glorot_uniform")
        self.energy = self.weight("energy", (units,), keras.initializers.RandomNormal(stddev=units**-0.5))

    def keys(self, values: tf.Tensor) -> tf.Tensor:
        """U_a h_j for all positions: [B, S, D] -> [B, S, A]."""
        return product(values, self.cast(self.key_kernel))

    def align(self, query: tf.Tensor, memory: Memory) -> tf.Tensor:
        """alpha_ij: the alignment [B, Q, S] of queries [B, Q, U] with a memory."""
        hidden = tf.tanh(product(query, self.cast(self.query_kernel))[:, :, tf.newaxis] + memory.keys[:, tf.newaxis])
        # a product, not a sum over the last axis: XLA may not reorder a float sum, so on a CPU it adds one by one
        scores = product(hidden, self.cast(self.energy)[:, tf.newaxis])[..., 0]  # [B, Q, S]
        return masked_softmax(scores, memory.mask)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        sizes = {"units": self.units, "query_size": self.query_size, "value_size": self.value_size}
        return {**super().get_config(), **sizes}


def context(alignment: tf.Tensor, memory: Memory) -> tf.Tensor:
    """c_i = SUM_j alpha_ij h_j: alignments [B, Q, S] and a memory give contexts [B, Q, D]."""
    return tf.matmul(alignment, memory.values)
