"""The decode loop that all searches share.

At every step the model computes logits, and the search's rule chooses the next tokens. A sentence is finished at its
maximum length, or when no unfinished hypothesis can be among its ``n_best``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import END
from nmt_keras.models.predictor import StepFunction
from nmt_keras.search.compaction import decode_unfinished, few_are_finished
from nmt_keras.search.hypotheses import NOT_ENDED, Beams, Hypotheses, best_hypotheses, initial_beams, loop_shapes
from nmt_keras.search.ranking import Ranking


class NextTokens(NamedTuple):
    """The next tokens of the hypotheses of each sentence."""

    ids: tf.Tensor  # [b, Q] int32: PAD for finished hypotheses
    log_probs: tf.Tensor  # [b, Q] float32, nats: log-probabilities of the hypotheses with these tokens
    parents: tf.Tensor | None = None  # [b, Q] int32: place of the extended hypothesis of each; None only if Q = 1


# (logits, beams, length, rule_input) -> next tokens
#   logits: [b, Q, V] float32; length: [] int32; rule_input: nest of tensors [b, ...] and None, for this step
NextTokensRule = Callable[[tf.Tensor, Beams, tf.Tensor, Any], NextTokens]


def decode_loop(
    step: StepFunction,
    state: Any,
    memory: Any,
    max_lengths: tf.Tensor,
    next_tokens: NextTokensRule,
    *,
    ranking: Ranking,
    beam_size: int = 1,
    n_best: int = 1,
    rule_inputs: Any = None,
) -> Hypotheses:
    """Extends hypotheses token by token until all sentences are finished.

    A sentence is finished at its maximum length, or if no unfinished hypothesis can become one of its ``n_best``.

    Args:
        step: One step of the model; see ``StepFunction``.
        state: Decoder state before the first token, nest of [B, 1, ...].
        memory: Memory for ``step``, a nest of tensors [B, ...] and None. It is never tiled.
        max_lengths: [B] int32, maximum length of a hypothesis in tokens, END included; at least 1.
        next_tokens: Rule that chooses the next tokens.
        ranking: Score function of hypotheses.
        beam_size: Q, number of hypotheses of each sentence.
        n_best: K, number of hypotheses to return; at most Q.
        rule_inputs: Nest of tensors [B, T, ...] and None. At step t, ``next_tokens`` receives the entries of position
            t. T is at least the largest of ``max_lengths``.
    """

    def decode(length: tf.Tensor, state: Any, beams: Beams, constants: Any) -> tuple[tf.Tensor, Any, Beams, tf.Tensor]:
        memory, max_lengths, rule_inputs = constants
        max_length_penalty = ranking.length_penalty(tf.cast(max_lengths, tf.float32))[:, tf.newaxis]

        def extend(length: tf.Tensor, state: Any, beams: Beams, alignments: tf.TensorArray) -> tuple[Any, ...]:
            predicted = step(beams.last_ids, state, memory)
            alignment = tf.cast(predicted.alignment, tf.float32)
            rule_input = tf.nest.map_structure(lambda x: None if x is None else x[:, length], rule_inputs)
            chosen = next_tokens(tf.cast(predicted.logits, tf.float32), beams, length, rule_input)
            length += 1
            state, beams = _extended(predicted.state, beams, chosen, alignment, ranking, length)
            sentence_finished = (length >= max_lengths) | _cannot_improve(beams, max_length_penalty, n_best)
            beams = beams._replace(finished=beams.finished | sentence_finished[:, tf.newaxis])
            return length, state, beams, alignments.write(alignments.size(), alignment)

        shape = [None, beam_size, None]
        alignments = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=shape)
        length, state, beams, alignments = tf.while_loop(
            # at least one step, even for an empty batch: an empty TensorArray cannot be stacked
            lambda length, state, beams, alignments: tf.equal(alignments.size(), 0) | few_are_finished(beams),
            extend,
            (length, state, beams, alignments),
            shape_invariants=(tf.TensorShape([]), *loop_shapes(state, beams), tf.TensorShape(None)),
        )
        return length, state, beams, alignments.stack()

    state = tf.nest.map_structure(lambda x: tf.repeat(x, beam_size, axis=1), state)
    beams = initial_beams(tf.shape(max_lengths)[0], beam_size, ranking)
    beams, alignments = decode_unfinished(decode, state, beams, (memory, max_lengths, rule_inputs))
    return best_hypotheses(beams, alignments, n_best, ranking)


def _extended(
    state: Any, beams: Beams, chosen: NextTokens, alignment: tf.Tensor, ranking: Ranking, length: tf.Tensor
) -> tuple[Any, Beams]:
    """Appends the chosen tokens. Each hypothesis inherits its parent's state, history, score and coverage.

    Args:
        state: Decoder state after this step, nest of [b, Q, ...].
        beams: Beams before this step.
        chosen: The next tokens.
        alignment: [b, Q, S] float32, alignment of this step.
        ranking: Score function of hypotheses.
        length: [] int32, number of tokens of a hypothesis, including the chosen one.

    Raises:
        ValueError: ``chosen`` has no parents, and Q exceeds 1.
    """
    history, scores, coverage, entry = beams.history, beams.scores, beams.coverage, chosen.ids
    if ranking.coverage_beta:
        coverage += tf.where(beams.finished[..., tf.newaxis], 0.0, alignment)
    if chosen.parents is not None:
        state, history, scores, coverage = tf.nest.map_structure(
            lambda x: tf.gather(x, chosen.parents, batch_dims=1), (state, history, scores, coverage)
        )
        # top_k gives a parent even to an unused place (log-probability -inf), which must not inherit its score
        scores = tf.where(chosen.log_probs > float("-inf"), scores, NOT_ENDED)
        entry = entry * beams.last_ids.shape[1] + chosen.parents
    elif beams.last_ids.shape[1] != 1:
        raise ValueError(
            f"NextTokens.parents: expected a tensor, because beam_size is {beams.last_ids.shape[1]}; received None. "
            "Set parents in the NextTokens that the rule returns."
        )
    scores = tf.where(tf.equal(chosen.ids, END), ranking.score(chosen.log_probs, length, coverage), scores)
    history = tf.concat([history, entry[..., tf.newaxis]], axis=-1)
    return state, Beams(chosen.ids, history, chosen.log_probs, scores, coverage, finished=scores > NOT_ENDED)


def _cannot_improve(beams: Beams, max_length_penalty: tf.Tensor, n_best: int) -> tf.Tensor:
    """Returns True for sentences whose unfinished hypotheses cannot be among the ``n_best``.

    A continuation Z of an unfinished hypothesis Y has log P(Z) <= log P(Y) <= 0. Its length penalty is at most that of
    the maximum length, and its coverage penalty is at best 0. So its score is at most log P(Y) / lp(maximum length).
    Z cannot be among the ``n_best`` if ``n_best`` finished hypotheses have at least this score.

    Args:
        beams: The hypotheses.
        max_length_penalty: [b, 1] float32, lp(maximum length).
        n_best: Number of hypotheses to return.

    Returns:
        [b] bool.
    """
    if beams.last_ids.shape[1] == 1:
        return beams.finished[:, 0]
    unfinished = tf.where(beams.finished, float("-inf"), beams.log_probs)
    nth_best = tf.math.top_k(beams.scores, n_best).values[:, -1]
    return tf.reduce_max(unfinished / max_length_penalty, axis=1) <= nth_best
