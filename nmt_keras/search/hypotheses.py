"""Hypotheses of a batch of sentences, during a search and after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import PAD, START
from nmt_keras.search.ranking import Ranking

NOT_ENDED = float("-inf")  # score of a hypothesis that has not taken END


class Hypotheses(NamedTuple):
    """The result of a search: the K best hypotheses of each sentence, best first. T is the longest length, at least 1.

    If fewer than K hypotheses exist, the last ones are empty: length 0, score and log-probability -infinity.
    """

    ids: tf.Tensor  # [B, K, T] int32, ending in END unless the maximum length was reached; then PAD
    lengths: tf.Tensor  # [B, K] int32 tokens, END included
    scores: tf.Tensor  # [B, K] float32: normalised log-probabilities, see Ranking
    log_probs: tf.Tensor  # [B, K] float32, nats: sum over the tokens, END included
    alignments: tf.Tensor  # [B, K, T, S] float32: the row of a token sums to 1, rows of padding are 0


class Beams(NamedTuple):
    """Q hypotheses of each of b sentences, during a search.

    Each sentence has Q places for hypotheses. An unused place has log-probability -infinity. At the beginning, place 0
    has an empty hypothesis, and the other places are unused. A hypothesis that takes END gets a score and is finished.
    When a sentence is finished, its hypotheses without END are also finished, but get no score.
    """

    last_ids: tf.Tensor  # [b, Q] int32: the last tokens
    # [b, Q, t] int32: token * Q + parent for each step, in a single tensor, so that each step gathers and extends only
    # one. The parent is the place of the hypothesis before it took the token. The alignment of the token is at the
    # parent's place, because it is computed before the token is chosen.
    history: tf.Tensor
    log_probs: tf.Tensor  # [b, Q] float32, nats
    scores: tf.Tensor  # [b, Q] float32; NOT_ENDED for hypotheses without END
    # [b, Q, S] float32: SUM_i alpha_ij, and 1 at padding; () without coverage, because a loop cannot carry None
    coverage: Any
    finished: tf.Tensor  # [b, Q] bool: True for hypotheses that take no more tokens


def loop_shapes(state: Any, beams: Beams) -> tuple[Any, Beams]:
    """Returns the shape invariants of a decoder state and beams. The number of sentences and of tokens may change."""
    state, shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), (state, beams))
    return state, shapes._replace(history=tf.TensorShape([None, beams.history.shape[1], None]))


def initial_beams(batch: tf.Tensor, beam_size: int, ranking: Ranking) -> Beams:
    """Returns the Beams of ``batch`` sentences before the first step."""
    coverage: Any = ()
    if ranking.coverage_beta:
        coverage = tf.repeat(1.0 - tf.cast(ranking.source_mask, tf.float32)[:, tf.newaxis], beam_size, axis=1)
    log_probs = tf.where(tf.range(beam_size) == 0, 0.0, float("-inf"))
    return Beams(
        last_ids=tf.fill([batch, beam_size], START),
        history=tf.zeros([batch, beam_size, 0], tf.int32),
        log_probs=tf.tile(log_probs[tf.newaxis], [batch, 1]),
        scores=tf.fill([batch, beam_size], NOT_ENDED),
        coverage=coverage,
        finished=tf.zeros([batch, beam_size], tf.bool),
    )


def best_hypotheses(beams: Beams, alignments: tf.Tensor, n_best: int, ranking: Ranking) -> Hypotheses:
    """Returns the ``n_best`` hypotheses by score. Hypotheses with END come before hypotheses without END.

    Args:
        beams: Beams of all B sentences after the last step.
        alignments: [T, B, Q, S] float32, alignments of all steps.
        n_best: K.
        ranking: Score function of hypotheses.
    """
    beam_size = beams.last_ids.shape[1]
    exists = beams.log_probs > float("-inf")
    ids = tf.where(exists[..., tf.newaxis], beams.history // beam_size, PAD)  # [B, Q, T]
    lengths = tf.math.count_nonzero(tf.not_equal(ids, PAD), axis=-1, dtype=tf.int32)
    scores = ranking.score(beams.log_probs, tf.maximum(lengths, 1), beams.coverage)
    by_score = tf.math.top_k(scores, beam_size).indices
    ended = tf.gather(beams.scores > NOT_ENDED, by_score, batch_dims=1)
    ended_first = tf.math.top_k(tf.cast(ended, tf.int32), n_best).indices
    order = tf.gather(by_score, ended_first, batch_dims=1)  # [B, K]
    ids, lengths, scores, log_probs, history = (
        tf.gather(x, order, batch_dims=1) for x in (ids, lengths, scores, beams.log_probs, beams.history)
    )
    longest = tf.reduce_max(tf.pad(tf.reshape(lengths, [-1]), [[0, 1]], constant_values=1))
    ids, parents = ids[..., :longest], history[..., :longest] % beam_size
    alignments = tf.gather(
        tf.transpose(alignments[:longest], [1, 0, 2, 3]), tf.transpose(parents, [0, 2, 1]), batch_dims=2
    )  # [B, T, K, S]
    is_token = tf.not_equal(ids, PAD)[..., tf.newaxis]
    alignments = tf.where(is_token, tf.transpose(alignments, [0, 2, 1, 3]), 0.0)
    return Hypotheses(ids, lengths, scores, log_probs, alignments)
