"""Sentences without words, which are copied instead of translated."""

import tensorflow as tf

from nmt_keras.translation.records import NBest


def copy_signs(found: NBest, text: tf.Tensor, copied: tf.Tensor) -> NBest:
    """Replaces the n-best lists of some sentences by the sentences themselves.

    Such a sentence ("", "!", an emoji, "10:30") has one hypothesis: its own tokens, aligned one to one, with
    probability 1.

    Args:
        found: N-best lists of all sentences.
        text: [B] string. The normalised sentences.
        copied: [B] bool. True for sentences to copy.
    """
    first = copied[:, tf.newaxis] & (tf.range(tf.shape(found.scores)[1]) == 0)  # [B, K]
    kept = ~copied[:, tf.newaxis]  # [B, 1]
    lengths = tf.where(kept, found.lengths, tf.where(first, found.source_lengths[:, tf.newaxis], 0))
    width = tf.maximum(1, tf.reduce_max(lengths))  # an empty batch has no lengths
    own_score = tf.where(first, 0.0, float("-inf"))

    def replaced(values: tf.Tensor, own: tf.Tensor, padding: tf.Tensor) -> tf.Tensor:
        """Returns ``values`` [B, K, T, ...]; for copied sentences, ``own`` [B, 1, S, ...] as the first hypothesis."""
        ones = [tf.newaxis] * (values.shape.rank - 2)
        copies = tf.where(first[:, :, *ones], _fitted(own, width, padding), padding)
        return tf.where(kept[:, :, *ones], _fitted(values, width, padding), copies)

    source_width = tf.shape(found.source_tokens)[1]
    positions = tf.sequence_mask(found.source_lengths, source_width)[:, tf.newaxis, :, tf.newaxis]  # [B, 1, S, 1]
    diagonal = tf.where(positions, tf.eye(source_width), 0.0)  # [B, 1, S, S]
    return found._replace(
        translations=tf.where(kept, found.translations, tf.where(first, text[:, tf.newaxis], "")),
        scores=tf.where(kept, found.scores, own_score),
        log_probs=tf.where(kept, found.log_probs, own_score),
        lengths=lengths,
        tokens=replaced(found.tokens, found.source_tokens[:, tf.newaxis], tf.constant("")),
        alignment=replaced(found.alignment, diagonal, tf.constant(0.0)),
    )


def _fitted(values: tf.Tensor, width: tf.Tensor, padding: tf.Tensor) -> tf.Tensor:
    """Cuts or pads the axis T of values [B, K, T, ...] to ``width``."""
    missing = tf.maximum(0, width - tf.shape(values)[2])
    paddings = [[0, 0], [0, 0], [0, missing], *[[0, 0]] * (values.shape.rank - 3)]
    return tf.pad(values[:, :, :width], paddings, constant_values=padding)
