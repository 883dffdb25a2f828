"""Score functions and attention layers against the papers' equations, and laws that hold for every alignment."""

import numpy as np
import pytest
import tensorflow as tf
from reference import Encoded, attention_of
from tensors import assert_same, normal
from tiny import randomise

from nmt_keras.layers.attention import BahdanauAttention, FixedContext, GlobalAttention, NoAttention, masked_softmax
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.memory import Encoding, LayerStates, Memory
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore

B, Q, S, U, A, D = 3, 2, 5, 7, 11, 13
LENGTHS = [5, 1, 3]
STEPS = [[0, 4], [0, 6], [9, 1]]  # target positions, some of them beyond the end of the source
SCORING = {
    "additive": lambda: BahdanauAttention(A),
    "dot": lambda: GlobalAttention(DotScore()),
    "general": lambda: GlobalAttention(GeneralScore()),
    "location": lambda: GlobalAttention(LocationScore(17)),
    "location of 2 rows": lambda: GlobalAttention(LocationScore(2)),
    "local-m": lambda: MonotonicLocalAttention(AdditiveScore(A), 1),
    "local-m wide": lambda: MonotonicLocalAttention(GeneralScore(), 3),
    "local-m dot": lambda: MonotonicLocalAttention(DotScore(), 2),
    "local-p": lambda: PredictiveLocalAttention(GeneralScore(), 1, units=A),
    "local-p sum": lambda: PredictiveLocalAttention(GeneralScore(), 1, units=A, position_logit="sum"),
    "local-p wide": lambda: PredictiveLocalAttention(AdditiveScore(A), 3, units=A),
}
LOCAL = ["local-m", "local-m wide", "local-p", "local-p sum", "local-p wide"]
WAYS = ["forward", "backward", "both"]
UNSCORED = {
    **{f"fixed {way}": lambda way=way: FixedContext(way) for way in WAYS},
    "fixed mean": lambda: FixedContext("mean"),
    "none": NoAttention,
}


def width(attention):
    """Returns the width of the annotations; that of the queries for a dot product."""
    return U if type(getattr(attention, "score", None)) is DotScore else D


def made(make):
    attention = make()
    attention.build((B, Q, U), (B, S, width(attention)))
    randomise(attention, 1)
    return attention


@pytest.fixture(params=[*SCORING, *UNSCORED])
def attention(request):
    """An attention layer of each kind."""
    return made({**SCORING, **UNSCORED}[request.param])


def annotations(attention, positions=S):
    return normal(B, positions, width(attention))


def memory_of(attention, values, lengths=LENGTHS):
    mask, count = tf.sequence_mask(lengths, values.shape[1]), tf.constant(lengths)
    states = LayerStates(normal(len(lengths), 7, seed=4), normal(len(lengths), 10, seed=5))
    encoding = Encoding(values, mask, count, (states,))
    return Memory(*encoding, attention.keys(encoding))


def attend(attention, query, memory, steps=STEPS):
    """Returns contexts and alignments."""
    attended = attention.attend(query, tf.constant(steps), memory)
    context = attention.context(attended, memory)
    return None if context is None else tf.convert_to_tensor(context), attention.alignment(attended, memory)


# Against the papers


def compare_with_the_paper(attention, values, query, lengths, steps):
    """Compares contexts and alignments with the reference. Alignments are 0 on padding."""
    found = attend(attention, query, memory_of(attention, values, lengths), steps)
    reference = attention_of(attention)
    for b, q in np.ndindex(*query.shape[:2]):
        source = Encoded(list(values.numpy()[b, : lengths[b]].astype(float)), [], [])
        alpha, context = reference(query[b, q].numpy().astype(float), steps[b][q], source)
        padding = np.zeros(values.shape[1] - lengths[b])
        assert_same([each[b, q] for each in found], [context, np.concatenate([alpha, padding])], atol=5e-5)


@pytest.mark.parametrize("name", SCORING)
def test_alignments_and_contexts_are_the_paper_s(name):
    attention = made(SCORING[name])
    compare_with_the_paper(attention, annotations(attention), normal(B, Q, U, seed=3), LENGTHS, STEPS)


