"""Beam search. Greedy search is a beam of one hypothesis."""

import tensorflow as tf

from nmt_keras.config import PAD
from nmt_keras.layers.base import Nest
from nmt_keras.models.prediction import StepFunction
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates
from nmt_keras.search.hypotheses import IMPOSSIBLE, Beams, Hypotheses, SearchInputs
from nmt_keras.search.loop import NextTokens, decode_loop
from nmt_keras.search.ranking import PER_TOKEN, Ranking

KEPT = float("inf")  # priority of a finished hypothesis among the candidates: it keeps its place


def beam_search(
    step: StepFunction,
    initial_state: Nest,
    inputs: SearchInputs,
    *,
    beam_size: int = 1,
    n_best: int = 1,
    ranking: Ranking = PER_TOKEN,
    constraints: Constraints = UNCONSTRAINED,
) -> Hypotheses:
    """Keeps the ``beam_size`` most probable hypotheses of each sentence (Sutskever et al. 2014, section 3.2).

    With ``beam_size`` 1, this is greedy search: it takes the most probable token at every step.

    A hypothesis that takes END is finished. It keeps one of the Q places, so longer hypotheses cannot displace it, and
    the search extends one hypothesis fewer. Unfinished hypotheses have equal lengths and compete by log-probability.
    ``ranking`` compares the finished ones. A sentence is finished at its maximum length, or when no unfinished
    hypothesis can be among its ``n_best``. Hypotheses without END rank behind those with END.

    Args:
        step: One step of the model; see ``StepFunction``.
        initial_state: Decoder state before the first token, nest of [B, 1, ...].
        inputs: The encoded sentences, their maximum lengths and prefixes.
        beam_size: Q, number of hypotheses of each sentence, finished ones included.
        n_best: K, number of hypotheses to return, at most Q. With a smaller ``n_best``, the search can stop earlier.
        ranking: Score function, which compares hypotheses of different lengths.
        constraints: The allowed tokens.

    Returns:
        The hypotheses, best first.

    Raises:
        ValueError: ``n_best`` exceeds ``beam_size``.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best: expected 1 to beam_size ({beam_size}), received {n_best}. Raise beam_size.")

    def choose(logits: tf.Tensor, beams: Beams, inputs: SearchInputs) -> NextTokens:
        ids, log_probs = candidates(logits, beam_size, constraints, beams, inputs)  # [b, Q, C]
        count = ids.shape[2]  # C
        # a finished hypothesis has one candidate: itself, with PAD
        finished, is_itself = beams.finished[..., tf.newaxis], tf.range(count) == 0
        ids = tf.where(finished, PAD, ids)
        log_probs = tf.where(finished, tf.where(is_itself, 0.0, IMPOSSIBLE), log_probs)
        log_probs += beams.log_probs[..., tf.newaxis]
        priorities = tf.where(finished, tf.where(is_itself, KEPT, IMPOSSIBLE), log_probs)
        # the best of all Q · C candidates of a sentence
        ids, log_probs, priorities = (tf.reshape(x, [-1, beam_size * count]) for x in (ids, log_probs, priorities))
        best = tf.math.top_k(priorities, beam_size).indices
        return NextTokens(
            ids=tf.gather(ids, best, batch_dims=1),
            log_probs=tf.gather(log_probs, best, batch_dims=1),
            parents=best // count,
        )

    return decode_loop(step, initial_state, inputs, choose, ranking=ranking, beam_size=beam_size, n_best=n_best)
