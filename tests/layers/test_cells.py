"""Cells and stacks against the papers' equations."""

import numpy as np
import pytest
import tensorflow as tf
from reference import advance, advance_stack, cell_of, output_of
from tensors import assert_same, normal
from tiny import randomise

from nmt_keras.layers.cells import CELLS, GRUCell, LayerNormGRUCell, LSTMCell, LSTMState, ResetAfterGRUCell
from nmt_keras.layers.stack import StackedCells, StackMasks

B, T, U, INPUT, D = 3, 5, 7, 11, 13
KINDS = list(CELLS)


def make(kind, input_size=INPUT, context_size=D):
    cell = CELLS[kind](U)
    cell.build(*((B, T, size) if size else None for size in (input_size, context_size)))
    randomise(cell, 1)
    return cell


def mask(*shape, seed=3):
    """Returns a dropout mask of rate 1/3."""
    return tf.constant(np.random.default_rng(seed).choice([0.0, 1.5], p=[1 / 3, 2 / 3], size=shape), tf.float32)


def state_like(kind, *shape, seed=3):
    state = normal(*shape, seed=seed)
    return LSTMState(state, normal(*shape, seed=seed + 100)) if kind == "lstm" else state


def at(nest, *place):
    """Returns one position of a nest of tensors, in the precision of the reference."""
    return tf.nest.map_structure(lambda x: np.asarray(x, np.float64)[place], nest)


def built(kind, units, input_size=1, context_size=None):
    """Returns a cell with initial weights."""
    cell = kind(units)
    cell.build((1, input_size), context_size and (1, context_size))
    return cell


def step(cell, x, state, context=None, mask=None):
    """Returns a cell's next state for the given inputs."""
    projected = cell.project(x)
    if context is not None:
        projected += cell.project_context(context)
    return cell.advance(projected, state, mask)


# Cells


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_the_paper_s_and_a_mask_drops_the_state_where_a_matrix_reads_it(kind, masked):
    cell, keep = make(kind), mask(B, T, U) if masked else None
    x, state, context = normal(B, T, INPUT), state_like(kind, B, T, U), normal(B, T, D, seed=4)
    found = step(cell, x, state, context, keep)
    for place in np.ndindex(B, T):
        read = at(keep, *place) if masked else 1.0
        wanted = advance(cell_of(cell), at(x, *place), at(state, *place), at(context, *place), read)
        assert_same(at(found, *place), wanted)
        assert_same(at(cell.output_of(found), *place), output_of(cell_of(cell), wanted))
    if not masked:
        assert_same(cell(x, tf.nest.flatten(state), context), (cell.output_of(found), tf.nest.flatten(found)), atol=0.0)


@pytest.mark.parametrize("input_size", [0, INPUT])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_without_context_or_without_inputs_has_no_weights_for_them(kind, input_size):
    cell = make(kind, input_size, context_size=0)
    assert len(cell.trainable_variables) == len(make(kind).trainable_variables) - (1 if input_size else 2)
    x, state = normal(B, T, INPUT), state_like(kind, B, T, U)
    wanted = advance(cell_of(cell), at(x, 1, 2)[:input_size], at(state, 1, 2))
    assert_same(at(step(cell, x, state), 1, 2), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_cell_s_biases_are_0_but_an_lstm_s_forget_gate_begins_open(kind):
    for variable in built(CELLS[kind], 2, INPUT, D).trainable_variables:
        if "bias" in variable.name:
            wanted = [0, 0, 1, 1, 0, 0, 0, 0] if kind == "lstm" else [0] * variable.shape[0]
            assert variable.numpy().tolist() == wanted


# By hand


def advance_empty(cell, projected, state, **weights):
    """Returns a cell's next state if all its weights are 0, except those given."""
    for variable in cell.trainable_variables:
        variable.assign(weights.get(variable.name, tf.zeros_like(variable)))
    return cell.advance(tf.constant(projected), state)


@pytest.mark.parametrize(("kind", "keeps"), [(GRUCell, -100.0), (ResetAfterGRUCell, 100.0)])
def test_an_update_gate_keeps_the_state_or_replaces_it_and_the_lecture_s_is_the_other_way_round(kind, keeps):
    state = tf.constant([[0.5]])
    assert advance_empty(built(kind, 1), [[keeps, 0.0, 9.0]], state).numpy() == 0.5
    assert advance_empty(built(kind, 1), [[-keeps, 0.0, 9.0]], state).numpy() == pytest.approx(np.tanh(9.0), abs=1e-6)


def test_layer_normalisation_gates_and_proposal_by_hand():
    """The inputs of the gates are 1, 1, 3, 3, so 1 standard deviation from their mean; those of the proposal are -2, 2.

    The products with the state are 0, and so are their normalisations.
    """
    cell, state = built(LayerNormGRUCell, 2), tf.constant([[0.3, 0.4]])
    cell.recurrent.assign(tf.zeros([2, 6]))
    found = cell.advance(tf.constant([[1.0, 1.0, 3.0, 3.0, -2.0, 2.0]]), state)
    update = 1.0 / (1.0 + np.exp(1.0))  # sigma(-1)
    np.testing.assert_allclose(
        found, [[0.3 + update * (np.tanh(-1) - 0.3), 0.4 + update * (np.tanh(1) - 0.4)]], atol=1e-5
    )


SHUT, WIDE = -100.0, 100.0


@pytest.mark.parametrize(
    ("gates", "memory", "hidden"),
    [
        ([SHUT, WIDE, 9.0, SHUT], 0.5, 0.0),
        ([SHUT, WIDE, 9.0, WIDE], 0.5, np.tanh(0.5)),
        ([WIDE, SHUT, 0.25, WIDE], np.tanh(0.25), np.tanh(np.tanh(0.25))),
        ([WIDE, WIDE, 0.25, SHUT], 0.5 + np.tanh(0.25), 0.0),
    ],
)
def test_an_lstm_keeps_what_it_does_not_forget_adds_what_enters_and_shows_what_leaves(gates, memory, hidden):
    state = LSTMState(tf.constant([[0.9]]), tf.constant([[0.5]]))
    assert_same(advance_empty(built(LSTMCell, 1), [gates], state), LSTMState(hidden, memory))


# Stacks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropped", [False, True])
def test_a_stack_passes_outputs_upward(kind, dropped):
    stack = StackedCells([CELLS[kind](U) for _ in range(3)])
    stack.build((B, 1, INPUT), (B, 1, D))
    randomise(stack, 8)
    x, context = normal(B, 1, INPUT), normal(B, 1, D, seed=4)
    states = tuple(state_like(kind, B, 1, U, seed=seed) for seed in (5, 6, 7))
    masks = StackMasks((None,) * 2, (None,) * 3)
    if dropped:
        masks = StackMasks(*(tuple(mask(B, 1, U, seed=seed) for seed in seeds) for seeds in ([1, 2], [3, 4, 5])))
    first = stack.cells[0]
    after, output = stack.advance(first.project(x), states, masks, context)
    reference = [cell_of(cell) for cell in stack.cells]
    for b in range(B):
        here = [at(nest, b, 0) for nest in (x, states, context)]
        dropping = [at(nest, b, 0) for nest in masks] if dropped else [None, None]
        wanted, top = advance_stack(reference, *here, *dropping)
        assert_same(at(after, b, 0), wanted)
        assert_same(at(output, b, 0), top)
        assert_same(at(stack.output_of(after), b, 0), top)
