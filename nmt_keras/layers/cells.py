"""Recurrent cells: tanh, GRU in two conventions, GRU with layer normalisation, LSTM.

A cell splits its equation into two parts. ``project`` does not depend on the previous state, so it is one product for
all positions. ``advance`` depends on it, and is the only part in the loop.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import keras
import tensorflow as tf
from keras.initializers import Initializer, Zeros

from nmt_keras.config import require, require_choice
from nmt_keras.layers.base import InitializerLike, Part, Shape, layer_norm
from nmt_keras.layers.context import Context
from nmt_keras.layers.dropout import apply_dropout
from nmt_keras.layers.initializers import OpenForgetGate


class LSTMState(NamedTuple):
    """State of an LSTM."""

    hidden: tf.Tensor  # [..., U] float: h_t, which other layers read
    cell: tf.Tensor  # [..., U] float: c_t of an LSTM, not the context


CellState: TypeAlias = tf.Tensor | LSTMState
"""State of a cell: s_t [..., U], or two tensors of that shape."""


class Cell(Part):
    """A recurrent cell. Computes s_t from x_t, s_{t-1} and, in a decoder, a context c_t that depends on the state.

    ``project`` computes W x_t + b, for all positions at once; ``project_context`` computes C c_t; ``advance`` computes
    the rest, which needs s_{t-1}. A state is a nest of [B, Q, U]; ``output_of`` is what other layers read.

    ``call``, ``state_size`` and ``get_initial_state`` are those of Keras's cells, so ``keras.layers.RNN`` can run a
    cell without context.

    Args:
        units: U, the state's size.
        kernel_initializer: Initializer of W and C.
        recurrent_initializer: Initializer of U.
        bias_initializer: Initializer of b; None for 0, but 1 for the forget gate of an LSTM (Jozefowicz et al. 2015).

    Example:
        >>> keras.layers.RNN(GRUCell(8), return_sequences=True)(tf.ones([2, 5, 3])).shape
        TensorShape([2, 5, 8])
    """

    projections: ClassVar[int]
    """Number of vectors of size U that are computed from the inputs: the gates and the proposal."""

    initial_bias: ClassVar[type[Initializer]] = Zeros
    """Default initializer of b."""

    kernel: keras.Variable | None = None
    """W, [I, projections · U]; None for a cell without input."""

    recurrent: keras.Variable | None = None
    """U, [U, projections · U] unless the subclass states another shape. ``build`` keeps a matrix that is set."""

    def __init__(
        self,
        units: int,
        *,
        kernel_initializer: InitializerLike = "glorot_uniform",
        recurrent_initializer: InitializerLike = "orthogonal",
        bias_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require(units >= 1, "units", "at least 1", units)
        self.units = units
        self.kernel_initializer, self.recurrent_initializer, self.bias_initializer = map(
            keras.initializers.get, (kernel_initializer, recurrent_initializer, bias_initializer or self.initial_bias())
        )

    def build(self, inputs_shape: Shape | None, context_shape: Shape | None = None) -> None:
        """Creates the weights.

        Args:
            inputs_shape: Shape of the inputs, [..., I]; None for a cell without input.
            context_shape: Shape of the contexts; None for a cell without context.
        """
        columns, initial = self.projections * self.units, self.kernel_initializer
        if inputs_shape is not None:
            self.kernel = self.add_weight((inputs_shape[-1], columns), initial, name="kernel")
        if context_shape is not None:
            self.context_kernel = self.add_weight((context_shape[-1], columns), initial, name="context_kernel")
        self.bias = self.add_weight((columns,), self.bias_initializer, name="bias")
        self.build_recurrent(columns)

    def build_recurrent(self, columns: int) -> None:
        """Creates the weights of the products with the state. ``columns`` is projections · U."""
        if self.recurrent is None:
            self.recurrent = self.add_weight((self.units, columns), self.recurrent_initializer, name="recurrent")

    def call(
        self, inputs: tf.Tensor, states: Sequence[tf.Tensor], context: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Computes a step, as Keras's cells.

        Args:
            inputs: [..., I] float, x_t.
            states: [..., U] float: the one or two tensors of s_{t-1}.
            context: [..., D] float, c_t; None for a cell without context.

        Returns:
            The output [..., U], and the tensors of s_t.
        """
        projected = self.project(inputs)
        if context is not None:
            projected += self.project_context(context)
        state = self.advance(projected, self.state_of(*tf.nest.flatten(states)))
        return self.output_of(state), tf.nest.flatten(state)

    @property
    def state_size(self) -> int | list[int]:
        """Widths of the tensors of a state."""
        with tf.init_scope():  # the graph gets no zeros
            sizes = [self.units] * len(tf.nest.flatten(self.zero_state(1)))
        return sizes if len(sizes) > 1 else self.units

    def get_initial_state(self, batch_size: int | tf.Tensor | None = None) -> list[tf.Tensor]:
        """Returns the tensors of the zero state, [B, U]."""
        return [tensor[:, 0] for tensor in tf.nest.flatten(self.zero_state(batch_size))]

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """Returns W x + b: [..., I] -> [..., projections · U]."""
        if self.kernel is None:
            shape = tf.concat([tf.shape(x)[:-1], [self.projections * self.units]], 0)
            return tf.broadcast_to(self.cast(self.bias), shape)
        return self.matmul(x, self.kernel, self.bias)

    def project_context(self, context: tf.Tensor | Context) -> tf.Tensor:
        """Returns C c_t: [..., D] -> [..., projections · U]."""
        return self.matmul(context, self.context_kernel)

    @abstractmethod
    def advance(self, projected: tf.Tensor, state: CellState, dropout_mask: tf.Tensor | None = None) -> CellState:
        """Returns s_t.

        Args:
            projected: [..., projections · U] float, W x_t + b, plus C c_t if there is a context.
            state: s_{t-1}, a nest of [..., U].
            dropout_mask: [..., U] float, multiplied by s_{t-1} before each product that reads s_{t-1} (variational
                dropout: Gal, Ghahramani 2016, section 4). None for no dropout.
        """

    def zero_state(self, batch: tf.Tensor) -> CellState:
        """Returns zero states for ``batch`` sentences, [] int32: a nest of [B, 1, U]."""
        return self.state_of(tf.zeros([batch, 1, self.units], self.compute_dtype))

    def state_of(self, output: tf.Tensor) -> CellState:
        """Returns the state whose output is ``output`` [..., U] and whose other parts are 0."""
        return self.cast(output)

    def output_of(self, state: CellState) -> tf.Tensor:
        """Returns the part of a state that other layers read: [..., U]."""
        return state


