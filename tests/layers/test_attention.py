"""Scores and attentions against the papers' equations, and what every alignment must be."""

import numpy as np
import pytest
import tensorflow as tf
from reference import Encoded, additive, attention_of, concat, score_of
from tensors import normal
from tiny import randomise

from nmt_keras.layers.attention import BahdanauAttention, FixedContext, GlobalAttention, NoAttention, masked_softmax
from nmt_keras.layers.local_attention import MonotonicLocalAttention, PredictiveLocalAttention
from nmt_keras.layers.memory import Memory
from nmt_keras.layers.scores import AdditiveScore, DotScore, GeneralScore, LocationScore
from nmt_keras.models.encoder import Encoding

B, Q, S, U, A, D = 3, 2, 5, 7, 11, 13
LENGTHS = [5, 1, 3]
STEPS = [[0, 4], [0, 6], [9, 1]]  # target positions, some beyond the source's end


def additive_score():
    return AdditiveScore(A, U, D)


SCORING = {
    "additive": lambda: BahdanauAttention(A, U, D),
    "dot": lambda: GlobalAttention(DotScore(), U),
    "general": lambda: GlobalAttention(GeneralScore(U, D), D),
    "location": lambda: GlobalAttention(LocationScore(17, U), D),
    "location of 2 rows": lambda: GlobalAttention(LocationScore(2, U), D),
    "local-m": lambda: MonotonicLocalAttention(additive_score(), D, 1),
    "local-m wide": lambda: MonotonicLocalAttention(GeneralScore(U, D), D, 3),
    "local-m dot": lambda: MonotonicLocalAttention(DotScore(), U, 2),
    "local-p": lambda: PredictiveLocalAttention(GeneralScore(U, D), D, 1, units=A, query_size=U),
    "local-p wide": lambda: PredictiveLocalAttention(additive_score(), D, 3, units=A, query_size=U),
}
UNSCORED = {
    **{f"fixed {way}": lambda way=way: FixedContext(17, way) for way in ("forward", "backward", "bidirectional")},
    **{f"none {way}": lambda way=way: NoAttention(way) for way in ("forward", "backward", "bidirectional")},
}


def made(make):
    attention = make()
    randomise(attention, 1)
    return attention


@pytest.fixture(params=SCORING)
def scoring(request):
    """An attention that compares a state with annotations."""
    return made(SCORING[request.param])


@pytest.fixture(params=[*SCORING, *UNSCORED])
def attention(request):
    """An attention of any kind."""
    return made({**SCORING, **UNSCORED}[request.param])


def annotations(attention, positions=S):
    return normal(B, positions, getattr(attention, "value_size", D))


def remembered(attention, values, lengths=LENGTHS):
    mask, count = tf.sequence_mask(lengths, values.shape[1]), tf.constant(lengths)
    encoding = Encoding(values, mask, count, (), normal(len(lengths), 17, seed=4))
    return Memory(values, attention.keys(encoding), mask, count, ())


def answer(attention, query, memory, steps=STEPS):
    """Contexts and alignments."""
    attended = attention.attend(query, tf.constant(steps), memory)
    return attended.context, attention.alignment(attended, memory)


# Against the papers


def test_alignments_and_contexts_are_the_paper_s(scoring):
    values, query = annotations(scoring), normal(B, Q, U, seed=3)
    contexts, alignment = answer(scoring, query, remembered(scoring, values))
    assert alignment.shape == (B, Q, S)
    reference = attention_of(scoring)
    for b in range(B):
        source = Encoded(list(values.numpy()[b, : LENGTHS[b]].astype(float)), [], [])
        for q in range(Q):
            alpha, c = reference(query[b, q].numpy().astype(float), STEPS[b][q], source)
            np.testing.assert_allclose(alignment[b, q, : LENGTHS[b]], alpha, atol=1e-6)
            np.testing.assert_allclose(contexts[b, q], c, atol=1e-5)


