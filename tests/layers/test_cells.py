"""Cells and stacks against the papers' equations, the loop over time against a plain one, and what dropout promises."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import advance, advance_stack, cell_of, gates_of, output_of, stack_of, state_of, zero_state
from tensors import assert_same, normal
from tiny import randomise

from nmt_keras.layers.cells import CELLS, GRUCell, LSTMCell, LSTMState, ResetAfterGRUCell, TanhCell
from nmt_keras.layers.dropout import Randomness, dropout
from nmt_keras.layers.matmul import product
from nmt_keras.layers.scan import scan
from nmt_keras.layers.stack import Masks, Stack

B, T, U, INPUT, D = 3, 5, 7, 11, 13
KINDS = list(CELLS)
PARTS = {"tanh": 1, "gru": 3, "gru-reset-after": 3, "lstm": 4}


def make(kind, units=U, input_size=INPUT, context_size=D, seed=1):
    cell = CELLS[kind](units, input_size, context_size)
    randomise(cell, seed)
    return cell


def mask(*shape, seed=3):
    """A dropout mask of rate 1/3."""
    return tf.constant(np.random.default_rng(seed).choice([0.0, 1.5], p=[1 / 3, 2 / 3], size=shape), tf.float32)


def state_like(kind, *shape, seed=3):
    state = normal(*shape, seed=seed)
    return LSTMState(state, normal(*shape, seed=seed + 100)) if kind == "lstm" else state


def at(nest, *place):
    """One position of a nest of tensors, in the reference's precision."""
    return tf.nest.map_structure(lambda x: np.asarray(x, np.float64)[place], nest)


def randomness(seed=1, step=1):
    return Randomness(tf.constant(seed), tf.constant(step))


