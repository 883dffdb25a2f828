"""Ranking: the score that compares hypotheses of different lengths (Wu et al. 2016, section 7).

    s(Y, X) = log P(Y | X) / lp(Y) + cp(X; Y)                                       (equation 14)
    cp(X; Y) = beta * SUM_j log(min(SUM_i alpha_ij, 1))

|Y| counts tokens, END included. i runs over these tokens, j over the source's tokens, END included. log P and cp are at
most 0.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

# lp(Y) > 0 for lengths |Y| (float32, tokens) of any shape. It must not fall as |Y| grows, because the
# stopping criterion relies on this.
LengthPenalty = Callable[[tf.Tensor], tf.Tensor]


def plain_length(alpha: float) -> LengthPenalty:
    """Returns the penalty lp(Y) = |Y|^alpha.

    With ``alpha`` 1, hypotheses rank by mean log-probability per token. With 0, they rank by total log-probability.
    """
    return lambda lengths: tf.pow(lengths, alpha)


def gnmt_length(alpha: float) -> LengthPenalty:
    """Returns the penalty lp(Y) = ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14). It is at most |Y|^alpha."""
    return lambda lengths: tf.pow((5.0 + lengths) / 6.0, alpha)


class Ranking(NamedTuple):
    """Scores hypotheses by log-probability divided by ``length_penalty``, plus the coverage penalty.

    By default, the score is the mean log-probability per token.
    """

    length_penalty: LengthPenalty = plain_length(1.0)
    coverage_beta: float = 0.0  # weight of the coverage penalty

    def score(
        self, log_probs: tf.Tensor, lengths: tf.Tensor, alignments: tf.Tensor, source_mask: tf.Tensor
    ) -> tf.Tensor:
        """Returns s(Y, X) of hypotheses, [b, Q] float32.

        Args:
            log_probs: [b, Q] float32, log P(Y | X) in nats.
            lengths: [b, Q] int32, numbers of tokens, at least 1.
            alignments: [b, Q, T, S] float32, alpha_ij; 0 after the last token.
            source_mask: [b, S] bool: True at the tokens of the source. Padding has penalty 0.
        """
        scores = log_probs / self.length_penalty(tf.cast(lengths, tf.float32))
        if not self.coverage_beta:
            return scores
        covered = tf.where(source_mask[:, tf.newaxis], tf.reduce_sum(alignments, axis=2), 1.0)
        covered = tf.clip_by_value(covered, 1e-37, 1.0)  # above 0, so that the score of an unattended token is finite
        return scores + self.coverage_beta * tf.reduce_sum(tf.math.log(covered), axis=-1)


PER_TOKEN = Ranking()