@pytest.mark.parametrize("name", ["local-m", "local-m wide", "local-p", "local-p wide"])
def test_a_gathered_window_is_the_masked_sentence(name):
    local, length, queries = made(SCORING[name]), 29, 31
    values, query = normal(1, length, D), normal(1, queries, U, seed=5)
    steps = [list(range(queries))]  # two beyond the end
    contexts, alignment = answer(local, query, remembered(local, values, [length]), steps)
    source, reference = Encoded(list(values.numpy()[0].astype(float)), [], []), attention_of(local)
    for t in range(queries):
        alpha, c = reference(query[0, t].numpy().astype(float), t, source)
        np.testing.assert_allclose(alignment[0, t], alpha, atol=1e-5)
        np.testing.assert_allclose(contexts[0, t], c, atol=5e-5)


@pytest.mark.parametrize("name", ["local-m", "local-m wide", "local-p", "local-p wide"])
def test_a_batch_no_wider_than_the_window_is_read_as_it_stands_with_the_numbers_of_the_gathered_window(name):
    local, length = made(SCORING[name]), 3  # the narrowest window has 3 positions
    values, query, steps = normal(1, length, D), normal(1, Q, U, seed=5), [list(range(Q))]
    as_it_stands = remembered(local, values, [length])
    padded = remembered(local, tf.pad(values, [[0, 0], [0, 8], [0, 0]]), [length])
    assert local.reads_all(as_it_stands)
    assert not local.reads_all(padded)
    contexts, alignment = answer(local, query, as_it_stands, steps)
    wanted, gathered = answer(local, query, padded, steps)
    np.testing.assert_allclose(contexts, wanted, atol=1e-6)
    np.testing.assert_allclose(alignment, gathered[..., :length], atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "XLA"])