# Cells


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_the_paper_s(kind):
    cell = make(kind)
    x, state, context = normal(B, T, INPUT), state_like(kind, B, T, U), normal(B, T, D, seed=4)
    found = cell.advance(cell.contextualise(cell.project(x), context), state)
    for b in range(B):
        for t in range(T):
            wanted = advance(cell_of(cell), at(x, b, t), at(state, b, t), at(context, b, t))
            assert_same(at(found, b, t), wanted)
            assert_same(at(cell.output(found), b, t), output_of(cell_of(cell), wanted))


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_on_the_state_drops_it_where_a_matrix_reads_it_and_nowhere_else(kind):
    cell, keep = make(kind), mask(B, U)
    x, state, context = normal(B, INPUT), state_like(kind, B, U), normal(B, D, seed=4)
    found = cell.advance(cell.contextualise(cell.project(x), context), state, keep)
    for b in range(B):
        wanted = advance(cell_of(cell), at(x, b), at(state, b), at(context, b), at(keep, b))
        assert_same(at(found, b), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_context_a_cell_has_no_weights_for_it_and_leaves_it_out(kind):
    cell = make(kind, context_size=0)
    assert len(cell.trainable_variables) == len(make(kind).trainable_variables) - 1
    x, state = normal(1, INPUT), state_like(kind, 1, U)
    assert_same(at(cell.advance(cell.project(x), state), 0), advance(cell_of(cell), at(x, 0), at(state, 0)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_without_inputs_runs_on_its_state_and_bias(kind):
    cell = make(kind, input_size=0, context_size=0)
    assert len(cell.trainable_variables) == len(make(kind).trainable_variables) - 2
    unread, state = normal(B, T, INPUT), state_like(kind, B, T, U)
    projected = cell.project(unread)
    assert projected.shape == (B, T, PARTS[kind] * U)
    found = cell.advance(projected, state)
    assert_same(at(found, 1, 2), advance(cell_of(cell), np.zeros(0), at(state, 1, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_is_made_of_an_output_or_of_nothing(kind):
    cell, output = make(kind), normal(B, 1, U)
    assert_same(at(cell.state_of(output), 1, 0), state_of(cell_of(cell), at(output, 1, 0)))
    assert_same(cell.output(cell.state_of(output)), output, atol=0.0)
    assert_same(at(cell.zero_state(tf.constant(B)), 2, 0), zero_state(cell_of(cell)))
    assert {part.shape for part in tf.nest.flatten(cell.zero_state(tf.constant(B)))} == {(B, 1, U)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_cell_s_biases_are_0_but_an_lstm_s_forget_gate_begins_open(kind):
    cell = CELLS[kind](2, INPUT, D)
    for variable in cell.trainable_variables:
        if "bias" in variable.name:
            wanted = [0, 0, 1, 1, 0, 0, 0, 0] if kind == "lstm" else [0] * variable.shape[0]
            assert variable.numpy().tolist() == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_comes_back_from_its_configuration(kind):
    cell = make(kind)
    config = cell.get_config()
    copy = CELLS[kind].from_config(config)
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in cell.trainable_variables]


# Keras's cells, fed [x ; c]


def peer_of(kind, cell):
    """Keras's cell with the same weights; its kernels stack x over c, and gates side by side."""
    peer = {
        "tanh": keras.layers.SimpleRNNCell(U),
        "gru": keras.layers.GRUCell(U, reset_after=False),
        "gru-reset-after": keras.layers.GRUCell(U, reset_after=True),
        "lstm": keras.layers.LSTMCell(U),
    }[kind]
    peer.build((B, INPUT + D))
    p = cell_of(cell)
    W, U_, C, b = zip(*gates_of(p), strict=True)
    sign = np.ones(PARTS[kind] * U)
    if kind == "gru":
        sign[:U] = -1.0  # sigma(-a) = 1 - sigma(a): Keras's update gate is the complement of Cho's
    peer.kernel.assign(np.vstack([np.vstack(W).T, np.vstack(C).T]) * sign)
    peer.recurrent_kernel.assign(np.vstack(U_).T * sign)
    biases = np.concatenate(b) * sign
    peer.bias.assign(np.stack([biases, np.concatenate(p.d)]) if kind == "gru-reset-after" else biases)
    return peer


@pytest.mark.parametrize("kind", KINDS)
def test_keras_s_cell_is_the_same_if_cho_s_update_gate_is_complemented(kind):
    cell = make(kind)
    x, state, context = normal(B, INPUT), state_like(kind, B, U), normal(B, D, seed=4)
    output, wanted = peer_of(kind, cell)(tf.concat([x, context], axis=-1), tf.nest.flatten(state))
    found = cell.advance(cell.contextualise(cell.project(x), context), state)
    assert_same(found, wanted)
    assert_same(cell.output(found), output)


# Cases that can be worked out by hand


def emptied(cell):
    for variable in cell.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    return cell


def test_a_tanh_cell_adds_up_and_takes_the_tanh():
    cell = TanhCell(1, 1, 1)
    values = [(cell.kernel, 0.02), (cell.recurrent, 0.03), (cell.context_kernel, 0.05), (cell.bias, 0.07)]
    for variable, value in values:
        variable.assign(tf.fill(variable.shape, value))
    projected = cell.contextualise(cell.project(tf.constant([[1.0]])), tf.constant([[10.0]]))
    assert projected.numpy().item() == pytest.approx(0.02 + 0.07 + 0.5)
    assert cell.advance(projected, tf.constant([[-3.0]])).numpy().item() == pytest.approx(np.tanh(0.59 - 0.09))


def test_an_update_gate_of_zero_keeps_the_state_and_one_of_one_replaces_it():
    cell, state = emptied(GRUCell(1, 1)), tf.constant([[0.5]])
    closed, opened = tf.constant([[-100.0, 0.0, 9.0]]), tf.constant([[100.0, 0.0, 9.0]])
    assert cell.advance(closed, state).numpy() == 0.5
    assert cell.advance(opened, state).numpy() == pytest.approx(np.tanh(9.0), abs=1e-6)


def test_the_lecture_s_update_gate_is_the_other_way_round():
    cell, state = emptied(ResetAfterGRUCell(1, 1)), tf.constant([[0.5]])
    closed, opened = tf.constant([[-100.0, 0.0, 9.0]]), tf.constant([[100.0, 0.0, 9.0]])
    assert cell.advance(opened, state).numpy() == 0.5
    assert cell.advance(closed, state).numpy() == pytest.approx(np.tanh(9.0), abs=1e-6)


def test_resetting_before_a_product_and_after_it_differ_as_soon_as_the_product_mixes_units():
    """Of the two units the first is reset; each proposal is the sum of what it may see."""
    state, all_ones = tf.constant([[0.3, 0.4]]), tf.ones([2, 2])
    projected = tf.constant([[100.0, 100.0, -100.0, 100.0, 0.0, 0.0]])  # Cho's update gates open; resets 0 and 1
    before = emptied(GRUCell(2, 1))
    before.recurrent.assign(all_ones)
    np.testing.assert_allclose(before.advance(projected, state), np.tanh([[0.4, 0.4]]), atol=1e-6)
    after = emptied(ResetAfterGRUCell(2, 1))
    after.recurrent.assign(tf.concat([tf.zeros([2, 4]), all_ones], axis=1))
    lecture = projected * [-1.0, -1.0, 1.0, 1.0, 1.0, 1.0]  # there z keeps the old state
    np.testing.assert_allclose(after.advance(lecture, state), np.tanh([[0.0, 0.7]]), atol=1e-6)


def test_an_lstm_keeps_what_it_does_not_forget_adds_what_it_lets_in_and_shows_what_it_lets_out():
    cell, state = emptied(LSTMCell(1, 1)), LSTMState(tf.constant([[0.9]]), tf.constant([[0.5]]))

    def gates(enter, forget, proposal, leave):
        new = cell.advance(tf.constant([[enter, forget, proposal, leave]]), state)
        return new.memory.numpy().item(), new.hidden.numpy().item()

    shut, wide = -100.0, 100.0
    assert gates(shut, wide, 9.0, shut) == pytest.approx((0.5, 0.0))
    assert gates(shut, wide, 9.0, wide) == pytest.approx((0.5, np.tanh(0.5)))
    assert gates(wide, shut, 0.25, wide) == pytest.approx((np.tanh(0.25), np.tanh(np.tanh(0.25))))
    assert gates(wide, wide, 0.25, shut) == pytest.approx((0.5 + np.tanh(0.25), 0.0))


# One matrix for two cells


def test_a_cell_may_use_the_recurrent_matrix_of_another():
    one = make("tanh", context_size=0)
    other = TanhCell(U, D, recurrence_of=one)
    randomise(other, 5)
    assert other.recurrent is one.recurrent
    assert len({id(v) for v in one.trainable_variables + other.trainable_variables}) == 3 + 2
    x, state = normal(1, D), normal(1, U)
    found = other.advance(other.project(x), state)
    assert_same(at(found, 0), advance(cell_of(other), at(x, 0), at(state, 0)))
    np.testing.assert_array_equal(cell_of(other).U, cell_of(one).U)


def test_the_gradients_of_a_shared_matrix_add_up():
    one = make("tanh", context_size=0)
    other = TanhCell(U, D, recurrence_of=one)
    x, y, state = normal(1, INPUT), normal(1, D, seed=5), normal(1, U)

    def slope(*cells_and_inputs):
        with tf.GradientTape() as tape:
            total = tf.add_n([tf.reduce_sum(c.advance(c.project(i), state)) for c, i in cells_and_inputs])
        return tape.gradient(total, one.recurrent.value)

    first, second = slope((one, x)), slope((other, y))
    assert np.abs(second).max() > 0.01
    np.testing.assert_allclose(slope((one, x), (other, y)), first + second, atol=1e-6)


# Stacks


def make_stack(kind="gru", residual=True, **rates):
    """Three cells of 7 units; the lowest reads inputs of 11 and contexts of 13."""
    cells = [CELLS[kind](U, INPUT, D, name="cell_0")]
    cells += [CELLS[kind](U, U, name=f"cell_{i}") for i in (1, 2)]
    stack = Stack(cells, residual=residual, **rates, name="stack")
    randomise(stack, 8)
    return stack


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_stack_passes_outputs_upward_and_a_residual_adds_what_came_from_below(kind, residual, dropped):
    stack = make_stack(kind, residual)
    x, context = normal(B, 1, INPUT), normal(B, 1, D, seed=4)
    states = tuple(state_like(kind, B, 1, U, seed=seed) for seed in (5, 6, 7))
    masks = Masks((), ())
    if dropped:
        masks = Masks((mask(B, 1, U, seed=1), mask(B, 1, U, seed=2)), tuple(mask(B, 1, U, seed=s) for s in (3, 4, 5)))
    projected = stack.cells[0].contextualise(stack.cells[0].project(x), context)
    after, output = stack.advance(projected, states, masks)
    for b in range(B):
        wanted, top = advance_stack(
            stack_of(stack),
            at(x, b, 0),
            at(states, b, 0),
            at(context, b, 0),
            at(masks.handed, b, 0) or None,
            at(masks.read, b, 0) or None,
        )
        assert_same(at(after, b, 0), wanted)
        assert_same(at(output, b, 0), top)
        assert_same(at(stack.output(after), b, 0), output_of(stack_of(stack).cells[-1], wanted[-1]))


def test_a_residual_stack_by_hand():
    """Cells that ignore their state and give tanh of their input."""
    cells = [emptied(TanhCell(1, 1)), emptied(TanhCell(1, 1))]
    for cell in cells:
        cell.kernel.assign([[1.0]])
    stack, states = Stack(cells, residual=True), (tf.zeros([1, 1, 1]),) * 2
    after, output = stack.advance(cells[0].project(tf.constant([[[0.5]]])), states, Masks((), ()))
    low = np.tanh(0.5)
    assert [state.numpy().item() for state in after] == pytest.approx([low, np.tanh(low)])
    assert output.numpy().item() == pytest.approx(np.tanh(low) + low)


def test_a_stack_s_state_0_is_that_of_each_cell():
    states = make_stack("lstm").zero_state(tf.constant(B))
    assert len(states) == 3
    assert all(isinstance(state, LSTMState) for state in states)
    assert not any(np.any(part) for part in tf.nest.flatten(states))


def test_masks_on_what_is_handed_on_are_new_at_every_step_and_those_on_states_are_not():
    stack = make_stack(dropout=0.25, recurrent_dropout=0.5)
    masks = stack.masks(tf.zeros([4, T, INPUT]), randomness())
    assert [m.shape for m in masks.handed] == [(4, T, U)] * 2
    assert [m.shape for m in masks.read] == [(4, T, U)] * 3
    assert set(np.unique(masks.handed)) == {0.0, np.float32(1 / 0.75)}
    assert set(np.unique(masks.read)) == {0.0, 2.0}
    for handed in masks.handed:
        assert np.ptp(handed, axis=1).any()
    for read in masks.read:
        assert not np.ptp(read, axis=1).any()
        assert np.ptp(read, axis=0).any(), "each sentence has a mask of its own"


def test_where_positions_draw_one_by_one_masks_on_states_are_still_the_same_at_all():
    stack = make_stack(dropout=0.5, recurrent_dropout=0.5)
    first, second = (
        stack.masks(tf.zeros([4, 1, INPUT]), randomness()._replace(position=tf.constant(position)))
        for position in (0, 1)
    )
    for one, other in zip(first.handed, second.handed, strict=True):
        assert np.any(one != other)
    for one, other in zip(first.read, second.read, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_two_places_of_a_stack_share_a_mask():
    masks = make_stack(dropout=0.5, recurrent_dropout=0.5).masks(tf.zeros([4, T, INPUT]), randomness())
    drawn = [np.asarray(m).tobytes() for m in (*masks.handed, *masks.read)]
    assert len(set(drawn)) == 5


def test_a_stack_drops_nothing_outside_training_and_nothing_at_rate_0():
    like = tf.zeros([B, T, INPUT])
    assert make_stack(dropout=0.5, recurrent_dropout=0.5).masks(like, None) == Masks((), ())
    assert make_stack().masks(like, randomness()) == Masks((), ())
    assert make_stack(dropout=0.5).masks(like, randomness()).read == ()
    assert make_stack(recurrent_dropout=0.5).masks(like, randomness()).handed == ()


def test_a_stack_comes_back_from_its_configuration():
    stack = make_stack("lstm", dropout=0.25, recurrent_dropout=0.5)
    config = stack.get_config()
    copy = Stack.from_config(config)
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in stack.trainable_variables]


def test_a_product_is_over_the_last_axis():
    x, kernel = normal(2, 3, 5), normal(5, 7, seed=3)
    np.testing.assert_allclose(product(x, kernel), np.einsum("bti,io->bto", x, kernel), atol=1e-5)


def test_a_kernel_s_precision_is_the_product_s_and_neither_the_bias_s_nor_the_result_s():
    x, kernel, bias = normal(2, 3, 5), normal(5, 7, seed=3), 100.0 + normal(7, seed=4)
    found = product(x, tf.cast(kernel, tf.bfloat16), bias)
    assert found.dtype == tf.float32
    flat = tf.matmul(tf.cast(tf.reshape(x, [6, 5]), tf.bfloat16), tf.cast(kernel, tf.bfloat16))
    np.testing.assert_array_equal(found, tf.reshape(tf.cast(flat, tf.float32) + bias, [2, 3, 7]))


# The loop


def running_sum(x, state):
    return state + x, {"sum": state + x, "before": state}


@pytest.mark.parametrize(
    ("reverse", "last", "sums", "before"),
    [(False, 1111, [1, 11, 111, 1111], [0, 1, 11, 111]), (True, 1111, [1111, 1110, 1100, 1000], [1110, 1100, 1000, 0])],
)
def test_the_loop_goes_through_time_either_way_and_emissions_keep_their_positions(reverse, last, sums, before):
    x = tf.constant([[1, 10, 100, 1000]])[:, :, tf.newaxis]
    state, emissions = scan(running_sum, x, tf.zeros([1, 1, 1], tf.int32), reverse=reverse)
    assert state.numpy().tolist() == [[[last]]]
    assert emissions["sum"][0, :, 0].numpy().tolist() == sums
    assert emissions["before"][0, :, 0].numpy().tolist() == before


def test_the_loop_takes_a_single_position():
    state, emissions = scan(running_sum, tf.constant([[[3.0]], [[4.0]]]), tf.ones([2, 1, 1]))
    assert state.numpy().ravel().tolist() == [4.0, 5.0]
    assert emissions["sum"].shape == (2, 1, 1)


def affine(x, state):
    a, b = x
    state = tf.tanh(a * state + b)
    return state, state * a


def loop_with_gradient(a, b, start):
    with tf.GradientTape() as tape:
        tape.watch([a, b, start])
        state, emissions = scan(affine, (a, b), start, reverse=True)
        total = tf.reduce_sum(state) + tf.reduce_sum(emissions**2)
    return emissions, *tape.gradient(total, [a, b, start])


def plain_loop_with_gradient(a, b, start):
    with tf.GradientTape() as tape:
        tape.watch([a, b, start])
        state, emissions = start, []
        for t in reversed(range(a.shape[1])):
            state, emission = affine((a[:, t : t + 1], b[:, t : t + 1]), state)
            emissions.insert(0, emission)
        emissions = tf.concat(emissions, axis=1)
        total = tf.reduce_sum(state) + tf.reduce_sum(emissions**2)
    return emissions, *tape.gradient(total, [a, b, start])


@pytest.mark.parametrize(
    "compiled",
    [
        loop_with_gradient,
        tf.function(loop_with_gradient, autograph=False),
        tf.function(loop_with_gradient, autograph=False, jit_compile=True),
        tf.function(loop_with_gradient, autograph=False, input_signature=[tf.TensorSpec([None, None, U])] * 3),
    ],
    ids=["eager", "graph", "xla", "graph of unknown shapes"],
)
def test_the_loop_and_its_gradient_equal_those_of_a_python_loop(compiled):
    arguments = normal(B, T, U), normal(B, T, U, seed=3), normal(B, 1, U, seed=4)
    for found, wanted in zip(compiled(*arguments), plain_loop_with_gradient(*arguments), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


# Dropout


def test_dropout_is_absent_outside_training_and_at_rate_0():
    x = normal(B, T)
    assert dropout(x, 0.5, None, "site") is x
    assert dropout(x, 0.0, randomness(), "site") is x


def test_dropout_zeroes_or_scales():
    found = dropout(tf.ones([1000]), 0.2, randomness(), "site").numpy()
    assert set(found.tolist()) == {0.0, 1.25}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(rate):
    n = 100_000
    found = dropout(tf.ones([n]), rate, randomness(), "site").numpy()
    deviation = (rate * (1.0 - rate) / n) ** 0.5  # of the share of zeros, a binomial's
    assert abs((found == 0.0).mean() - rate) < 4.0 * deviation
    assert abs(found.mean() - 1.0) < 4.0 * deviation / (1.0 - rate)


def test_a_dropout_mask_depends_on_seed_step_site_and_position_and_on_nothing_else():
    x = tf.ones([1000])
    masks = [
        dropout(x, 0.5, randomness(seed, step), site).numpy()
        for seed, step, site in [(1, 1, "a"), (1, 1, "a"), (2, 1, "a"), (1, 2, "a"), (1, 1, "b")]
    ]
    masks.append(dropout(x, 0.5, randomness()._replace(position=tf.constant(7)), "a").numpy())
    np.testing.assert_array_equal(masks[0], masks[1])
    for other in masks[2:]:  # independent masks of rate 1/2 agree in half the places, give or take 4 deviations
        assert abs((masks[0] == other).mean() - 0.5) < 4.0 * 0.5 / 1000**0.5


def test_a_dropout_mask_is_the_same_with_and_without_xla():
    def drop(x, step):
        return dropout(x, 0.3, Randomness(tf.constant(5), step), "site")

    plain, step = drop(tf.ones([B, T, U]), tf.constant(9)), tf.constant(9)
    for compiled in (tf.function(drop), tf.function(drop, jit_compile=True)):
        np.testing.assert_array_equal(compiled(tf.ones([B, T, U]), step), plain)


def test_dropout_keeps_the_dtype():
    for dtype in (tf.bfloat16, tf.float64):
        assert dropout(tf.ones([B], dtype), 0.3, randomness(), "site").dtype == dtype


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_loop_reads_its_weights_before_it_begins(policy, dtype_policy):
    """What is read within is kept once for each step by TensorFlow's gradient: a copy of every matrix."""
    dtype_policy(policy)
    cell = GRUCell(5, 3)

    @tf.function(autograph=False)
    def summed(x):
        state, _ = scan(lambda x, s: (cell.advance(cell.project(x), s), s), x, cell.zero_state(tf.shape(x)[0]))
        return tf.reduce_sum(state)

    x = tf.ones([2, 4, 3], cell.compute_dtype)
    graph = summed.get_concrete_function(x).graph
    (loop,) = (operation for operation in graph.get_operations() if operation.type in ("While", "StatelessWhile"))
    functions = {function.signature.name: function for function in graph.as_graph_def().library.function}
    kinds = {node.op for node in functions[loop.get_attr("body").name].node_def}
    assert "MatMul" in kinds
    assert not kinds & {"ReadVariableOp", "Cast"}
    assert np.isfinite(float(summed(x)))
