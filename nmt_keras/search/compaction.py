"""Compaction of the batch: the decode loop goes on without the sentences that are finished.

Batches of 64 sentences decode 1.2 times as fast greedily, and 1.2 to 1.3 times with a beam of 5 (256 units, 8,000
words, one thread). A single sentence gains nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from nmt_keras.search.hypotheses import Beams, loop_shapes

# Minimum share of finished sentences for dropping them, which copies the others.
FINISHED_SHARE = 0.25


def decode_unfinished(
    decode: Callable[..., tuple[tf.Tensor, Any, Beams, tf.Tensor]], state: Any, beams: Beams, inputs: Any
) -> tuple[Beams, tf.Tensor]:
    """Calls ``decode`` with the unfinished sentences alone, until all of the B sentences are finished.

    Args:
        decode: (time, state, beams, inputs) of b sentences -> time, state, beams and alignments [t, b, Q, S]. It takes
            at least one step, and more while ``few_finished``.
        state: decoder state before the first token, nest of [B, Q, ...].
        beams: before the first token.
        inputs: nest of [B, ...]; None may stand in it.

    Returns:
        The beams of all sentences, and alignments [T, B, Q, S]: 0 at the steps of which a sentence had no need.
    """
    batch, beam_size = tf.shape(beams.ids)[0], beams.ids.shape[1]

    def decode_some(time: tf.Tensor, state: Any, beams: Beams, alignments: tf.TensorArray) -> tuple[Any, ...]:
        rows = _unfinished_rows(beams)  # [b, 1]
        time, state, extended, extension = decode(time, state, _take(beams, rows), _take(inputs, rows))
        padding = tf.shape(extended.history)[2] - tf.shape(beams.history)[2]
        beams = beams._replace(history=tf.pad(beams.history, [[0, 0], [0, 0], [0, padding]]))
        beams = tf.nest.map_structure(lambda old, new: tf.tensor_scatter_nd_update(old, rows, new), beams, extended)
        by_sentence = tf.transpose(extension, [1, 0, 2, 3])
        of_batch = tf.scatter_nd(rows, by_sentence, tf.concat([[batch], tf.shape(by_sentence)[1:]], axis=0))
        alignments = alignments.write(alignments.size(), tf.transpose(of_batch, [1, 0, 2, 3]))
        return time, _take(state, _unfinished_rows(extended)), beams, alignments

    element_shape = [None, None, beam_size, None]
    alignments = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=element_shape, infer_shape=False)
    _, _, beams, alignments = tf.while_loop(
        lambda time, state, beams, _: tf.equal(time, 0) | ~tf.reduce_all(beams.finished),
        decode_some,
        (tf.constant(0), state, beams, alignments),
        shape_invariants=(tf.TensorShape([]), *loop_shapes(state, beams), tf.TensorShape(None)),
    )
    return beams, alignments.concat()


def few_finished(beams: Beams) -> tf.Tensor:
    """Returns True while too few sentences are finished for dropping them to pay, [] bool; False in an empty batch."""
    return tf.reduce_mean(tf.cast(_sentence_finished(beams), tf.float32)) < FINISHED_SHARE


def _sentence_finished(beams: Beams) -> tf.Tensor:
    """Returns True for sentences of which all hypotheses are finished, [b] bool."""
    return tf.reduce_all(beams.finished, axis=1)


def _unfinished_rows(beams: Beams) -> tf.Tensor:
    """Returns the rows [b, 1] int32 of the sentences that are not finished."""
    return tf.cast(tf.where(~_sentence_finished(beams)), tf.int32)


def _take(nest: Any, rows: tf.Tensor) -> Any:
    """Gathers ``rows`` [b, 1] of every tensor [B, ...] in a nest. None stays None."""
    return tf.nest.map_structure(lambda x: None if x is None else tf.gather(x, rows[:, 0]), nest)
