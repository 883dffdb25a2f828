"""Recurrent cells, the one loop that runs them over time, and the dropout that every part shares.

A cell splits its equation in two: ``project`` is what does not depend on the previous state, one product for all
positions; ``advance`` is what does, and nothing else stays in the loop.
"""

from __future__ import annotations

import inspect
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import keras
import numpy as np
import tensorflow as tf

T = TypeVar("T")


class Noise(NamedTuple):
    """Where the randomness of one training step comes from: masks are a pure function of (seed, step, site)."""

    seed: tf.Tensor  # [] int32
    step: tf.Tensor  # [] int32
    position: Any = ()  # [] int32: within a sentence, where positions draw one by one; else ()


def uniform(shape: tf.Tensor, noise: Noise, site: str) -> tf.Tensor:
    """Numbers in [0, 1), float32, multiples of 2^-24: a pure function of ``noise`` and of ``site``.

    The generator is named because it matters: Philox draws the same bits with and without XLA, on every device, and
    XLA's own default takes some twenty times as long on a CPU.

    Args:
        shape: [N] int32.
        noise: the step's randomness.
        site: name of the place that draws, so that no two places of a model share their numbers.
    """
    place = tf.constant(zlib.crc32(site.encode()) & 0x7FFFFFFF, tf.int32)
    position = noise.position if tf.is_tensor(noise.position) else 0
    seed = tf.stack([tf.bitwise.bitwise_xor(noise.seed, place) + position, noise.step])
    bits = tf.random.stateless_uniform(shape, seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    return tf.cast(tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32)), tf.float32) * 2.0**-24


def keep_mask(shape: tf.Tensor, rate: float, noise: Noise, site: str, dtype: tf.DType) -> tf.Tensor:
    """Numbers to multiply with: 0 with probability ``rate``, else 1 / (1 - rate); ``dtype``. See ``uniform``."""
    keep = uniform(shape, noise, site) >= rate
    return tf.where(keep, tf.constant(1.0 / (1.0 - rate), dtype), tf.zeros([], dtype))


def dropout(x: tf.Tensor, rate: float, noise: Noise | None, site: str) -> tf.Tensor:
    """``x`` times a mask of its shape; ``x`` itself where ``noise`` is None, outside training. See ``keep_mask``."""
    if noise is None or rate == 0.0:
        return x
    return x * keep_mask(tf.shape(x), rate, noise, site, x.dtype)


def _matmul(x: tf.Tensor, kernel: tf.Tensor, transposed: bool) -> tf.Tensor:
    """x · kernel, [N, I] and [I, O] (``transposed``: [O, I]) giving [N, O], computed in the kernel's precision."""
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel, transpose_b=transposed), x.dtype)


Multiply = Callable[[tf.Tensor, tf.Tensor, bool], tf.Tensor]
"""Multiplies rows [N, I] with a kernel that is transposed or not."""

_multiply: ContextVar[Multiply] = ContextVar("multiply", default=_matmul)


