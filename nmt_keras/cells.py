"""Recurrent cells, the one loop that runs them over time, and the dropout that every part shares.

A cell splits its equation in two: ``project`` is what does not depend on the previous state, one product for all
positions; ``advance`` is what does, and nothing else stays in the loop.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf


class Noise(NamedTuple):
    """Where the randomness of one training step comes from: masks are a pure function of (seed, step, site)."""

    seed: tf.Tensor  # [] int32
    step: tf.Tensor  # [] int32


def dropout(x: tf.Tensor, rate: float, noise: Noise | None, site: str) -> tf.Tensor:
    """Zeroes entries of ``x`` with probability ``rate`` and scales the rest by 1 / (1 - rate).

    The generator is named because it matters: Philox draws the same numbers with and without XLA, on every device,
    and XLA's own default takes some twenty times as long on a CPU.

    Args:
        x: floats of any shape.
        rate: probability of a zero, in [0, 1).
        noise: the step's randomness; None outside training, when ``x`` comes back as it is.
        site: name of the place that drops, so that no two places of a model share a mask.

    Returns:
        A tensor like ``x``.
    """
    if noise is None or rate == 0.0:
        return x
    place = tf.constant(zlib.crc32(site.encode()) & 0x7FFFFFFF, tf.int32)
    seed = tf.stack([tf.bitwise.bitwise_xor(noise.seed, place), noise.step])
    bits = tf.random.stateless_uniform(tf.shape(x), seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    keep = bits >= tf.constant(round(rate * 2**32), tf.uint32)
    return tf.where(keep, x / tf.cast(1.0 - rate, x.dtype), tf.zeros([], x.dtype))


def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """x · kernel over the last axis, [..., I] and [I, O] giving [..., O], as one matrix product."""
    flat = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), kernel)
    return tf.reshape(flat, tf.concat([tf.shape(x)[:-1], [kernel.shape[-1]]], axis=0))


def scan(
    advance: Callable[[Any, Any], tuple[Any, Any]], inputs: Any, carry: Any, *, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs ``carry, emission = advance(input, carry)`` over time, in one ``tf.while_loop``.

    Args:
        advance: takes one position's inputs, a nest of [B, 1, ...], and the carry; returns the next carry, of the same
            shapes, and what the position emits, a nest of [B, 1, ...].
        inputs: nest of [B, T, ...], T >= 1. A static T lets XLA differentiate the loop.
        carry: nest of tensors, the state before the first position.
        reverse: whether to go from the last position to the first; emissions keep their positions.

    Returns:
        The last carry, and the emissions as a nest of [B, T, ...].
    """
    columns = tf.nest.flatten(inputs)
    steps = columns[0].shape[1] if columns[0].shape[1] is not None else tf.shape(columns[0])[1]
    rows = [_rows(x.dtype, steps, x[:, 0].shape).unstack(_swap_time_and_batch(x)) for x in columns]

    def at(position: tf.Tensor | int) -> Any:
        return tf.nest.pack_sequence_as(inputs, [row.read(position)[:, tf.newaxis] for row in rows])

    signature = tf.nest.map_structure(tf.TensorSpec.from_tensor, (at(0), carry))
    _, emission = tf.function(advance, autograph=False).get_concrete_function(*signature).structured_outputs
    written = [_rows(e.dtype, steps, e.shape[:1] + e.shape[2:]) for e in tf.nest.flatten(emission)]

    def body(
        count: tf.Tensor, carry: Any, written: list[tf.TensorArray]
    ) -> tuple[tf.Tensor, Any, list[tf.TensorArray]]:
        position = steps - 1 - count if reverse else count
        carry, emission = advance(at(position), carry)
        parts = [e[:, 0] for e in tf.nest.flatten(emission)]
        return count + 1, carry, [row.write(position, e) for row, e in zip(written, parts, strict=True)]

    _, carry, written = tf.while_loop(
        lambda count, *_: count < steps, body, (tf.constant(0), carry, written), maximum_iterations=steps
    )
    return carry, tf.nest.pack_sequence_as(emission, [_swap_time_and_batch(row.stack()) for row in written])


def _rows(dtype: tf.DType, size: int | tf.Tensor, shape: tf.TensorShape) -> tf.TensorArray:
    return tf.TensorArray(dtype, size=size, element_shape=shape, clear_after_read=False)


def _swap_time_and_batch(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])


class Part(keras.layers.Layer):
    """A layer whose methods are called one by one, past ``__call__``.

    So it casts its own variables to the compute dtype, and it declares them when it is constructed: a part knows all
    its sizes, and nothing is created inside a loop.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Marks the part as built: its constructor has made every variable and sublayer."""
        self.built = True

    def weight(self, name: str, shape: tuple[int, ...], initializer: str | keras.initializers.Initializer) -> Any:
        """Declares a trainable variable."""
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def cast(self, x: Any) -> tf.Tensor:
        """``x`` (a variable or a tensor) in the dtype that this part computes in."""
        return tf.cast(x, self.compute_dtype)


@keras.saving.register_keras_serializable("nmt_keras")
class GRUCell(Part):
    """The gated unit of Cho et al. 2014: the reset gate acts on the state, before its product.

        z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z)           update gate
        r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r)           reset gate
        s~_t = tanh(W x_t + U [r_t * s_{t-1}] + C c_t + b)            proposal
        s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t

    (Bahdanau et al. 2014, appendix A.1.1 and A.2.2.) Only a decoder's cell has a context c_t, which depends on the
    state and so belongs into the loop. Keras's update gate is the complement of z: ``keras.layers.GRUCell`` with
    ``reset_after=False``, fed [x_t ; c_t], equals this cell when all that makes z changes sign.

    Args:
        units: U, the state's size.
        input_size: I, the width of x_t.
        context_size: D, the width of c_t; 0 for a cell without context.
    """

    def __init__(self, units: int, input_size: int, context_size: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.input_size, self.context_size = units, input_size, context_size
        self.kernel = self.weight("kernel", (input_size, 3 * units), "glorot_uniform")  # W_z, W_r, W
        if context_size:
            self.context_kernel = self.weight(
                "context_kernel", (context_size, 3 * units), "glorot_uniform"
            )  # C_z, C_r, C
        self.gates_recurrent = self.weight("gates_recurrent", (units, 2 * units), "orthogonal")  # U_z, U_r
        self.recurrent = self.weight("recurrent", (units, units), "orthogonal")  # U
        self.bias = self.weight("bias", (3 * units,), "zeros")

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """W x + b for the update gate, the reset gate and the proposal: [..., I] -> [..., 3U]."""
        return product(x, self.cast(self.kernel)) + self.cast(self.bias)

    def contextualise(self, projected: tf.Tensor, context: tf.Tensor) -> tf.Tensor:
        """W x_t + b + C c_t from W x_t + b [..., 3U] and c_t [..., D]."""
        return projected + product(context, self.cast(self.context_kernel))

    def advance(self, projected: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """s_t from W x_t + b (+ C c_t) [..., 3U] and s_{t-1} [..., U]."""
        update, reset, proposal = tf.split(projected, 3, axis=-1)
        gates = product(state, self.cast(self.gates_recurrent))
        update = tf.sigmoid(update + gates[..., : self.units])
        reset = tf.sigmoid(reset + gates[..., self.units :])
        proposal = tf.tanh(proposal + product(reset * state, self.cast(self.recurrent)))
        return state + update * (proposal - state)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        sizes = {"units": self.units, "input_size": self.input_size, "context_size": self.context_size}
        return {**super().get_config(), **sizes}
