"""Selects the k largest of many logits in two stages. docs/speed-history.md has the gain over ``tf.math.top_k``."""

import tensorflow as tf


def top_k(logits: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the k largest logits and their ids, like ``tf.math.top_k``.

    The logits are divided into blocks. The k largest values lie in the k blocks with the largest maxima. Computing the
    maxima is much faster than a top k over all logits. ``tf.math.top_k`` then reads only the maxima and the values of k
    blocks.

    Args:
        logits: [B, Q, V] float32, with static V.
        k: Number of values. If V is smaller, all V values are returned.

    Returns:
        Values [B, Q, k], descending, and ids [B, Q, k] int32.
    """
    size, block = logits.shape[-1], 64
    if size < 4 * k * block:
        return tf.math.top_k(logits, min(k, size))
    block = next((n for n in range(block, 2 * block) if size % n == 0), block)
    if size % block:
        logits = tf.pad(logits, [[0, 0], [0, 0], [0, -size % block]], constant_values=float("-inf"))
    batch, beam_size = tf.shape(logits)[0], logits.shape[1]
    blocks = tf.reshape(logits, [batch, beam_size, -(-size // block), block])
    _, chosen = tf.math.top_k(tf.reduce_max(blocks, axis=-1), k)  # [B, Q, k]
    in_chosen = tf.reshape(tf.gather(blocks, chosen, batch_dims=2), [batch, beam_size, k * block])
    values, offsets = tf.math.top_k(in_chosen, k)
    # padding is among the k if too few logits are finite
    return values, tf.minimum(tf.gather(chosen, offsets // block, batch_dims=2) * block + offsets % block, size - 1)
