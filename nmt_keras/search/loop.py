"""The decode loop that all searches share.

At every step the model gives logits, and a rule of the search turns them into the next tokens. A sentence is finished
when none of its hypotheses can be improved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import END
from nmt_keras.models.step import Step
from nmt_keras.search.compaction import decode_unfinished, few_finished
from nmt_keras.search.hypotheses import UNFINISHED, Beams, Hypotheses, best_hypotheses, initial_beams, loop_shapes
from nmt_keras.search.ranking import Ranking

# (last tokens [B, Q] int32, state of [B, Q, ...], memory of [B, ...]) -> logits, alignment and the next state
StepFunction = Callable[[tf.Tensor, Any, Any], Step]


class NextTokens(NamedTuple):
    """How the hypotheses of each sentence go on."""

    ids: tf.Tensor  # [b, Q] int32: PAD for finished hypotheses
    log_probs: tf.Tensor  # [b, Q] float32, nats: of the hypotheses with these tokens
    parents: tf.Tensor | None = None  # [b, Q] int32: the hypothesis that each extends; None: each extends itself


# (logits [b, Q, V] float32, beams, tokens so far [] int32, inputs of this step, nest of [b, ...]) -> next tokens
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
    inputs: Any = None,
) -> Hypotheses:
    """Extends hypotheses token by token until no unfinished one can be among the ``n_best`` of its sentence.

    Args:
        step: one step of the model.
        state: decoder state before the first token, nest of [B, 1, ...].
        memory: nest of [B, ...] for ``step``, never tiled. None may stand in it.
        max_lengths: [B] int32, maximum length of a hypothesis in tokens, END included; at least 1.
        next_tokens: chooses the next tokens.
        ranking: compares hypotheses.
        beam_size: Q, hypotheses of each sentence.
        n_best: K, hypotheses to return; at most Q.
        inputs: nest of [B, T, ...] with an entry per step for ``next_tokens``; T is at least the largest maximum
            length. None may stand in it.
    """

    def decode(time: tf.Tensor, state: Any, beams: Beams, of_sentences: Any) -> tuple[tf.Tensor, Any, Beams, tf.Tensor]:
        memory, max_lengths, inputs = of_sentences
        max_penalty = ranking.length_penalty(tf.cast(max_lengths, tf.float32))[:, tf.newaxis]

        def extend(time: tf.Tensor, state: Any, beams: Beams, alignments: tf.TensorArray) -> tuple[Any, ...]:
            output = step(beams.ids, state, memory)
            alignment = tf.cast(output.alignment, tf.float32)
            now = tf.nest.map_structure(lambda x: None if x is None else x[:, time], inputs)
            chosen = next_tokens(tf.cast(output.logits, tf.float32), beams, time, now)
            time += 1
            state, beams = _extended(output.state, beams, chosen, alignment, ranking, time)
            sentence_finished = (time >= max_lengths) | _cannot_improve(beams, max_penalty, n_best)
            beams = beams._replace(finished=beams.finished | sentence_finished[:, tf.newaxis])
            return time, state, beams, alignments.write(alignments.size(), alignment)

        shape = [None, beam_size, None]
        alignments = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=shape)
        time, state, beams, alignments = tf.while_loop(
            # at least one step, even for an empty batch: an empty TensorArray cannot be stacked
            lambda time, state, beams, alignments: tf.equal(alignments.size(), 0) | few_finished(beams),
            extend,
            (time, state, beams, alignments),
            shape_invariants=(tf.TensorShape([]), *loop_shapes(state, beams), tf.TensorShape(None)),
        )
        return time, state, beams, alignments.stack()

    state = tf.nest.map_structure(lambda x: tf.repeat(x, beam_size, axis=1), state)
    beams = initial_beams(tf.shape(max_lengths)[0], beam_size, ranking)
    beams, alignments = decode_unfinished(decode, state, beams, (memory, max_lengths, inputs))
    return best_hypotheses(beams, alignments, n_best, ranking)


def _extended(
    state: Any, beams: Beams, chosen: NextTokens, alignment: tf.Tensor, ranking: Ranking, length: tf.Tensor
) -> tuple[Any, Beams]:
    """Appends the chosen tokens. Each hypothesis inherits its parent's state, history, score and attention.

    Args:
        state: after this step, nest of [b, Q, ...].
        beams: before this step.
        chosen: the next tokens.
        alignment: [b, Q, S] float32, of this step.
        ranking: gives the scores.
        length: [] int32, tokens of a hypothesis with the chosen one.
    """
    history, scores, attention, tokens = beams.history, beams.scores, beams.attention, chosen.ids
    if ranking.coverage_beta:
        attention += tf.where(beams.finished[..., tf.newaxis], 0.0, alignment)
    if chosen.parents is not None:
        state, history, scores, attention = tf.nest.map_structure(
            lambda x: tf.gather(x, chosen.parents, batch_dims=1), (state, history, scores, attention)
        )
        # a place without a hypothesis has a parent too, but must not inherit its score
        scores = tf.where(chosen.log_probs > float("-inf"), scores, UNFINISHED)
        tokens = tokens * beams.ids.shape[1] + chosen.parents
    scores = tf.where(tf.equal(chosen.ids, END), ranking.score(chosen.log_probs, length, attention), scores)
    history = tf.concat([history, tokens[..., tf.newaxis]], axis=-1)
    return state, Beams(chosen.ids, history, chosen.log_probs, scores, attention, finished=scores > UNFINISHED)


def _cannot_improve(beams: Beams, max_penalty: tf.Tensor, n_best: int) -> tf.Tensor:
    """Returns True for sentences of which no unfinished hypothesis can be among the ``n_best``, [b] bool.

    A continuation Z of an unfinished hypothesis Y has log P(Z) <= log P(Y) <= 0. Its length penalty is at most that of
    the maximum length, and its coverage penalty is at best 0. So its score is at most log P(Y) / lp(maximum length).
    It cannot win if ``n_best`` hypotheses have ended and the worst of them has at least this score.

    Args:
        beams: the hypotheses.
        max_penalty: [b, 1] float32, lp(maximum length).
        n_best: number of hypotheses to return.
    """
    if beams.ids.shape[1] == 1:
        return beams.finished[:, 0]
    unfinished = tf.where(beams.finished, float("-inf"), beams.log_probs)
    worst = tf.math.top_k(beams.scores, n_best).values[:, -1]
    return tf.reduce_max(unfinished / max_penalty, axis=1) <= worst
