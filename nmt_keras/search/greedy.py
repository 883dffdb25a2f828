"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates
from nmt_keras.search.contract import Hypotheses, StepFunction
from nmt_keras.search.loop import Choice, Situation, explore
from nmt_keras.search.ranking import PER_TOKEN, Ranking


def greedy(
    step: StepFunction,
    state: Any,
    memory: Any,
    limits: tf.Tensor,
    *,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Takes the most probable token at every step: beam search of width 1, without what a beam needs.

    Args:
        step, state, memory, limits, ranking, constraints: as for :func:`~nmt_keras.search.beam_search`.

    Returns:
        Hypotheses with K = 1.
    """

    def rule(now: Situation) -> Choice:
        found = candidates(now.logits, 1, constraints, now.time, now.hints)
        best = tf.argmax(found.log_probs, axis=-1, output_type=tf.int32)[..., tf.newaxis]  # [b, 1, 1]
        ids = tf.gather(found.ids, best, batch_dims=2)[..., 0]
        return _gone_on(now, ids, tf.reduce_max(found.log_probs, axis=-1))

    return explore(step, state, memory, limits, rule, ranking=ranking, hints=constraints.forced(limits))


def _gone_on(now: Situation, ids: tf.Tensor, gained: tf.Tensor) -> Choice:
    """The choice of tokens ``ids`` [b, 1] whose log-probabilities are ``gained`` [b, 1]."""
    return Choice(None, tf.where(now.frozen, PAD, ids), now.log_probs + tf.where(now.frozen, 0.0, gained))
