"""The loop of every search: it asks a step for logits and a rule for tokens, until no sentence can be improved.

One ``tf.while_loop`` writes tokens. Around it a second one drops the finished sentences whenever a quarter of the batch
is done. Dropping makes batches of 64 sentences 1.2 times as fast greedily, and 1.2 to 1.3 times with a beam of 5 (256
units, 8,000 words, one thread); a single sentence gains nothing. Both loops run eagerly, in a ``tf.function`` and in a
SavedModel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_keras.config import END, PAD, START
from nmt_keras.search.contract import Hypotheses, StepFunction
from nmt_keras.search.ranking import Ranking

RUNNING = float("-inf")
"""The score of a hypothesis that has not ended."""

DONE_SHARE = 0.25
"""The share of a batch's sentences that is done before they are dropped; dropping copies all others."""


class Beam(NamedTuple):
    """Q hypotheses of each of the b sentences that are not done; the first dimension of every field is b."""

    state: Any  # nest of [b, Q, ...]
    ids: tf.Tensor  # [b, Q] int32: the last tokens
    path: tf.Tensor  # [b, Q, t] int32: token * Q + the hypothesis that it continued, for each token so far
    log_probs: tf.Tensor  # [b, Q] float32, nats; -infinity in a place that holds no hypothesis
    scores: tf.Tensor  # [b, Q] float32: of hypotheses that ended; RUNNING in the others
    attention: Any  # [b, Q, S] float32: SUM_i alpha_ij; () where no coverage is asked for
    done: tf.Tensor  # [b] bool: no running hypothesis can win


class Choice(NamedTuple):
    """How the hypotheses go on."""

    parents: tf.Tensor | None  # [b, Q] int32: which hypothesis each continues; None: each itself
    ids: tf.Tensor  # [b, Q] int32: the tokens it takes; PAD in hypotheses that stay as they are
    log_probs: tf.Tensor  # [b, Q] float32, nats


class Situation(NamedTuple):
    """What a rule chooses by."""

    logits: tf.Tensor  # [b, Q, V] float32
    log_probs: tf.Tensor  # [b, Q] float32, nats: of the hypotheses so far
    frozen: tf.Tensor  # [b, Q] bool: hypotheses that stay as they are
    time: tf.Tensor  # [] int32: tokens written so far
    hints: Any  # nest of [b, ...]: this step's part of the hints given to ``explore``


Rule = Callable[[Situation], Choice]


class Found(NamedTuple):
    """All B sentences as they stood when they were last searched."""

    path: tf.Tensor  # [B, Q, t] int32
    log_probs: tf.Tensor  # [B, Q] float32, nats
    attention: Any  # [B, Q, S] float32, or ()


