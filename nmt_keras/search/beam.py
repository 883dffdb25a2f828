"""Beam search: the most probable continuations of K hypotheses, side by side."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates
from nmt_keras.search.contract import Hypotheses, StepFunction
from nmt_keras.search.loop import Choice, Situation, explore
from nmt_keras.search.ranking import PER_TOKEN, Ranking

_KEPT = float("inf")


def beam_search(
    step: StepFunction,
    state: Any,
    memory: Any,
    limits: tf.Tensor,
    *,
    width: int,
    n_best: int = 1,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Keeps the ``width`` most probable hypotheses of each sentence at every step (Sutskever et al. 2014, section 3.2).

    A hypothesis that takes END keeps its place and is frozen, so that one fewer goes on: what has been found is never
    lost to a longer hypothesis. Running hypotheses, which are of equal length, compete by log-probability; ``ranking``
    compares those that ended. A sentence is done when no running hypothesis can be among its ``n_best`` any more, or
    at its limit. Hypotheses that the limit cut rank behind all that ended.

    Args:
        step: (ids [B, K], state, memory) -> logits, alignment and state.
        state: before the first token, nest of [B, 1, ...].
        memory: nest of [B, ...], passed on to ``step``, never tiled.
        limits: [B] int32, tokens of each hypothesis at the most, END included; at least 1.
        width: hypotheses of a sentence, finished ones included.
        n_best: K of the result, ``width`` at the most; fewer make the search stop earlier.
        ranking: how hypotheses of different lengths are compared.
        constraints: which tokens they may take.

    Returns:
        Hypotheses with K = ``n_best``.

    Raises:
        ValueError: ``n_best`` exceeds ``width``.
    """
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best: expected 1 to width ({width}), received {n_best}. Widen the beam or ask for fewer.")

    def rule(now: Situation) -> Choice:
        found = candidates(now.logits, width, constraints, now.time, now.hints)
        count = found.ids.shape[-1]
        grown = now.log_probs[..., tf.newaxis] + found.log_probs  # [b, K, C]
        itself = tf.where(tf.range(count) == 0, _KEPT, -_KEPT)
        places = tf.where(now.frozen[..., tf.newaxis], itself, grown)
        best, index = tf.math.top_k(tf.reshape(places, [-1, width * count]), width)
        parents = index // count
        kept = tf.equal(best, _KEPT)
        ids = tf.gather(tf.reshape(found.ids, [-1, width * count]), index, batch_dims=1)
        return Choice(
            parents,
            tf.where(kept, PAD, ids),
            tf.where(kept, tf.gather(now.log_probs, parents, batch_dims=1), best),
        )

    return explore(
        step,
        state,
        memory,
        limits,
        rule,
        ranking=ranking,
        width=width,
        n_best=n_best,
        hints=constraints.forced(limits),
    )