@pytest.mark.parametrize("name", ["local-m", "local-m wide", "local-p", "local-p wide"])
def test_a_gathered_window_has_the_gradients_of_a_batch_read_as_it_stands(name, compiled):
    local, lengths = made(SCORING[name]), [3, 1]
    values, query, upstream = normal(2, 3, D), normal(2, Q, U, seed=5), normal(2, Q, D, seed=6)

    @tf.function(jit_compile=compiled, autograph=False)
    def gradients(values, query, padding):
        with tf.GradientTape() as tape:
            tape.watch([values, query])
            memory = remembered(local, tf.pad(values, [[0, 0], [0, padding], [0, 0]]), lengths)
            assert local.reads_all(memory) == (padding == 0)
            attended = local.attend(query, tf.constant([[0, 2], [1, 4]]), memory)
            total = tf.reduce_sum(upstream * attended.context)
        watched = [values, query, *(v.value for v in local.trainable_variables)]
        return tape.gradient(total, watched, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    for one, other in zip(gradients(values, query, 0), gradients(values, query, 8), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_gradient_of_a_predicted_position_is_its_slope():
    # at the edge of a window the context jumps: here, all positions stay inside
    local = made(lambda: PredictiveLocalAttention(GeneralScore(U, D), D, 11, units=A, query_size=U))
    values, query, upstream = normal(1, 11, D), normal(1, 1, U, seed=3), normal(1, 1, D, seed=6)
    memory, steps = remembered(local, values, [11]), tf.constant([[0]])
    energy = local.position_energy

    def total():
        return tf.reduce_sum(upstream * local.attend(query, steps, memory).context)

    with tf.GradientTape() as tape:
        loss = total()
    gradient = tape.gradient(loss, energy.value).numpy()
    start, direction, step = energy.numpy(), gradient / np.linalg.norm(gradient), 1e-2
    ends = []
    for sign in (1, -1):
        energy.assign(start + sign * step * direction)
        ends.append(total().numpy())
    assert np.linalg.norm(gradient) > 1e-3
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(np.linalg.norm(gradient), rel=1e-2)


def test_concat_is_additive_with_one_matrix_for_both():
    score = additive_score()
    randomise(score, 1)
    W_a, U_a, v_a = np.asarray(score.query_kernel).T, np.asarray(score.key_kernel).T, np.asarray(score.energy)
    s, h = normal(U, seed=3).numpy(), normal(D, seed=4).numpy()
    luong = concat(np.concatenate([W_a, U_a], axis=1), v_a)(s, h)
    assert luong == pytest.approx(additive(W_a, U_a, v_a)(s, h), rel=1e-5)
    found = score.scores(tf.constant(s[np.newaxis, np.newaxis]), score.keys(tf.constant(h[np.newaxis, np.newaxis])))
    assert found.numpy().item() == pytest.approx(luong, abs=1e-5)


@pytest.mark.parametrize(
    "score", [additive_score, DotScore, lambda: GeneralScore(U, D)], ids=["additive", "dot", "general"]
)
def test_scores_are_the_same_of_keys_that_queries_share_and_of_keys_of_their_own(score):
    score = made(score)
    values, query = normal(B, S, getattr(score, "value_size", U)), normal(B, Q, U, seed=3)
    keys = score.keys(values)
    shared = score.scores(query, keys)
    own = score.scores(query, tf.repeat(keys[:, tf.newaxis], Q, axis=1))
    np.testing.assert_allclose(own, shared, atol=1e-5)
    wanted = [
        [[score_of(score)(q, h) for h in row] for q in queries]
        for row, queries in zip(values.numpy(), query.numpy(), strict=True)
    ]
    np.testing.assert_allclose(shared, wanted, atol=1e-5)


# By hand


def test_dot_weighs_by_the_product_of_state_and_annotation():
    dot = GlobalAttention(DotScore(), 2)
    values = tf.constant([[[np.log(3.0), 5.0], [0.0, 7.0]]], tf.float32)
    contexts, alignment = answer(dot, tf.constant([[[1.0, 0.0]]]), remembered(dot, values, [2]), [[0]])
    np.testing.assert_allclose(alignment, [[[0.75, 0.25]]], rtol=1e-6)
    np.testing.assert_allclose(contexts[0, 0, 1], 0.75 * 5.0 + 0.25 * 7.0, rtol=1e-6)


def test_general_brings_annotations_to_the_state_s_width():
    attention = GlobalAttention(GeneralScore(1, 2), 2)
    attention.score.kernel.assign([[0.0], [1.0]])  # sees the second number alone
    values = tf.constant([[[9.0, np.log(3.0)], [5.0, 0.0]]], tf.float32)
    _, alignment = answer(attention, tf.constant([[[1.0]]]), remembered(attention, values, [2]), [[0]])
    np.testing.assert_allclose(alignment, [[[0.75, 0.25]]], rtol=1e-6)


def test_location_looks_where_the_state_says_whatever_stands_there():
    attention = GlobalAttention(LocationScore(3, 1), D)
    attention.score.kernel.assign(np.log([[3.0, 1.0, 4.0]]))
    for seed in (2, 3):
        memory = remembered(attention, normal(2, 4, D, seed=seed), [2, 4])
        _, alignment = answer(attention, tf.ones([2, 1, 1]), memory, [[0], [0]])
        # the shorter source uses the first rows of W_a; of the longer one, the position beyond them gets nothing
        np.testing.assert_allclose(alignment, [[[0.75, 0.25, 0, 0]], [[0.375, 0.125, 0.5, 0]]], rtol=1e-6)


@pytest.mark.parametrize(
    ("step", "weights"),
    [(0, [0.5, 0.5, 0, 0]), (1, [1 / 3, 1 / 3, 1 / 3, 0]), (3, [0, 0, 0.5, 0.5]), (4, [0, 0, 0.5, 0.5])],
)
def test_local_m_looks_around_the_target_s_own_position_and_past_the_end_around_the_last(step, weights):
    local = MonotonicLocalAttention(DotScore(), D, 1)
    memory = remembered(local, normal(1, 4, D), [4])
    np.testing.assert_allclose(answer(local, tf.zeros([1, 1, D]), memory, [[step]])[1], [[weights]], rtol=1e-6)


def test_local_p_prefers_what_is_near_the_predicted_position():
    local = PredictiveLocalAttention(
        DotScore(), D, 2, units=A, query_size=D
    )  # a state of 0 predicts the middle; sigma = 1
    memory = remembered(local, normal(1, 7, D), [4])
    _, alignment = answer(local, tf.zeros([1, 1, D]), memory, [[0]])
    wanted = 0.25 * np.exp([-2.0, -0.5, 0.0, -0.5])
    np.testing.assert_allclose(alignment, [[[*wanted, 0, 0, 0]]], rtol=1e-6)


def test_a_context_that_is_fixed_is_the_encoder_s_last_state():
    fixed = FixedContext(17, "forward")
    memory = remembered(fixed, normal(B, S, D))
    contexts, alignment = answer(fixed, normal(B, Q, U), memory)
    np.testing.assert_array_equal(contexts, np.repeat(normal(B, 1, 17, seed=4)[:, 0][:, np.newaxis], Q, axis=1))
    np.testing.assert_array_equal(alignment.numpy().argmax(axis=-1), [[length - 1] * Q for length in LENGTHS])


@pytest.mark.parametrize(
    ("direction", "weights"),
    [("forward", [0, 0, 1, 0]), ("backward", [1, 0, 0, 0]), ("bidirectional", [0.5, 0, 0.5, 0])],
)
@pytest.mark.parametrize("make", [lambda way: FixedContext(17, way), NoAttention], ids=["fixed", "none"])
def test_without_a_score_the_alignment_says_where_the_source_was_read(make, direction, weights):
    attention = make(direction)
    contexts, alignment = answer(attention, normal(1, 1, U), remembered(attention, normal(1, 4, D), [3]), [[5]])
    assert alignment.numpy().tolist() == [[weights]]
    assert contexts.shape == (1, 1, attention.context_size)


def test_a_decoder_that_starts_from_the_mean_has_read_all_tokens_alike():
    attention = NoAttention("mean")
    _, alignment = answer(attention, normal(1, 1, U), remembered(attention, normal(1, 4, D), [2]), [[5]])
    assert alignment.numpy().tolist() == [[[0.5, 0.5, 0.0, 0.0]]]


# Laws


def test_alignments_are_exactly_0_on_padding_and_sum_to_1_unless_predicted_positions_dampen_them(attention):
    values = 10.0 * annotations(attention)
    alignment = answer(attention, normal(B, Q, U, seed=3), remembered(attention, values))[1].numpy()
    for b in range(B):
        assert (alignment[b, :, LENGTHS[b] :] == 0.0).all()
    sums = alignment.sum(axis=-1)
    if isinstance(attention, PredictiveLocalAttention):  # |s - p_t| <= D = 2 sigma in the window
        assert (sums >= np.exp(-2.0) - 1e-6).all()
        assert (sums < 1.0).all()
    else:
        np.testing.assert_allclose(sums, 1.0, atol=1e-6)


def test_what_stands_at_padding_changes_nothing(attention):
    values, query = annotations(attention), normal(B, Q, U, seed=3)
    padding = ~tf.sequence_mask(LENGTHS, S)[:, :, tf.newaxis]
    garbage = tf.where(padding, 1e6, values)
    found, wanted = (answer(attention, query, remembered(attention, v)) for v in (garbage, values))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_queries_are_answered_each_by_itself(attention):
    values, query = annotations(attention), normal(B, Q, U, seed=3)
    memory, steps = remembered(attention, values), np.array(STEPS, np.int32)
    together = answer(attention, query, memory)
    for q in range(Q):
        alone = answer(attention, query[:, q : q + 1], memory, steps[:, q : q + 1])
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one[:, q : q + 1], other, atol=1e-6)


def test_a_context_is_the_annotations_under_the_alignment(scoring):
    values = annotations(scoring)
    contexts, alignment = answer(scoring, normal(B, Q, U, seed=3), remembered(scoring, values))
    np.testing.assert_allclose(contexts, alignment.numpy() @ values.numpy(), atol=1e-5)


@pytest.mark.parametrize("step", [0, 3, 8])
@pytest.mark.parametrize("width", [S, 2 * S + 2])  # read as it stands, and gathered
@pytest.mark.parametrize("kind", ["local-m", "local-p without its Gaussian"])
def test_a_window_wider_than_the_sentence_is_global_attention(kind, width, step, monkeypatch):
    score = additive_score()
    randomise(score, 1)
    monkeypatch.setattr(PredictiveLocalAttention, "prefer", lambda self, weights, distance: weights)
    local = MonotonicLocalAttention(score, D, S)
    if kind == "local-p":
        local = PredictiveLocalAttention(score, D, S, units=A, query_size=U)
    everywhere = GlobalAttention(score, D)
    values, query = normal(B, width, D), normal(B, Q, U, seed=3)
    assert local.reads_all(remembered(local, values)) == (width == S)
    steps = [[step] * Q] * B
    for one, other in zip(
        answer(local, query, remembered(local, values), steps),
        answer(everywhere, query, remembered(everywhere, values), steps),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_local_step_reads_nothing_outside_its_window():
    local, length = MonotonicLocalAttention(DotScore(), U, 1), 11
    values = normal(1, length, U)
    outside = tf.constant([[[abs(j - 5) > 1] for j in range(length)]])
    memory = remembered(local, tf.where(outside, np.nan, values), [length])
    contexts, alignment = answer(local, normal(1, 1, U), memory, [[5]])
    assert np.isfinite(contexts).all()
    assert alignment.numpy().sum() == pytest.approx(1.0)


def test_a_predicted_position_counts_the_sentence_s_own_tokens_whatever_the_batch_is_padded_to():
    local = made(SCORING["local-p"])
    query, steps = normal(1, 1, U), tf.zeros([1, 1], tf.int32)
    narrow, wide = (remembered(local, normal(1, width, D), [4]) for width in (4, 23))
    np.testing.assert_array_equal(local.centre(query, steps, narrow), local.centre(query, steps, wide))
    assert 0.0 < local.centre(query, steps, wide).numpy().item() < 4.0


# The softmax


def test_equal_scores_share_the_weight_and_larger_ones_win():
    scores, mask = tf.constant([[[0.0, 0.0, 9.0]]]), tf.constant([[[True, True, False]]])
    assert masked_softmax(scores, mask).numpy().tolist() == [[[0.5, 0.5, 0.0]]]
    scores = tf.math.log(tf.constant([[[3.0, 1.0, 7.0]]]))
    np.testing.assert_allclose(masked_softmax(scores, mask), [[[0.75, 0.25, 0.0]]], rtol=1e-6)


@pytest.mark.parametrize("size", [-1e30, 1e4, 1e30])
def test_huge_scores_overflow_nowhere(size):
    scores, mask = tf.fill([1, 1, 3], size), tf.constant([[[True, True, False]]])
    np.testing.assert_allclose(masked_softmax(scores, mask), [[[0.5, 0.5, 0.0]]])


def test_a_softmax_in_half_precision_is_taken_in_single_precision():
    scores = tf.cast(normal(1, 1, 257), tf.bfloat16)
    found = masked_softmax(scores, tf.ones([1, 1, 257], tf.bool))
    exact = tf.nn.softmax(tf.cast(scores, tf.float32))
    assert found.dtype == tf.bfloat16
    np.testing.assert_array_equal(tf.cast(found, tf.float32), tf.cast(tf.cast(exact, tf.bfloat16), tf.float32))


# As layers


def test_an_attention_comes_back_from_its_configuration(attention):
    config = attention.get_config()
    copy = type(attention).from_config(config)
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in attention.trainable_variables]
    copy.set_weights(attention.get_weights())
    query, values = normal(B, Q, U, seed=3), annotations(attention)
    found, wanted = (answer(each, query, remembered(each, values)) for each in (copy, attention))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