def explore(
    step: StepFunction,
    state: Any,
    memory: Any,
    limits: tf.Tensor,
    rule: Rule,
    *,
    ranking: Ranking,
    width: int = 1,
    n_best: int = 1,
    hints: Any = (),
) -> Hypotheses:
    """Lets ``width`` hypotheses of each sentence grow by ``rule`` until no running one can be among the ``n_best``.

    Args:
        step: see ``StepFunction``.
        state: before the first token, nest of [B, 1, ...].
        memory: nest of [B, ...] for ``step``; None may stand in it. It is never tiled.
        limits: [B] int32, tokens of a hypothesis at the most, END included; at least 1.
        rule: chooses tokens.
        ranking: how hypotheses are compared.
        width: Q.
        n_best: K, hypotheses to return; ``width`` at the most.
        hints: nest of [B, T, ...], what ``rule`` is told at each step; T covers the largest limit.
    """
    batch = tf.shape(limits)[0]

    def search_on(
        time: tf.Tensor, rows: tf.Tensor, beam: Beam, found: Found, aligned: tf.TensorArray, phase: tf.Tensor
    ) -> tuple[Any, ...]:
        """Searches ``rows`` [b] of the batch until a share of them is done, and drops those."""
        memory_here, limits_here, hints_here = (_take(x, rows) for x in (memory, limits, hints))
        ceiling = ranking.length_penalty(tf.cast(limits_here, tf.float32))[:, tf.newaxis]
        began = time

        def advance(time: tf.Tensor, beam: Beam, alignments: tf.TensorArray) -> tuple[Any, ...]:
            result = step(beam.ids, beam.state, memory_here)
            alignment = tf.cast(result.alignment, tf.float32)
            frozen = (beam.scores > RUNNING) | beam.done[:, tf.newaxis]
            now = tf.nest.map_structure(lambda hint: hint[:, time], hints_here)
            choice = rule(Situation(tf.cast(result.logits, tf.float32), beam.log_probs, frozen, time, now))
            beam = _grown(beam._replace(state=result.state), choice, alignment, frozen, ranking, time + 1)
            beam = beam._replace(done=(time + 1 >= limits_here) | _decided(beam, ceiling, n_best))
            return time + 1, beam, alignments.write(time - began, alignment)

        time, beam, alignments = tf.while_loop(
            # one step even in an empty batch: a TensorArray that was never written cannot be stacked
            lambda time, beam, _: tf.equal(time, began) | (tf.reduce_mean(tf.cast(beam.done, tf.float32)) < DONE_SHARE),
            advance,
            (time, beam, tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[None, width, None])),
            shape_invariants=(tf.TensorShape([]), _of_any_length(beam), tf.TensorShape(None)),
        )
        piece = _in_their_rows(alignments.stack(), rows, batch)
        left = tf.where(~beam.done)[:, 0]
        return (
            time,
            tf.gather(rows, left),
            _take(beam, left),
            _recorded(found, rows, beam),
            aligned.write(phase, piece),
            phase + 1,
        )

    beam = _begun(state, batch, width, ranking)
    found = Found(beam.path, beam.log_probs, beam.attention)
    pieces = tf.TensorArray(
        tf.float32, size=0, dynamic_size=True, element_shape=[None, None, width, None], infer_shape=False
    )
    _, _, _, found, pieces, _ = tf.while_loop(
        lambda time, rows, *_: tf.equal(time, 0) | (tf.size(rows) > 0),
        search_on,
        (tf.constant(0), tf.range(batch), beam, found, pieces, tf.constant(0)),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None]),
            _of_any_length(beam),
            _of_any_length(found),
            tf.TensorShape(None),
            tf.TensorShape([]),
        ),
    )
    return _best(found, pieces.concat(), n_best, ranking)


def _begun(state: Any, batch: tf.Tensor, width: int, ranking: Ranking) -> Beam:
    """One hypothesis without a token in the first place; the other places are empty."""
    log_probs = tf.where(tf.range(width) == 0, 0.0, float("-inf"))
    return Beam(
        state=tf.nest.map_structure(lambda x: tf.repeat(x, width, axis=1), state),
        ids=tf.fill([batch, width], START),
        path=tf.zeros([batch, width, 0], tf.int32),
        log_probs=tf.tile(log_probs[tf.newaxis], [batch, 1]),
        scores=tf.fill([batch, width], RUNNING),
        attention=tf.repeat(ranking.unattended()[:, tf.newaxis], width, axis=1) if ranking.coverage else (),
        done=tf.zeros([batch], tf.bool),
    )


def _grown(
    beam: Beam, choice: Choice, alignment: tf.Tensor, frozen: tf.Tensor, ranking: Ranking, lengths: tf.Tensor
) -> Beam:
    """The hypotheses with the chosen tokens, ``lengths`` [] long: each inherits its parent's state, path and score."""
    path, scores, attention, state = beam.path, beam.scores, beam.attention, beam.state
    if ranking.coverage:
        attention += tf.where(frozen[..., tf.newaxis], 0.0, alignment)
    taken = choice.ids
    if choice.parents is not None:
        path, scores, attention, state = tf.nest.map_structure(
            lambda x: tf.gather(x, choice.parents, batch_dims=1), (path, scores, attention, state)
        )
        # a place without a hypothesis has some parent too, but not its score
        scores = tf.where(choice.log_probs > float("-inf"), scores, RUNNING)
        taken = taken * beam.ids.shape[1] + choice.parents
    ended = tf.equal(choice.ids, END)
    return beam._replace(
        state=state,
        ids=choice.ids,
        path=tf.concat([path, taken[..., tf.newaxis]], axis=-1),
        log_probs=choice.log_probs,
        scores=tf.where(ended, ranking.score(choice.log_probs, lengths, attention), scores),
        attention=attention,
    )