@keras.saving.register_keras_serializable("nmt_keras")
class TanhCell(Cell):
    """The plain recurrent unit (Elman 1990).

        s_t = tanh(W x_t + U s_{t-1} + C c_t + b)

    Set ``recurrent`` to the U of another cell before ``build`` to share it.

    Example:
        >>> output, states = TanhCell(8)(tf.ones([2, 3]), [tf.zeros([2, 8])])
        >>> output.shape, len(states)
        (TensorShape([2, 8]), 1)
    """

    projections = 1

    def advance(self, projected: tf.Tensor, state: tf.Tensor, dropout_mask: tf.Tensor | None = None) -> tf.Tensor:
        """Returns s_t."""
        return tf.tanh(projected + self.matmul(apply_dropout(state, dropout_mask), self.recurrent))


@keras.saving.register_keras_serializable("nmt_keras")
class GRUCell(Cell):
    """The gated unit of Cho et al. 2014: the reset gate acts on s_{t-1}, before the product with U.

        z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z)           update gate
        r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r)           reset gate
        s~_t = tanh(W x_t + U [r_t * s_{t-1}] + C c_t + b)            proposal
        s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t

    (Bahdanau et al. 2014, appendix A.1.1 and A.2.2.) The columns of ``kernel`` are those of W_z, W_r, W, in this order,
    as in Keras. The sign of z differs: in Bahdanau et al. z = 1 takes the proposal, in Cho et al. and in Keras it keeps
    the old state. So ``keras.layers.GRUCell(reset_after=False)``, fed [x_t ; c_t], equals this cell if W_z, U_z, C_z
    and b_z change sign.

    Example:
        >>> output, states = GRUCell(8)(tf.ones([2, 3]), [tf.zeros([2, 8])])
        >>> output.shape, len(states)
        (TensorShape([2, 8]), 1)
    """

    projections = 3  # z, r, proposal

    def build_recurrent(self, columns: int) -> None:
        """Creates U_z and U_r as one matrix [U, 2U], and U."""
        shape = (self.units, 2 * self.units)
        self.gates_recurrent = self.add_weight(shape, self.recurrent_initializer, name="gates_recurrent")
        super().build_recurrent(self.units)

    def advance(self, projected: tf.Tensor, state: tf.Tensor, dropout_mask: tf.Tensor | None = None) -> tf.Tensor:
        """Returns s_t."""
        update, reset, proposal = tf.split(projected, 3, axis=-1)
        previous = apply_dropout(state, dropout_mask)
        gates = self.matmul(previous, self.gates_recurrent)
        update = tf.sigmoid(update + gates[..., : self.units])
        reset = tf.sigmoid(reset + gates[..., self.units :])
        proposal = tf.tanh(proposal + self.matmul(reset * previous, self.recurrent))
        return state + update * (proposal - state)


