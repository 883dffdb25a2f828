"""Ranking: what makes one hypothesis better than another of a different length (Wu et al. 2016, section 7).

    s(Y, X) = log P(Y | X) / lp(Y) + cp(X; Y)                                       (equation 14)
    cp(X; Y) = beta * SUM_j log(min(SUM_i alpha_ij, 1))

|Y| counts tokens, END included; i runs over all of them, j over the source's tokens, END included. log P and cp are at
most 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

_LEAST = 1e-37
"""What a source token's attention counts as where it is less, 0 even: such a hypothesis ranks last but stays one."""

LengthPenalty = Callable[[tf.Tensor], tf.Tensor]
"""lp(Y) > 0 for lengths |Y| (float32, tokens) of any shape. It does not fall as |Y| grows: stopping relies on it."""


def plain_length(alpha: float) -> LengthPenalty:
    """lp(Y) = |Y|^alpha: 1 ranks by the mean log-probability of a token, 0 by that of the sentence."""
    return lambda lengths: tf.pow(lengths, alpha)


def gnmt_length(alpha: float) -> LengthPenalty:
    """lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14): milder than the plain one on short sentences."""
    return lambda lengths: tf.pow((5.0 + lengths) / 6.0, alpha)


class Coverage(NamedTuple):
    """The coverage penalty's settings."""

    beta: float  # its weight, 0 or more
    source_mask: tf.Tensor  # [B, S] bool: True at the source's tokens, False at padding


class Ranking(NamedTuple):
    """How hypotheses are compared: by log-probability over ``length_penalty``, plus the coverage penalty if any."""

    length_penalty: LengthPenalty = plain_length(1.0)
    coverage: Coverage | None = None

    def score(self, log_probs: tf.Tensor, lengths: tf.Tensor, attention: Any) -> tf.Tensor:
        """s(Y, X) of hypotheses [B, K].

        Args:
            log_probs: [B, K] float32, log P(Y | X) in nats.
            lengths: int32 tokens, [B, K] or what fits it.
            attention: [B, K, S] float32, SUM_i alpha_ij, as ``unattended`` began it; () without coverage.
        """
        scores = log_probs / self.length_penalty(tf.cast(lengths, tf.float32))
        if self.coverage is None:
            return scores
        covered = tf.clip_by_value(attention, _LEAST, 1.0)
        return scores + self.coverage.beta * tf.reduce_sum(tf.math.log(covered), axis=-1)

    def unattended(self) -> tf.Tensor:
        """SUM_i alpha_ij before the first token, [B, S] float32: 0 at tokens, 1 at padding, where it costs nothing."""
        if self.coverage is None:
            raise ValueError("Ranking.coverage: expected a Coverage, received None. Pass one to keep account of it.")
        return 1.0 - tf.cast(self.coverage.source_mask, tf.float32)


PER_TOKEN = Ranking()
"""Ranks by the mean log-probability of a token."""
