"""Recurrent cells: tanh, GRU in two conventions, LSTM.

A cell splits its equation in two: ``project`` is the part that does not depend on the previous state, one product for
all positions; ``advance`` is the part that does, and nothing else stays in the loop.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.layers.base import BaseLayer
from nmt_keras.layers.matmul import product
from nmt_keras.layers.memory import CachedProjections


class Cell(BaseLayer):
    """A recurrent cell: s_t from x_t, s_{t-1} and, in a decoder, a context c_t that depends on the state.

    A cell multiplies its inputs in three places. ``project`` is W x_t + b, which waits for nothing and is taken for all
    positions at once; ``contextualise`` adds C c_t; ``advance`` does what needs the last state. The state is a nest of
    [B, Q, U]; ``output`` is what the layer above sees of it.

    Args:
        units: U, the state's size.
        input_size: I, the width of x_t; 0 for a cell that runs on its state alone.
        context_size: the width of c_t; 0 for a cell without context.
    """

    parts: ClassVar[int]
    """Vectors of U numbers that the inputs give: the gates and the proposal."""

    def __init__(self, units: int, input_size: int, context_size: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.units, self.input_size, self.context_size = units, input_size, context_size
        if input_size:
            self.kernel = self.weight("kernel", (input_size, self.parts * units), "glorot_uniform")
        if context_size:
            self.context_kernel = self.weight("context_kernel", (context_size, self.parts * units), "glorot_uniform")
        self.bias = self.weight("bias", (self.parts * units,), "zeros")

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """W x + b: [..., I] -> [..., parts · U]."""
        if not self.input_size:
            return tf.broadcast_to(self.cast(self.bias), tf.concat([tf.shape(x)[:-1], [self.parts * self.units]], 0))
        return product(x, self.matrix(self.kernel), self.cast(self.bias))

    def project_context(self, context: tf.Tensor) -> tf.Tensor:
        """C c_t: [..., D] -> [..., parts · U]."""
        return product(context, self.matrix(self.context_kernel))

    def contextualise(self, projected: tf.Tensor, context: tf.Tensor | CachedProjections) -> tf.Tensor:
        """W x_t + b + C c_t from W x_t + b [..., parts · U] and c_t, or what was read of it."""
        return projected + (context.cell if isinstance(context, CachedProjections) else self.project_context(context))

    @abstractmethod
    def advance(self, projected: tf.Tensor, state: Any, keep: tf.Tensor | None = None) -> Any:
        """The next state.

        Args:
            projected: W x_t + b (+ C c_t), [..., parts · U].
            state: s_{t-1}, a nest of [..., U].
            keep: mask [..., U] on s_{t-1} wherever a product reads it (variational dropout: Gal, Ghahramani 2016,
                section 4); None keeps all.
        """

    def zero_state(self, batch: tf.Tensor) -> Any:
        """The state 0 of ``batch`` sentences: a nest of [B, 1, U]."""
        return self.state_of(tf.zeros([batch, 1, self.units], self.compute_dtype))

    def state_of(self, output: tf.Tensor) -> Any:
        """The state whose output is ``output`` [..., U], and which is 0 elsewhere."""
        return output

    def output(self, state: Any) -> tf.Tensor:
        """What a layer above, an attention or a output layer sees of a state: [..., U]."""
        return state


def _masked(state: tf.Tensor, keep: tf.Tensor | None) -> tf.Tensor:
    return state if keep is None else state * keep


@keras.saving.register_keras_serializable("nmt_keras")
class TanhCell(Cell):
    """The plain recurrent unit (Elman 1990).

        s_t = tanh(W x_t + U s_{t-1} + C c_t + b)

    Args:
        units, input_size, context_size: see :class:`Cell`.
        recurrence_of: another cell whose U this one uses; None for its own.
    """

    parts = 1

    def __init__(
        self,
        units: int,
        input_size: int,
        context_size: int = 0,
        *,
        recurrence_of: TanhCell | None = None,
        **options: Any,
    ) -> None:
        super().__init__(units, input_size, context_size, **options)
        self.recurrence_of = recurrence_of
        if recurrence_of is None:
            self.own_recurrent = self.weight("recurrent", (units, units), "orthogonal")

    @property
    def recurrent(self) -> keras.Variable:
        """U."""
        return self.own_recurrent if self.recurrence_of is None else self.recurrence_of.recurrent

    def advance(self, projected: tf.Tensor, state: tf.Tensor, keep: tf.Tensor | None = None) -> tf.Tensor:
        """s_t."""
        return tf.tanh(projected + product(_masked(state, keep), self.matrix(self.recurrent)))


@keras.saving.register_keras_serializable("nmt_keras")
class GRUCell(Cell):
    """The gated unit of Cho et al. 2014: the reset gate acts on the state, before its product.

        z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z)           update gate
        r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r)           reset gate
        s~_t = tanh(W x_t + U [r_t * s_{t-1}] + C c_t + b)            proposal
        s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t

    (Bahdanau et al. 2014, appendix A.1.1 and A.2.2.) Keras's update gate is the complement of z:
    ``keras.layers.GRUCell`` with ``reset_after=False``, fed [x_t ; c_t], equals this cell when all that makes z changes
    sign.
    """

    parts = 3  # z, r, proposal

    def __init__(self, units: int, input_size: int, context_size: int = 0, **options: Any) -> None:
        super().__init__(units, input_size, context_size, **options)
        self.gates_recurrent = self.weight("gates_recurrent", (units, 2 * units), "orthogonal")  # U_z, U_r
        self.recurrent = self.weight("recurrent", (units, units), "orthogonal")  # U

    def advance(self, projected: tf.Tensor, state: tf.Tensor, keep: tf.Tensor | None = None) -> tf.Tensor:
        """s_t."""
        update, reset, proposal = tf.split(projected, 3, axis=-1)
        seen = _masked(state, keep)
        gates = product(seen, self.matrix(self.gates_recurrent))
        update = tf.sigmoid(update + gates[..., : self.units])
        reset = tf.sigmoid(reset + gates[..., self.units :])
        proposal = tf.tanh(proposal + product(reset * seen, self.matrix(self.recurrent)))
        return state + update * (proposal - state)


@keras.saving.register_keras_serializable("nmt_keras")
class ResetAfterGRUCell(Cell):
    """The gated unit of the lecture and of cuDNN: the reset gate acts on the product with the state.

        z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z + b'_z)
        r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r + b'_r)
        s~_t = tanh(W x_t + r_t * (U s_{t-1} + b') + C c_t + b)
        s_t  = z_t * s_{t-1} + (1 - z_t) * s~_t

    (cs224d, lecture 9, which has no biases; b' is cuDNN's.) One product reads the state instead of Cho's two. Here z
    keeps the old state, as in the lecture and in Keras, whose ``GRUCell(reset_after=True)`` this is.
    """

    parts = 3  # z, r, proposal

    def __init__(self, units: int, input_size: int, context_size: int = 0, **options: Any) -> None:
        super().__init__(units, input_size, context_size, **options)
        self.recurrent = self.weight("recurrent", (units, 3 * units), "orthogonal")  # U_z, U_r, U
        self.recurrent_bias = self.weight("recurrent_bias", (3 * units,), "zeros")

    def advance(self, projected: tf.Tensor, state: tf.Tensor, keep: tf.Tensor | None = None) -> tf.Tensor:
        """s_t."""
        update, reset, proposal = tf.split(projected, 3, axis=-1)
        read = product(_masked(state, keep), self.matrix(self.recurrent), self.cast(self.recurrent_bias))
        read_update, read_reset, read_proposal = tf.split(read, 3, axis=-1)
        update, reset = tf.sigmoid(update + read_update), tf.sigmoid(reset + read_reset)
        proposal = tf.tanh(proposal + reset * read_proposal)
        return proposal + update * (state - proposal)


class LSTMState(NamedTuple):
    """What an LSTM carries."""

    hidden: tf.Tensor  # [..., U] float: h_t, what others see
    memory: tf.Tensor  # [..., U] float: c_t


@keras.saving.register_keras_serializable("nmt_keras")
class LSTMCell(Cell):
    """The long short-term memory (Hochreiter, Schmidhuber 1997, with the forget gate of Gers et al. 2000).

        i_t = sigma(W_i x_t + U_i h_{t-1} + b_i)          f_t, o_t likewise
        c_t = f_t * c_{t-1} + i_t * tanh(W_c x_t + U_c h_{t-1} + b_c)
        h_t = o_t * tanh(c_t)

    A context adds C c to each sum. ``keras.layers.LSTMCell`` is the same cell. The forget gate's bias begins at 1
    (Jozefowicz et al. 2015), as there.
    """

    parts = 4  # i, f, proposal, o

    def __init__(self, units: int, input_size: int, context_size: int = 0, **options: Any) -> None:
        super().__init__(units, input_size, context_size, **options)
        self.recurrent = self.weight("recurrent", (units, 4 * units), "orthogonal")
        self.bias.assign(np.repeat([0.0, 1.0, 0.0, 0.0], units))

    def advance(self, projected: tf.Tensor, state: LSTMState, keep: tf.Tensor | None = None) -> LSTMState:
        """h_t and c_t."""
        sums = projected + product(_masked(state.hidden, keep), self.matrix(self.recurrent))
        enter, forget, proposal, leave = tf.split(sums, 4, axis=-1)
        memory = tf.sigmoid(forget) * state.memory + tf.sigmoid(enter) * tf.tanh(proposal)
        return LSTMState(tf.sigmoid(leave) * tf.tanh(memory), memory)

    def state_of(self, output: tf.Tensor) -> LSTMState:
        """h = ``output``, c = 0."""
        return LSTMState(output, tf.zeros_like(output))

    def output(self, state: LSTMState) -> tf.Tensor:
        """h_t."""
        return state.hidden


CELLS: dict[str, type[Cell]] = {
    "tanh": TanhCell,
    "gru": GRUCell,
    "gru-reset-after": ResetAfterGRUCell,
    "lstm": LSTMCell,
}
"""By the name that a configuration gives them."""