@contextmanager
def _having(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Gives a context variable a value for a while."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def multiplying_with(multiply: Multiply) -> AbstractContextManager[None]:
    """Lets ``multiply`` compute every ``product``."""
    return _having(_multiply, multiply)


def product(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None, *, transposed: bool = False) -> tf.Tensor:
    """x · kernel over the last axis, [..., I] and [I, O] giving [..., O], as one matrix product; plus ``bias`` [O].

    The bias is added while the result is flat: XLA would otherwise compute sum and gradient in both shapes. A
    ``transposed`` kernel is [O, I]. With a kernel of another precision than ``x``, the product alone is computed in it.
    """
    flat = _multiply.get()(tf.reshape(x, [-1, x.shape[-1]]), kernel, transposed)
    if bias is not None:
        flat += bias
    size = kernel.shape[0 if transposed else 1]
    return tf.reshape(flat, _with_last(x, tf.shape(flat)[1] if size is None else size))


def _with_last(x: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor | list[int | tf.Tensor]:
    """The shape of ``x`` but for its last axis, which is ``size``; no operation where one axis alone is unknown."""
    known = x.shape[:-1]
    if known.rank is not None and sum(axis is None for axis in known) <= 1:
        return [*(-1 if axis is None else axis for axis in known), size]
    return tf.concat([tf.shape(x)[:-1], [size]], axis=0)


class Reading(NamedTuple):
    """What a decoder's matrices make of annotations h_j. Their weighted sums are the same of the contexts.

        C c_i = C (SUM_j alpha_ij h_j) = SUM_j alpha_ij (C h_j)

    So a search multiplies each annotation once, not each hypothesis's context at each step.
    """

    cell: Any  # [B, S, parts · U] float: C h_j, or C c_i [B, Q, parts · U]; () where the cell reads no context
    readout: Any  # [B, S, ...] float: the same for the readout's matrix; h_j itself where it has none of the kind


Reader = Callable[[keras.Variable, str], tf.Tensor]
"""Gives a variable's value in a dtype."""

_reader: ContextVar[Reader] = ContextVar("reader", default=tf.cast)


def _reading(reader: Reader) -> AbstractContextManager[None]:
    """Lets ``reader`` answer whenever a part reads a variable."""
    return _having(_reader, reader)


_matrix_reader: ContextVar[Callable[[Any], tf.Tensor] | None] = ContextVar("matrix reader", default=None)


@contextmanager
def rounded_matrices(dtype: str) -> Iterator[None]:
    """Lets ``Part.matrix`` read in a lower precision, in which ``product`` then computes.

    A variable is rounded once and in the graph where this is entered, though it may be read in a loop within.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    rounded: dict[int, tf.Tensor] = {}

    def read(x: Any) -> tf.Tensor:
        if graph is None or not isinstance(x, keras.Variable):
            return tf.cast(x, dtype)
        if id(x) not in rounded:
            with graph.as_default():
                rounded[id(x)] = tf.cast(x, dtype)
        return rounded[id(x)]

    with _having(_matrix_reader, read):
        yield


def scan(
    advance: Callable[[Any, Any], tuple[Any, Any]], inputs: Any, carry: Any, *, reverse: bool = False
) -> tuple[Any, Any]:
    """Runs ``carry, emission = advance(input, carry)`` over time, in one ``tf.while_loop``.

    Variables that ``advance`` reads by way of ``Part.value`` and ``Part.cast`` are read once, before the loop: of what
    is read within, TensorFlow's gradient would keep a copy for each step.

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

    read: dict[tuple[int, str], keras.Variable] = {}

    def note(variable: keras.Variable, dtype: str) -> tf.Tensor:
        read[id(variable), dtype] = variable
        return tf.cast(variable, dtype)

    if tf.executing_eagerly():  # where a step is cheaper than its trace
        _, emission = advance(at(0), carry)
    else:
        signature = tf.nest.map_structure(tf.TensorSpec.from_tensor, (at(0), carry))
        with _reading(note):
            _, emission = tf.function(advance, autograph=False).get_concrete_function(*signature).structured_outputs
    held = {(number, dtype): tf.cast(variable, dtype) for (number, dtype), variable in read.items()}
    written = [_rows(e.dtype, steps, e.shape[:1] + e.shape[2:]) for e in tf.nest.flatten(emission)]

    def body(
        count: tf.Tensor, carry: Any, written: list[tf.TensorArray]
    ) -> tuple[tf.Tensor, Any, list[tf.TensorArray]]:
        position = steps - 1 - count if reverse else count
        carry, emission = advance(at(position), carry)
        parts = [e[:, 0] for e in tf.nest.flatten(emission)]
        return count + 1, carry, [row.write(position, e) for row, e in zip(written, parts, strict=True)]

    def at_hand(variable: keras.Variable, dtype: str) -> tf.Tensor:
        found = held.get((id(variable), dtype))
        return tf.cast(variable, dtype) if found is None else found

    with _reading(at_hand):
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
    its sizes, and nothing is created inside a loop. Each argument of a constructor is an attribute of the same name,
    and so the configuration.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(autocast=False, **options)  # what is rounded stays so, also past __call__
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Marks the part as built: its constructor has made every variable and sublayer."""
        self.built = True

    def weight(self, name: str, shape: tuple[int, ...], initializer: str | keras.initializers.Initializer) -> Any:
        """Declares a trainable variable."""
        return self.add_weight(name=name, shape=shape, initializer=initializer)

    def value(self, variable: keras.Variable) -> tf.Tensor:
        """A variable's value in its own dtype."""
        return _reader.get()(variable, variable.dtype)

    def cast(self, x: Any) -> tf.Tensor:
        """``x`` (a variable or a tensor) in the dtype that this part computes in."""
        return _reader.get()(x, self.compute_dtype) if isinstance(x, keras.Variable) else tf.cast(x, self.compute_dtype)

    def matrix(self, x: Any) -> tf.Tensor:
        """As ``cast``, for ``product``; in the precision of ``rounded_matrices`` where that is entered."""
        read = _matrix_reader.get()
        return self.cast(x) if read is None else read(x)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments; layers among them serialised."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "options")]
        own = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in names}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The inverse of ``get_config``."""
        return cls(**{name: keras.saving.deserialize_keras_object(value) for name, value in config.items()})


class Cell(Part):
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

    def read_context(self, context: tf.Tensor) -> tf.Tensor:
        """C c_t: [..., D] -> [..., parts · U]."""
        return product(context, self.matrix(self.context_kernel))

    def contextualise(self, projected: tf.Tensor, context: tf.Tensor | Reading) -> tf.Tensor:
        """W x_t + b + C c_t from W x_t + b [..., parts · U] and c_t, or what was read of it."""
        return projected + (context.cell if isinstance(context, Reading) else self.read_context(context))

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
        """What a layer above, an attention or a readout sees of a state: [..., U]."""
        return state


def _kept(state: tf.Tensor, keep: tf.Tensor | None) -> tf.Tensor:
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
        return tf.tanh(projected + product(_kept(state, keep), self.matrix(self.recurrent)))


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
        seen = _kept(state, keep)
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
        read = product(_kept(state, keep), self.matrix(self.recurrent), self.cast(self.recurrent_bias))
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
        sums = projected + product(_kept(state.hidden, keep), self.matrix(self.recurrent))
        enter, forget, proposal, leave = tf.split(sums, 4, axis=-1)
        memory = tf.sigmoid(forget) * state.memory + tf.sigmoid(enter) * tf.tanh(proposal)
        return LSTMState(tf.sigmoid(leave) * tf.tanh(memory), memory)

    def state_of(self, output: tf.Tensor) -> LSTMState:
        """h = ``output``, c = 0."""
        return LSTMState(output, tf.zeros_like(output))

    def output(self, state: LSTMState) -> tf.Tensor:
        """h_t."""
        return state.hidden


CELL_CLASSES: dict[str, type[Cell]] = {
    "tanh": TanhCell,
    "gru": GRUCell,
    "gru-reset-after": ResetAfterGRUCell,
    "lstm": LSTMCell,
}
"""By the name that a configuration gives them."""


class Masks(NamedTuple):
    """Dropout masks of a stack for a stretch of positions; empty where nothing is dropped."""

    handed: tuple[tf.Tensor, ...]  # [B, T, U] for each cell but the first: on what it gets from below
    read: tuple[tf.Tensor, ...]  # [B, T, U] for each cell, the same at all T: on the state that it reads


@keras.saving.register_keras_serializable("nmt_keras")
class Stack(Part):
    """Cells one upon the other; at every step each reads the output of the one below.

    The first has the context, if any. With ``residual``, each cell but the first adds its input to its output (Wu et
    al. 2016, section 3.1).

    Args:
        cells: from the bottom up.
        residual: see above.
        dropout: probability of dropping an entry of what one cell hands to the next, in training.
        recurrent_dropout: probability of dropping an entry of a state where its cell reads it, in training; one mask
            for all steps.
    """

    def __init__(
        self,
        cells: list[Cell],
        residual: bool = False,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.cells, self.residual = cells, residual
        self.dropout, self.recurrent_dropout = dropout, recurrent_dropout

    def zero_state(self, batch: tf.Tensor) -> tuple[Any, ...]:
        """Every cell's state 0."""
        return tuple(cell.zero_state(batch) for cell in self.cells)

    def output(self, states: tuple[Any, ...]) -> tf.Tensor:
        """The top cell's output without what ``residual`` adds: [..., U]."""
        return self.cells[-1].output(states[-1])

    def masks(self, like: tf.Tensor, noise: Noise | None) -> Masks:
        """One training step's dropout masks for the positions of ``like`` [B, T, ...]."""
        if noise is None:
            return Masks((), ())
        batch, steps = tf.shape(like)[0], like.shape[1] or tf.shape(like)[1]
        handed, read = [], []
        for number, cell in enumerate(self.cells):
            if self.dropout and number:
                shape = tf.stack([batch, steps, self.cells[number - 1].units])
                handed.append(keep_mask(shape, self.dropout, noise, f"{self.name} layer {number}", like.dtype))
            if self.recurrent_dropout:
                shape, site = tf.stack([batch, 1, cell.units]), f"{self.name} state {number}"
                once = keep_mask(shape, self.recurrent_dropout, noise._replace(position=()), site, like.dtype)
                read.append(tf.repeat(once, steps, axis=1))
        return Masks(tuple(handed), tuple(read))

    def advance(self, projected: tf.Tensor, states: tuple[Any, ...], masks: Masks) -> tuple[tuple[Any, ...], tf.Tensor]:
        """The next states, and the top cell's output [B, Q, U].

        Args:
            projected: what the first cell's ``project`` and ``contextualise`` gave.
            states: one per cell.
            masks: this position's.
        """
        advanced = []
        output = None
        for number, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            if number:
                below = output * masks.handed[number - 1] if masks.handed else output
                projected = cell.project(below)
            state = cell.advance(projected, state, masks.read[number] if masks.read else None)
            above = cell.output(state)
            output = above + below if number and self.residual else above
            advanced.append(state)
        return tuple(advanced), output
