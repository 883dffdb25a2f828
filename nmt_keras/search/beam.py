"""Beam search. Greedy search is a beam of one hypothesis."""

from typing import NamedTuple

import tensorflow as tf

from nmt_keras.config import END, PAD, START, require
from nmt_keras.layers.base import Nest
from nmt_keras.models.prediction import Prediction, StepFunction
from nmt_keras.search.candidates import UNCONSTRAINED, Constraints, candidates
from nmt_keras.search.compaction import while_unfinished
from nmt_keras.search.hypotheses import IMPOSSIBLE, Beams, Hypotheses, SearchInputs
from nmt_keras.search.ranking import PER_TOKEN, Ranking

KEPT = float("inf")  # priority of a finished hypothesis among the candidates: it keeps its place


class NextTokens(NamedTuple):
    """The chosen continuations of the hypotheses of each sentence."""

    ids: tf.Tensor  # [b, Q] int32: the next tokens; PAD for finished hypotheses
    log_probs: tf.Tensor  # [b, Q] float32, nats: log-probabilities of the hypotheses with these tokens
    parents: tf.Tensor  # [b, Q] int32: places of the hypotheses that take these tokens


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
        ValueError: ``n_best`` is not 1 to ``beam_size``.
    """
    require(1 <= n_best <= beam_size, "n_best", f"1 to beam_size ({beam_size})", n_best)

    def advance(beams: Beams, inputs: SearchInputs) -> Beams:
        prediction = step(beams.ids[:, :, -1], beams.decoder_state, inputs.memory)
        next_tokens = _choose(tf.cast(prediction.logits, tf.float32), beams, inputs, constraints)
        beams = _extend(beams, prediction, next_tokens)
        return _finish(beams, inputs, ranking, n_best)

    beams = _initial_beams(initial_state, inputs, beam_size)
    beams = while_unfinished(advance, beams, inputs)
    return _rank(beams, inputs, ranking, n_best)


def _initial_beams(initial_state: Nest, inputs: SearchInputs, beam_size: int) -> Beams:
    """Returns one empty hypothesis for each sentence."""
    batch, source_width = tf.unstack(tf.shape(inputs.source_mask))
    log_probs = tf.where(tf.range(beam_size) == 0, 0.0, IMPOSSIBLE)
    return Beams(
        ids=tf.fill([batch, beam_size, 1], START),
        alignments=tf.zeros([batch, beam_size, 0, source_width]),
        log_probs=tf.tile(log_probs[tf.newaxis], [batch, 1]),
        finished=tf.zeros([batch, beam_size], tf.bool),
        decoder_state=tf.nest.map_structure(lambda x: tf.repeat(x, beam_size, axis=1), initial_state),
    )


def _choose(logits: tf.Tensor, beams: Beams, inputs: SearchInputs, constraints: Constraints) -> NextTokens:
    """Chooses the Q most probable continuations of the hypotheses of each sentence.

    Args:
        logits: [b, Q, V] float32.
        beams: The hypotheses.
        inputs: Inputs of their sentences.
        constraints: The allowed tokens.
    """
    beam_size = beams.ids.shape[1]
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


def _extend(beams: Beams, prediction: Prediction, next_tokens: NextTokens) -> Beams:
    """Appends the next tokens to the hypotheses that take them."""
    alignment = tf.where(beams.finished[..., tf.newaxis], 0.0, tf.cast(prediction.alignment, tf.float32))
    alignments = tf.concat([beams.alignments, alignment[:, :, tf.newaxis]], axis=2)
    extended = beams._replace(alignments=alignments, decoder_state=prediction.state)
    if beams.ids.shape[1] > 1:
        extended = tf.nest.map_structure(lambda x: tf.gather(x, next_tokens.parents, batch_dims=1), extended)
    exists = next_tokens.log_probs > IMPOSSIBLE
    return extended._replace(
        ids=tf.concat([extended.ids, next_tokens.ids[..., tf.newaxis]], axis=2),
        log_probs=next_tokens.log_probs,
        finished=exists & (extended.finished | tf.equal(next_tokens.ids, END)),
    )


def _finish(beams: Beams, inputs: SearchInputs, ranking: Ranking, n_best: int) -> Beams:
    """Finishes a sentence at its maximum length, or if none of its unfinished hypotheses can be one of its ``n_best``.

    A continuation Z of a hypothesis Y has log P(Z) <= log P(Y) <= 0. Its length penalty is at most that of the maximum
    length, and its coverage penalty is at best 0. So its score is at most log P(Y) / lp(maximum length). Z cannot be
    one of the ``n_best`` if ``n_best`` finished hypotheses have at least this score.
    """
    is_done = beams.position >= inputs.max_lengths
    if beams.ids.shape[1] > 1:
        best_unfinished = tf.reduce_max(tf.where(beams.finished, IMPOSSIBLE, beams.log_probs), axis=1)
        bound = best_unfinished / ranking.length_penalty(tf.cast(inputs.max_lengths, tf.float32))
        scores = tf.where(beams.finished, _scores(beams, inputs, ranking), IMPOSSIBLE)
        is_done |= bound <= tf.math.top_k(scores, n_best).values[:, -1]
    return beams._replace(finished=beams.finished | is_done[:, tf.newaxis])


def _scores(beams: Beams, inputs: SearchInputs, ranking: Ranking) -> tf.Tensor:
    """Returns the ranking scores of the hypotheses, [b, Q] float32."""
    return ranking.score(beams.log_probs, beams.lengths, beams.alignments, inputs.source_mask)


def _rank(beams: Beams, inputs: SearchInputs, ranking: Ranking, n_best: int) -> Hypotheses:
    """Returns the ``n_best`` hypotheses by score. Hypotheses with END come before hypotheses without END."""
    scores = _scores(beams, inputs, ranking)
    by_score = tf.math.top_k(scores, beams.ids.shape[1]).indices
    has_end = (beams.log_probs > IMPOSSIBLE) & tf.reduce_any(tf.equal(beams.ids, END), axis=2)
    has_end = tf.gather(has_end, by_score, batch_dims=1)
    order = tf.gather(by_score, tf.math.top_k(tf.cast(has_end, tf.int32), n_best).indices, batch_dims=1)  # [B, K]
    ids, lengths, scores, log_probs, alignments = (
        tf.gather(x, order, batch_dims=1)
        for x in (beams.ids[:, :, 1:], beams.lengths, scores, beams.log_probs, beams.alignments)
    )
    exists = log_probs > IMPOSSIBLE
    ids = tf.where(exists[..., tf.newaxis], ids, PAD)
    lengths = tf.where(exists, lengths, 0)
    alignments = tf.where(exists[..., tf.newaxis, tf.newaxis], alignments, 0.0)
    longest = tf.maximum(1, tf.reduce_max(lengths))
    ids = tf.pad(ids, [[0, 0], [0, 0], [0, 1]])[:, :, :longest]  # padded, because an empty batch takes no steps
    alignments = tf.pad(alignments, [[0, 0], [0, 0], [0, 1], [0, 0]])[:, :, :longest]
    return Hypotheses(ids, lengths, scores, log_probs, alignments)
