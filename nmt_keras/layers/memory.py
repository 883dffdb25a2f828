"""The encoded sentence as the decoder reads it."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class CachedProjections(NamedTuple):
    """What a decoder's matrices make of annotations h_j. Their weighted sums are the same of the contexts.

        C c_i = C (SUM_j alpha_ij h_j) = SUM_j alpha_ij (C h_j)

    So a search multiplies each annotation once, not each hypothesis's context at each step.
    """

    cell: Any  # [B, S, parts · U] float: C h_j, or C c_i [B, Q, parts · U]; () where the cell reads no context
    output: Any  # [B, S, ...] float: the same for the readout's matrix; h_j itself where it has none of the kind


class Memory(NamedTuple):
    """An encoded sentence as the decoder sees it. It is never tiled: hypotheses share it."""

    values: tf.Tensor  # [B, S, D] float: the annotations h_j
    keys: Any  # nest of [B, ...]: what an attention computes of them once for a sentence, such as U_a h_j [B, S, A]
    mask: tf.Tensor  # [B, S] bool: True at tokens, False at padding
    lengths: tf.Tensor  # [B] int32: tokens
    states: Any  # nest of [B, U]: the encoder's last states
    projections: Any = ()  # CachedProjections of the annotations, where a search has taken it; () in training
