"""Random and padded tensors, and comparisons of nests."""

import numpy as np
import tensorflow as tf

from nmt_keras.config import PAD


def normal(*shape, seed=2):
    """Returns standard normal numbers in float32."""
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def padded(sentences, width, filler=PAD):
    """Returns lists of ids as a padded tensor [B, width], and its mask."""
    ids = tf.constant([[*sentence, *[filler] * (width - len(sentence))] for sentence in sentences])
    return ids, tf.sequence_mask([len(sentence) for sentence in sentences], width)


def strings(tensor):
    """Returns the strings of a tensor of rank 1 or 2 as lists."""
    rows = tensor.numpy().tolist()
    return [[cell.decode() for cell in row] if isinstance(row, list) else row.decode() for row in rows]


def assert_same(found, wanted, rtol=1e-7, atol=1e-5):
    """Compares two nests of tensors."""
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