def _decided(beam: Beam, ceiling: tf.Tensor, n_best: int) -> tf.Tensor:
    """Whether no running hypothesis can be among the ``n_best`` any more, [b] bool.

    A continuation Z of a running hypothesis Y has log P(Z) <= log P(Y) <= 0, is no longer than the limit allows, and
    has a coverage penalty of 0 at the best. So its score is at most log P(Y) / lp(limit). It cannot win once ``n_best``
    hypotheses have ended and the worst of them scores as much.

    Args:
        beam: the hypotheses.
        ceiling: [b, 1] float32, lp(limit).
        n_best: how many are wanted.
    """
    if beam.ids.shape[1] == 1:
        return beam.scores[:, 0] > RUNNING
    running = tf.where(beam.scores > RUNNING, float("-inf"), beam.log_probs)
    worst = tf.math.top_k(beam.scores, n_best).values[:, -1]
    return tf.reduce_max(running / ceiling, axis=1) <= worst


def _recorded(found: Found, rows: tf.Tensor, beam: Beam) -> Found:
    """``found`` with what ``rows`` [b] have become."""
    grown = found._replace(
        path=tf.pad(found.path, [[0, 0], [0, 0], [0, tf.shape(beam.path)[2] - tf.shape(found.path)[2]]])
    )
    now = Found(beam.path, beam.log_probs, beam.attention)
    return tf.nest.map_structure(
        lambda old, new: tf.tensor_scatter_nd_update(old, rows[:, tf.newaxis], new), grown, now
    )


def _in_their_rows(alignments: tf.Tensor, rows: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Alignments [t, b, Q, S] of ``rows`` [b] as [t, B, Q, S], 0 in the other rows."""
    by_row = tf.transpose(alignments, [1, 0, 2, 3])
    spread = tf.scatter_nd(rows[:, tf.newaxis], by_row, tf.concat([[batch], tf.shape(by_row)[1:]], axis=0))
    return tf.transpose(spread, [1, 0, 2, 3])


def _best(found: Found, alignments: tf.Tensor, n_best: int, ranking: Ranking) -> Hypotheses:
    """The ``n_best`` hypotheses, those that ended first, in order of their scores; ``alignments`` are [T, B, Q, S]."""
    width = found.path.shape[1]
    exists = found.log_probs > float("-inf")
    ids = tf.where(exists[..., tf.newaxis], found.path // width, PAD)  # [B, Q, T]
    lengths = tf.math.count_nonzero(tf.not_equal(ids, PAD), axis=-1, dtype=tf.int32)
    scores = ranking.score(found.log_probs, tf.maximum(lengths, 1), found.attention)
    by_score = tf.math.top_k(scores, width).indices
    ended = tf.reduce_any(tf.equal(ids, END), axis=-1)
    ended_first = tf.math.top_k(tf.cast(tf.gather(ended, by_score, batch_dims=1), tf.int32), n_best).indices
    order = tf.gather(by_score, ended_first, batch_dims=1)  # [B, K]
    ids, lengths, scores, log_probs, path = (
        tf.gather(x, order, batch_dims=1) for x in (ids, lengths, scores, found.log_probs, found.path)
    )
    longest = tf.reduce_max(tf.pad(tf.reshape(lengths, [-1]), [[0, 1]], constant_values=1))
    ids, parents = ids[..., :longest], path[..., :longest] % width
    of_ancestors = tf.gather(
        tf.transpose(alignments[:longest], [1, 0, 2, 3]), tf.transpose(parents, [0, 2, 1]), batch_dims=2
    )  # [B, T, K, S]
    written = tf.not_equal(ids, PAD)[..., tf.newaxis]
    alignments = tf.where(written, tf.transpose(of_ancestors, [0, 2, 1, 3]), 0.0)
    return Hypotheses(ids, lengths, scores, log_probs, alignments)


def _take(nest: Any, rows: tf.Tensor) -> Any:
    """``rows`` [b] of every tensor in a nest of [B, ...]; None stays None."""
    return tf.nest.map_structure(lambda x: x if x is None else tf.gather(x, rows), nest)


def _of_any_length(record: Any) -> Any:
    """Shape invariants of a Beam or Found: sentences are dropped, and paths grow."""
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), record)
    return shapes._replace(path=tf.TensorShape([None, record.path.shape[1], None]))