@keras.saving.register_keras_serializable("nmt_keras")
class ResetAfterGRUCell(Cell):
    """The gated unit of the lecture and of cuDNN: the reset gate acts after the product with U.

        z_t  = sigma(W_z x_t + U_z s_{t-1} + C_z c_t + b_z + b'_z)
        r_t  = sigma(W_r x_t + U_r s_{t-1} + C_r c_t + b_r + b'_r)
        s~_t = tanh(W x_t + r_t * (U s_{t-1} + b') + C c_t + b)
        s_t  = z_t * s_{t-1} + (1 - z_t) * s~_t

    (cs224d, lecture 9, which has no biases; b' is cuDNN's.) A step needs one product with the state; Cho's unit needs
    two. The columns of ``kernel`` and ``recurrent`` are ordered z, r, proposal. z = 1 keeps the old state, as in the
    lecture and in Keras: this is ``keras.layers.GRUCell(reset_after=True)``.

    Example:
        >>> output, states = ResetAfterGRUCell(8)(tf.ones([2, 3]), [tf.zeros([2, 8])])
        >>> output.shape, len(states)
        (TensorShape([2, 8]), 1)
    """

    projections = 3  # z, r, proposal

    def build_recurrent(self, columns: int) -> None:
        """Creates U_z, U_r and U as one matrix, and their biases."""
        super().build_recurrent(columns)
        self.recurrent_bias = self.add_weight((columns,), self.bias_initializer, name="recurrent_bias")

    def advance(self, projected: tf.Tensor, state: tf.Tensor, dropout_mask: tf.Tensor | None = None) -> tf.Tensor:
        """Returns s_t."""
        update, reset, proposal = tf.split(projected, 3, axis=-1)
        recurrent = self.matmul(apply_dropout(state, dropout_mask), self.recurrent, self.recurrent_bias)
        recurrent_update, recurrent_reset, recurrent_proposal = tf.split(recurrent, 3, axis=-1)
        update, reset = tf.sigmoid(update + recurrent_update), tf.sigmoid(reset + recurrent_reset)
        proposal = tf.tanh(proposal + reset * recurrent_proposal)
        return proposal + update * (state - proposal)


