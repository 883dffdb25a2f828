"""Dropout masks as pure functions of seed, batch, replica, target position and name."""

import zlib
from dataclasses import dataclass

import keras
import tensorflow as tf

from nmt_keras.io.errors import require

REPLICA_SEEDS_APART = 1_000_003
"""Difference between the seeds of two replicas."""


@dataclass(frozen=True)
class Randomness:
    """Source of the random numbers of one forward pass. Create one for each pass, because it never changes."""

    seed: tf.Tensor | int  # [] int32
    batch_number: tf.Tensor | int  # [] int32: number of batches before this one, over all updates
    replica: tf.Tensor | int = 0  # [] int32
    position: tf.Tensor | int = 0  # [] int32: target position, if numbers are drawn position by position

    @staticmethod
    def draw() -> "Randomness":
        """Returns a new randomness, drawn from Keras's global generator; see ``keras.utils.set_random_seed``."""
        return Randomness(keras.random.randint([], 0, 2**31 - 1, "int32"), 0)


def current_replica() -> tf.Tensor | int:
    """Returns the index of the replica whose forward pass this is; 0 outside of replicas."""
    context = tf.distribute.get_replica_context()
    return context.replica_id_in_sync_group if context else 0


def random_uniform(shape: tf.Tensor, randomness: Randomness, name: str) -> tf.Tensor:
    """Returns float32 numbers in [0, 1), multiples of 2^-24: a pure function of ``randomness`` and ``name``.

    The generator is Philox, which draws the same bits with and without XLA and on every device. XLA's default takes
    about twenty times as long on a CPU.

    Args:
        shape: [rank] int32, shape of the result.
        randomness: The forward pass's ``Randomness``.
        name: Name of the place in the model that draws. No two places have the same name.
    """
    place = tf.constant(zlib.crc32(name.encode()) & 0x7FFFFFFF, tf.int32)
    replica_seed = tf.convert_to_tensor(randomness.seed + randomness.replica * REPLICA_SEEDS_APART, tf.int32)
    seed = tf.stack([tf.bitwise.bitwise_xor(replica_seed, place) + randomness.position, randomness.batch_number])
    bits = tf.random.stateless_uniform(shape, seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32)), tf.float32) * 2.0**-24


def require_rates(**rates: float | None) -> None:
    """Raises ValueError if an argument of a constructor is no rate in [0, 1)."""
    for name, rate in rates.items():
        require(rate is None or 0.0 <= rate < 1.0, name, "a rate from 0 to less than 1", rate)


def draw_dropout_mask(
    shape: tf.Tensor, rate: float, randomness: Randomness | None, name: str, dtype: tf.DType
) -> tf.Tensor | None:
    """Returns random factors: 0 with probability ``rate``, else 1 / (1 - rate). See ``random_uniform``.

    Returns None, which means no dropout, if ``rate`` is 0 or ``randomness`` is None (outside training).
    """
    if randomness is None or rate == 0.0:
        return None
    kept = random_uniform(shape, randomness, name) >= rate
    return tf.where(kept, tf.constant(1.0 / (1.0 - rate), dtype), tf.zeros([], dtype))


def apply_dropout(x: tf.Tensor, dropout_mask: tf.Tensor | None) -> tf.Tensor:
    """Returns x · dropout_mask; ``x`` if the mask is None."""
    return x if dropout_mask is None else x * tf.cast(dropout_mask, x.dtype)


def dropout(x: tf.Tensor, rate: float, randomness: Randomness | None, name: str) -> tf.Tensor:
    """Multiplies ``x`` by a dropout mask of its shape; see ``draw_dropout_mask``."""
    return apply_dropout(x, draw_dropout_mask(tf.shape(x), rate, randomness, name, x.dtype))