@pytest.mark.parametrize("name", [*LOCAL, "local-m dot"])
def test_a_gathered_window_is_the_masked_sentence(name):
    local, queries = made(SCORING[name]), 31  # two more than source positions
    values, query = normal(1, 29, width(local)), normal(1, queries, U, seed=5)
    compare_with_the_paper(local, values, query, [29], [list(range(queries))])


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.long)], ids=["graph", "XLA"])
@pytest.mark.parametrize("name", LOCAL)
def test_padding_changes_neither_a_window_nor_its_gradient(name, compiled):
    local, lengths = made(SCORING[name]), [3, 1]
    values, query, upstream = normal(2, 3, D), normal(2, Q, U, seed=5), normal(2, Q, D, seed=6)

    @tf.function(jit_compile=compiled, autograph=False)
    def differentiated(values, query, padding):
        with tf.GradientTape() as tape:
            tape.watch([values, query])
            memory = memory_of(local, tf.pad(values, [[0, 0], [0, padding], [0, 0]]), lengths)
            context, alignment = attend(local, query, memory, [[0, 2], [1, 4]])
            total = tf.reduce_sum(upstream * context)
        watched = [values, query, *(v.value for v in local.trainable_variables)]
        gradients = tape.gradient(total, watched, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return [context, alignment[..., :3], *gradients]

    assert_same(differentiated(values, query, 0), differentiated(values, query, 8))


# By hand


@pytest.mark.parametrize(
    ("score", "kernel", "state", "annotations"),
    [
        (DotScore(), [], [1.0, 0.0], [[np.log(3.0), 5.0], [0.0, 7.0]]),
        (GeneralScore(), [np.array([[0.0], [1.0]])], [1.0], [[9.0, np.log(3.0)], [5.0, 0.0]]),
    ],
    ids=["dot", "general, which reads the second number alone"],
)
def test_a_score_of_log_3_weighs_three_times_a_score_of_0(score, kernel, state, annotations):
    attention, values = GlobalAttention(score), tf.constant([annotations], tf.float32)
    attention.build((1, 1, len(state)), values.shape)
    attention.set_weights(kernel)
    contexts, alignment = attend(attention, tf.constant([[state]]), memory_of(attention, values, [2]), [[0]])
    np.testing.assert_allclose(alignment, [[[0.75, 0.25]]], rtol=1e-6)
    np.testing.assert_allclose(contexts[0, 0], 0.75 * values[0, 0] + 0.25 * values[0, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("step", "weights"),
    [(0, [0.5, 0.5, 0, 0]), (1, [1 / 3, 1 / 3, 1 / 3, 0]), (3, [0, 0, 0.5, 0.5]), (4, [0, 0, 0.5, 0.5])],
)
def test_local_m_attends_around_the_target_s_own_position_and_past_the_end_around_the_last(step, weights):
    local = MonotonicLocalAttention(DotScore(), 1)
    memory = memory_of(local, normal(1, 4, D), [4])
    np.testing.assert_allclose(attend(local, tf.zeros([1, 1, D]), memory, [[step]])[1], [[weights]], rtol=1e-6)


def test_local_p_prefers_positions_near_the_predicted_one_and_its_alignment_sums_to_1():
    local = PredictiveLocalAttention(DotScore(), 2, units=A)
    local.build((1, 1, D), (1, 7, D))
    memory = memory_of(local, normal(1, 7, D), [4])
    zeros = tf.zeros([1, 1, D])  # a state of 0 predicts the middle; sigma = 1
    near = np.exp([-2.0, -0.5, 0.0, -0.5])
    contexts, alignment = attend(local, zeros, memory, [[0]])
    np.testing.assert_allclose(alignment, [[[*near / near.sum(), 0, 0, 0]]], rtol=1e-6)
    np.testing.assert_allclose(contexts[0, 0], 0.25 * near @ memory.values[0, :4].numpy(), rtol=1e-5)


@pytest.mark.parametrize("attention", [*map(FixedContext, WAYS), NoAttention()])
def test_without_a_score_the_alignment_has_equal_weights(attention):
    contexts, alignment = attend(attention, normal(1, 2, U), memory_of(attention, normal(1, 4, D), [3]), [[5, 6]])
    assert alignment.numpy().tolist() == [[[np.float32(1 / 3)] * 3 + [0]] * 2]
    size = attention.context_size(Encoding((1, 4, D), (1, 4), (1,), (LayerStates((1, 7), (1, 10)),)))
    states = {"forward": normal(1, 7, seed=4)[0], "backward": normal(1, 10, seed=5)[0]}
    if type(attention) is NoAttention:
        assert (size, contexts) == (0, None)
    else:
        read = [state for way, state in states.items() if attention.source in (way, "both")]
        assert size == sum(map(len, read))
        np.testing.assert_array_equal(contexts, [[np.concatenate(read)] * 2])


def test_the_mean_context_is_the_mean_of_a_sentence_s_annotations():
    values = tf.constant([[[1.0, 2.0], [5.0, 4.0], [9.0, 9.0]], [[1.0, 2.0], [5.0, 4.0], [0.0, 6.0]]])
    attention = FixedContext("mean")
    contexts, alignment = attend(attention, normal(2, 1, U), memory_of(attention, values, [2, 3]), [[0], [4]])
    np.testing.assert_allclose(contexts[:, 0], [[3, 3], [2, 4]], rtol=1e-6)
    np.testing.assert_allclose(alignment[:, 0], [[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)


# Laws


def test_alignments_sum_to_1_and_values_at_padding_change_nothing(attention):
    values, query = annotations(attention), normal(B, Q, U, seed=3)
    garbage = tf.where(~tf.sequence_mask(LENGTHS, S)[:, :, tf.newaxis], 1e6, values)
    found, wanted = (attend(attention, query, memory_of(attention, v)) for v in (garbage, values))
    assert_same(found, wanted, rtol=0.0, atol=0.0)
    np.testing.assert_allclose(tf.reduce_sum(found[1], axis=-1), tf.ones([B, Q]), atol=1e-6)
    assert not np.any(found[1].numpy()[~np.tile(tf.sequence_mask(LENGTHS, S)[:, tf.newaxis], [1, Q, 1])])


# The softmax


def test_a_softmax_in_half_precision_is_computed_in_single_precision():
    scores = tf.cast(normal(1, 1, 257), tf.bfloat16)
    found = masked_softmax(scores, tf.ones([1, 1, 257], tf.bool))
    exact = tf.nn.softmax(tf.cast(scores, tf.float32))
    assert found.dtype == tf.bfloat16
    np.testing.assert_array_equal(tf.cast(found, tf.float32), tf.cast(tf.cast(exact, tf.bfloat16), tf.float32))


def test_global_attention_is_a_layer_of_any_keras_model():
    attention = BahdanauAttention(5)
    query, values, mask = normal(2, 3, 7), normal(2, 4, 11, seed=3), tf.sequence_mask([4, 2], 4)
    context, alpha = attention(query, values, values_mask=mask)
    np.testing.assert_allclose(tf.reduce_sum(alpha, axis=-1), 1.0, atol=1e-6)
    assert not alpha[1, :, 2:].numpy().any()
    np.testing.assert_allclose(context, alpha @ values, atol=1e-6)
    np.testing.assert_allclose(attention(query, values)[0][0], context[0], atol=1e-6)
    without_axis = attention(query[:, 0], values, values_mask=mask)
    assert_same(without_axis, (context[:, 0], alpha[:, 0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedContext("fwd"), "source: expected one of forward, backward, both, mean"),
        (lambda: MonotonicLocalAttention(LocationScore(17), 1), "score: expected a score that reads the annotations"),
        (lambda: MonotonicLocalAttention(DotScore(), 0), "window: expected at least 1"),
        (lambda: BahdanauAttention(-1), "units: expected at least 1, received -1"),
        (lambda: LocationScore(0), "positions: expected at least 1"),
        (lambda: DotScore()(np.ones([2, 4]), np.ones([2, 3, 4])), r"query: expected the shape \[B, Q, U\]"),
        (lambda: GlobalAttention(DotScore())(np.ones([1, 2, 4]), np.ones([1, 3, 5])), "query, values: expected equal"),
    ],
)
def test_arguments_that_would_give_another_model_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