@keras.saving.register_keras_serializable("nmt_keras")
class LayerNormGRUCell(Cell):
    """The GRU with layer normalisation of its products (Ba, Kiros, Hinton 2016, supplementary material).

        z_t  = sigma(LN(W_z x_t + C_z c_t + b_z) + LN(U_z s_{t-1}))               update gate
        r_t  = sigma(LN(W_r x_t + C_r c_t + b_r) + LN(U_r s_{t-1}))               reset gate
        s~_t = tanh(LN(W x_t + C c_t + b) + r_t * LN(U s_{t-1}))                  proposal
        s_t  = (1 - z_t) * s_{t-1} + z_t * s~_t

    LN is ``keras.layers.LayerNormalization``, with another scale and shift in each place. The sums of z and r are
    normalised as one vector of size 2U. The paper's input has no separate context, and its products have no b. As in
    Bahdanau et al., z = 1 takes the proposal. The columns of ``kernel`` and ``recurrent`` are ordered z, r, proposal.

    Example:
        >>> output, states = LayerNormGRUCell(8)(tf.ones([2, 3]), [tf.zeros([2, 8])])
        >>> output.shape, len(states)
        (TensorShape([2, 8]), 1)
    """

    projections = 3  # z, r, proposal

    def build_recurrent(self, columns: int) -> None:
        """Creates U_z, U_r and U as one matrix, and the normalisations."""
        super().build_recurrent(columns)
        self.gates_norm = layer_norm(2 * self.units, "gates_norm", self)
        self.proposal_norm = layer_norm(self.units, "proposal_norm", self)
        self.recurrent_gates_norm = layer_norm(2 * self.units, "recurrent_gates_norm", self)
        self.recurrent_proposal_norm = layer_norm(self.units, "recurrent_proposal_norm", self)

    def advance(self, projected: tf.Tensor, state: tf.Tensor, dropout_mask: tf.Tensor | None = None) -> tf.Tensor:
        """Returns s_t."""
        sizes = [2 * self.units, self.units]
        gates, proposal = tf.split(projected, sizes, axis=-1)
        recurrent = self.matmul(apply_dropout(state, dropout_mask), self.recurrent)
        recurrent_gates, recurrent_proposal = tf.split(recurrent, sizes, axis=-1)
        recurrent_gates = self.recurrent_gates_norm(recurrent_gates)
        recurrent_proposal = self.recurrent_proposal_norm(recurrent_proposal)
        update, reset = tf.split(tf.sigmoid(self.gates_norm(gates) + recurrent_gates), 2, axis=-1)
        proposal = tf.tanh(self.proposal_norm(proposal) + reset * recurrent_proposal)
        return state + update * (proposal - state)


@keras.saving.register_keras_serializable("nmt_keras")
class LSTMCell(Cell):
    """Long short-term memory (Hochreiter, Schmidhuber 1997, with the forget gate of Gers et al. 2000).

        i_t = sigma(W_i x_t + U_i h_{t-1} + b_i)          f_t, o_t likewise
        c_t = f_t * c_{t-1} + i_t * tanh(W_c x_t + U_c h_{t-1} + b_c)
        h_t = o_t * tanh(c_t)

    Here c_t is the state of the cell. A context adds its product with C to each sum. The gates are ordered i, f,
    proposal, o. Without a context, this is ``keras.layers.LSTMCell``.

    Example:
        >>> output, states = LSTMCell(8)(tf.ones([2, 3]), [tf.zeros([2, 8]), tf.zeros([2, 8])])
        >>> output.shape, len(states)
        (TensorShape([2, 8]), 2)
    """

    projections = 4  # i, f, proposal, o
    initial_bias = OpenForgetGate

    def advance(self, projected: tf.Tensor, state: LSTMState, dropout_mask: tf.Tensor | None = None) -> LSTMState:
        """Returns h_t and c_t."""
        sums = projected + self.matmul(apply_dropout(state.hidden, dropout_mask), self.recurrent)
        input_gate, forget_gate, proposal, output_gate = tf.split(sums, 4, axis=-1)
        cell = tf.sigmoid(forget_gate) * state.cell + tf.sigmoid(input_gate) * tf.tanh(proposal)
        return LSTMState(tf.sigmoid(output_gate) * tf.tanh(cell), cell)

    def state_of(self, output: tf.Tensor, cell: tf.Tensor | None = None) -> LSTMState:
        """Returns the state with h = ``output`` and c = ``cell``, or 0."""
        output = self.cast(output)
        return LSTMState(output, tf.zeros_like(output) if cell is None else self.cast(cell))

    def output_of(self, state: LSTMState) -> tf.Tensor:
        """Returns h_t."""
        return state.hidden


CELLS: dict[str, Callable[..., Cell]] = {
    "tanh": TanhCell,
    "gru": GRUCell,
    "gru-reset-after": ResetAfterGRUCell,
    "gru-layer-norm": LayerNormGRUCell,
    "lstm": LSTMCell,
}
"""Cells by their names in a configuration."""


def new_cell(model: Any, name: str) -> Cell:
    """Returns a cell of the kind, size, initializers and dtype of an encoder or a decoder."""
    require_choice("cell", tuple(CELLS), model.cell)
    return CELLS[model.cell](
        model.units,
        kernel_initializer=model.kernel_initializer,
        recurrent_initializer=model.recurrent_initializer,
        bias_initializer=model.bias_initializer,
        dtype=model.dtype_policy,
        name=name,
    )
