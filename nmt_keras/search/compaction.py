"""Compaction of the batch: the decode loop drops finished sentences.

docs/speed-history.md has the gain. Without this module, the loop is ``tf.while_loop``.
"""

from collections.abc import Callable

import tensorflow as tf

from nmt_keras.search.hypotheses import Beams, SearchInputs

# Minimum share of finished sentences at which they are dropped. Dropping copies the other sentences.
FINISHED_SHARE = 0.25


def while_unfinished(advance: Callable[[Beams, SearchInputs], Beams], beams: Beams, inputs: SearchInputs) -> Beams:
    """Calls ``advance`` with the unfinished sentences alone, until all are finished.

    Args:
        advance: One step of the search for b sentences. It appends one position to ``ids`` and ``alignments``.
        beams: Beams of B sentences before the first step.
        inputs: Inputs of these sentences.
    """
    shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), beams)
    shapes = shapes._replace(
        ids=tf.TensorShape([None, beams.ids.shape[1], None]),
        alignments=tf.TensorShape([None, beams.ids.shape[1], None, beams.alignments.shape[3]]),
    )

    def advance_unfinished(beams: Beams) -> tuple[Beams]:
        rows = tf.where(_is_unfinished(beams))  # [b, 1]
        unfinished, their_inputs = tf.nest.map_structure(
            lambda x: None if x is None else tf.gather(x, rows[:, 0]), (beams, inputs)
        )
        (unfinished,) = tf.while_loop(
            lambda beams: tf.reduce_mean(tf.cast(_is_unfinished(beams), tf.float32)) > 1.0 - FINISHED_SHARE,
            lambda beams: (advance(beams, their_inputs),),
            (unfinished,),
            shape_invariants=(shapes,),
        )
        added = tf.shape(unfinished.ids)[2] - tf.shape(beams.ids)[2]  # number of steps
        beams = beams._replace(
            ids=tf.pad(beams.ids, [[0, 0], [0, 0], [0, added]]),
            alignments=tf.pad(beams.alignments, [[0, 0], [0, 0], [0, added], [0, 0]]),
        )
        return (
            tf.nest.map_structure(lambda x, update: tf.tensor_scatter_nd_update(x, rows, update), beams, unfinished),
        )

    (beams,) = tf.while_loop(
        lambda beams: ~tf.reduce_all(beams.finished), advance_unfinished, (beams,), shape_invariants=(shapes,)
    )
    return beams


def _is_unfinished(beams: Beams) -> tf.Tensor:
    """Returns True for sentences with an unfinished hypothesis, [b] bool."""
    return ~tf.reduce_all(beams.finished, axis=1)
