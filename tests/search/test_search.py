"""Search with step functions that spell known strings, and with random tables that allow enumeration."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from reference import greedy as reference_greedy
from reference import softmax, weights_of
from tensors import assert_same, padded

from nmt_keras.models.prediction import Prediction
from nmt_keras.search import (
    Constraints,
    Ranking,
    SearchInputs,
    beam_search,
    gnmt_length,
    log_likelihood,
    plain_length,
)
from nmt_keras.search.top_k import top_k

PAD, UNK, START, END = 0, 1, 2, 3
LETTERS = "....abcdefghijklmnopqrstuvwxyz"  # the four special ids have no letter
V, S = len(LETTERS), 5


def spell(ids, state, script):
    """Returns the logits script[:, t], where t is the state. ``script`` is [B, T, V]. Attends to position t."""
    return Prediction(tf.gather(script, state, batch_dims=1), tf.one_hot(state % S, S), state + 1)


def wander(ids, state, table):
    """Returns logits that depend on the state, a hash of all tokens so far. Attends to the position of the last id."""
    state = (state * 7 + ids * 3 + 1) % tf.shape(table)[1]
    return Prediction(tf.gather(table, state, batch_dims=1), tf.one_hot(ids % S, S), state)


def script_of(*words, length=12):
    """Returns logits that strongly prefer the letters of each word, then END, then x repeatedly."""
    logits = np.zeros([len(words), length, V], np.float32)
    for row, word in zip(logits, words, strict=True):
        tokens = [*(LETTERS.index(letter) for letter in word), END]
        tokens += [LETTERS.index("x")] * (length - len(tokens))
        row[np.arange(length), tokens] = 9.0
    return tf.constant(logits)


def tables(count, contexts, words, seed, end=0.0):
    """Returns random logits for ``wander``. A larger ``end`` gives shorter sentences."""
    logits = np.random.default_rng(seed).normal(0.0, 1.5, size=(count, contexts, words)).astype(np.float32)
    logits[..., END] += end
    return logits


def spelt(hypotheses):
    return [
        "".join("#" if i == END else LETTERS[i] for i in row[:length])
        for row, length in zip(hypotheses.ids[:, 0].numpy(), hypotheses.lengths[:, 0].numpy(), strict=True)
    ]


def no_time(batch):
    return tf.zeros([batch, 1], tf.int32)


def inputs(memory, max_lengths, **others):
    """Returns the inputs of sentences with S source tokens, as ``spell`` and ``wander`` attend to them."""
    max_lengths = tf.convert_to_tensor(max_lengths)
    return SearchInputs(memory, tf.ones([tf.shape(max_lengths)[0], S], tf.bool), max_lengths, **others)


SOURCES = [[4, 5, 6, 7, END], [END], [8, 9, END]]


# The loop


def test_hypotheses_stop_at_end_or_at_their_own_maximum_length():
    found = beam_search(spell, no_time(4), inputs(script_of("hello", "hello", "ox", "ox"), [12, 3, 12, 1]))
    assert spelt(found) == ["hello#", "hel", "ox#", "o"]
    assert found.ids.shape == (4, 1, 6)
    log_p = 9.0 - math.log(math.exp(9.0) + V - 1)  # log-probability of each scripted token
    np.testing.assert_allclose(found.log_probs[:, 0], np.array([6, 3, 3, 1]) * log_p, rtol=1e-4)
    np.testing.assert_allclose(found.scores[:, 0], [log_p] * 4, rtol=1e-4)
    for row, length, alignment in zip(found.ids[:, 0], [6, 3, 3, 1], found.alignments[:, 0].numpy(), strict=True):
        assert not row[length:].numpy().any()
        np.testing.assert_array_equal(alignment[:length], np.eye(S)[np.arange(length) % S])
        assert not alignment[length:].any()


def test_greedy_with_a_model_equals_the_reference(model):
    ids, mask = padded(SOURCES, 6)
    memory = model.encode(ids)
    given = SearchInputs(memory, mask, tf.constant([7, 5, 11]))
    found = beam_search(model.step, model.initial_state(memory), given)
    for b, limit in enumerate([7, 5, 11]):
        tokens, log_prob = reference_greedy(weights_of(model), SOURCES[b], limit)
        assert found.ids[b, 0].numpy()[: found.lengths[b, 0]].tolist() == tokens
        assert float(found.log_probs[b, 0]) == pytest.approx(log_prob, rel=1e-4)


def test_the_memory_is_never_tiled():
    shapes = set()

    def watching(ids, state, memory):
        shapes.add((tuple(ids.shape), tuple(memory.shape), tuple(state.shape)))
        return wander(ids, state, memory)

    beam_search(watching, no_time(1), inputs(tf.zeros([1, 29, 17]), [3]), beam_size=7)
    assert shapes == {((1, 7), (1, 29, 17), (1, 7))}


SEARCHES = {
    "greedy": beam_search,
    "beam": partial(beam_search, beam_size=3, n_best=2),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_graph_of_unknown_sizes_equals_eager_execution(search):
    signature = [tf.TensorSpec([None, None, 17]), tf.TensorSpec([None], tf.int32)]

    def run(logits, max_lengths):
        return search(wander, tf.zeros([tf.shape(max_lengths)[0], 1], tf.int32), inputs(logits, max_lengths))

    in_graph = tf.function(run, autograph=False, input_signature=signature)
    given = tf.constant(tables(5, contexts=29, words=17, seed=2)), tf.constant([1, 9, 4, 2, 7])
    eager = run(*given)
    assert_same(in_graph(*given), eager, rtol=1e-6, atol=0.0)
    k, nothing = eager.ids.shape[1], (tf.zeros([0, 29, 17]), tf.zeros([0], tf.int32))
    for empty in (in_graph(*nothing), run(*nothing)):
        assert [tuple(part.shape) for part in empty] == [(0, k, 1), (0, k), (0, k), (0, k), (0, k, 1, S)]


# Top k in two stages


@pytest.mark.parametrize("words", [7, 600, 2053, 4000, 4001, 8191])
def test_the_top_k_in_two_stages_equals_that_in_one(words):
    logits = np.random.default_rng(words).normal(size=(3, 2, words)).astype(np.float32)
    logits[0, 0, [*range(2, 6), -1]] = [5, 9, 6, 8, 7]  # all in one block, except for the last
    assert_same(top_k(tf.constant(logits), 6), tf.math.top_k(logits, min(6, words)), rtol=0.0, atol=0.0)
    assert (
        np.max(top_k(tf.pad(logits[..., -1:], [[0, 0]] * 2 + [[words - 1, 0]], constant_values=-np.inf), 6)[1]) < words
    )


# Ranking


@pytest.mark.parametrize(
    ("penalty", "length", "score"),
    [
        (plain_length(1.0), 3, -2.0),
        (plain_length(0.5), 4, -3.0),
        (plain_length(0.0), 9, -6.0),
        (gnmt_length(0.7), 1, -6.0),
        (gnmt_length(1.0), 7, -3.0),  # (5 + 7) / 6
        (gnmt_length(0.5), 19, -3.0),  # sqrt(24 / 6)
    ],
)
def test_scores_divide_by_the_length_penalty(penalty, length, score):
    found = Ranking(penalty).score(tf.constant([[-6.0]]), tf.constant([[length]]), tf.ones([1, 1, length, 1]), [[True]])
    assert found.numpy().item() == pytest.approx(score)


def test_coverage_penalises_source_tokens_with_little_attention():
    ranking, mask = Ranking(plain_length(1.0), 0.5), tf.constant([[True, True, True, False]])

    def score(*alignment):
        return ranking.score(tf.constant([[-6.0]]), tf.constant([[2]]), tf.constant([[alignment]]), mask).numpy().item()

    wanted = -3.0 + 0.5 * (math.log(0.5) + 0.0 + math.log(0.25))
    assert score([0.1, 1.0, 0.0, 0.0], [0.4, 0.5, 0.25, 0.0]) == pytest.approx(wanted)
    ignored = score([0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0])
    assert -100.0 < ignored < -40.0  # finite, so that it ranks before an empty place of the beam


# Beam search


def slow_beam(logits, limit, beam_size, n_best, length_penalty, min_tokens=1, unk_allowed=True, ngram=0, penalty=1.0):
    """Searches one sentence of ``wander`` in Python loops.

    Returns hypotheses (tokens, log-probability, score).
    """
    running, ended, steps = [((), 0.0, 0)], [], 0
    never = {PAD, START} if unk_allowed else {PAD, START, UNK}
    while True:
        steps += 1
        grown = []
        for tokens, log_prob, state in running:
            state = (state * 7 + (tokens[-1] if tokens else START) * 3 + 1) % len(logits)
            p = softmax(logits[state])
            banned = never | {END} if steps < min_tokens else never
            seen = [*itertools.pairwise((START, *tokens))] if ngram == 2 else [(i,) for i in tokens] if ngram else []
            banned = banned | {i for i in range(len(p)) if (START, *tokens, i)[-ngram:] in seen}
            log_p = [math.log(x) * (penalty if i in tokens else 1.0) for i, x in enumerate(p)]
            grown += [((*tokens, i), log_prob + log_p[i], state) for i in range(len(p)) if i not in banned]
        grown = sorted(grown, key=lambda one: -one[1])[: beam_size - len(ended)]
        ended += [(tokens, log_p, log_p / length_penalty(steps)) for tokens, log_p, _ in grown if tokens[-1] == END]
        ended.sort(key=lambda one: -one[2])
        running = [one for one in grown if one[0][-1] != END]
        bound = max((log_p / length_penalty(limit) for _, log_p, _ in running), default=-math.inf)
        if steps == limit or not running or (len(ended) >= n_best and bound <= ended[n_best - 1][2]):
            cut = [(tokens, log_p, log_p / length_penalty(steps)) for tokens, log_p, _ in running]
            return [*ended, *sorted(cut, key=lambda one: -one[2])][:n_best]


def expect_lists(found, wanted):
    """Compares hypotheses with lists of tuples (tokens, log-probability, score)."""
    columns = (found.ids, found.lengths, found.scores, found.log_probs)
    for ids, lengths, scores, log_probs, each in zip(*(x.numpy() for x in columns), wanted, strict=True):
        assert [tuple(row[:n].tolist()) for row, n in zip(ids, lengths, strict=True) if n] == [one[0] for one in each]
        assert not any(row[n:].any() for row, n in zip(ids, lengths, strict=True))
        np.testing.assert_allclose(log_probs[: len(each)], [one[1] for one in each], rtol=1e-4)
        np.testing.assert_allclose(scores[: len(each)], [one[2] for one in each], rtol=1e-4)


@pytest.mark.parametrize("n_best", [1, 5, 121])
@pytest.mark.parametrize(
    ("penalty", "length_penalty"),
    [
        (plain_length(1.0), lambda n: n),
        (plain_length(0.0), lambda n: 1.0),
        (gnmt_length(0.6), lambda n: ((5.0 + n) / 6.0) ** 0.6),
    ],
    ids=["plain", "none", "gnmt"],
)
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search(n_best, penalty, length_penalty):
    logits, limit = tables(3, contexts=211, words=6, seed=4), 4
    found = beam_search(
        wander, no_time(3), inputs(tf.constant(logits), [limit] * 3),
        beam_size=121, n_best=n_best, ranking=Ranking(penalty),
    )  # fmt: skip
    sequences = [
        (*begin, last)
        for n in range(limit)
        for begin in itertools.product([UNK, 4, 5], repeat=n)
        for last in ([END] if n < limit - 1 else [END, UNK, 4, 5])
    ]
    wanted = []
    for table in logits:
        scored = []
        for sequence in sequences:
            state, log_prob = 0, 0.0
            for last, token in itertools.pairwise((START, *sequence)):
                state = (state * 7 + last * 3 + 1) % len(table)
                log_prob += math.log(softmax(table[state])[token])
            scored.append((sequence, log_prob, log_prob / length_penalty(len(sequence))))
        assert len(scored) == 121
        wanted.append(sorted(scored, key=lambda one: (one[0][-1] != END, -one[2]))[:n_best])
    expect_lists(found, wanted)


@pytest.mark.parametrize(("beam_size", "n_best"), [(1, 1), (2, 1), (3, 2), (5, 1), (5, 2)])
def test_a_narrow_beam_equals_plain_loops(beam_size, n_best):
    logits, limits = tables(13, contexts=29, words=17, seed=beam_size, end=0.5), [*range(1, 14)]
    given = (wander, no_time(13), inputs(tf.constant(logits), limits))
    slow = [slow_beam(*each, beam_size, n_best, lambda n: n) for each in zip(logits, limits, strict=True)]
    expect_lists(beam_search(*given, beam_size=beam_size, n_best=n_best), slow)


@pytest.mark.parametrize(("beam_size", "min_tokens"), [(1, 4), (3, 1), (3, 4)])
def test_constraints_equal_those_of_plain_loops(beam_size, min_tokens):
    logits = tables(7, contexts=29, words=9, seed=8, end=2.0)
    logits[..., [PAD, UNK, START]] += 3.0  # these tokens are probable and keep their probability, but are never chosen
    given, options = (wander, no_time(7), inputs(tf.constant(logits), [9] * 7)), Constraints(min_tokens, False)
    slow = [slow_beam(table, 9, beam_size, 1, lambda n: n, min_tokens, unk_allowed=False) for table in logits]
    expect_lists(beam_search(*given, beam_size=beam_size, constraints=options), slow)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize(("ngram", "penalty"), [(1, 1.0), (2, 1.0), (0, 1.5), (2, 1.3)])
def test_limits_of_repetition_equal_those_of_plain_loops(beam_size, ngram, penalty):
    logits = tables(7, contexts=29, words=7, seed=11, end=-2.0)
    slow = [slow_beam(table, 9, beam_size, 1, lambda n: n, ngram=ngram, penalty=penalty) for table in logits]
    free = [slow_beam(table, 9, beam_size, 1, lambda n: n) for table in logits]
    assert [one[0][0] for one in slow] != [one[0][0] for one in free]
    given, limits = inputs(tf.constant(logits), [9] * 7), Constraints(1, True, ngram, penalty)
    expect_lists(beam_search(wander, no_time(7), given, beam_size=beam_size, constraints=limits), slow)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_hypothesis_that_repeats_all_tokens_goes_on(search):
    given = inputs(tf.constant(tables(3, contexts=29, words=6, seed=12)), [9, 5, 9])
    found = search(wander, no_time(3), given, constraints=Constraints(min_tokens=9, no_repeat_ngram_size=1))
    assert found.lengths[:, 0].numpy().tolist() == [9, 5, 9]
    assert all(len(set(row[:3].tolist())) == 3 for row in found.ids[:, 0].numpy())  # 3 tokens are allowed before END
    assert np.isfinite(found.log_probs[:, 0]).all()


def test_places_without_a_hypothesis_are_empty_and_not_searched():
    steps = []

    def counting(ids, state, script):
        steps.append(ids)
        return spell(ids, state, script)

    only_end = inputs(script_of("a"), [5], prefix=tf.constant([[END]]))
    found = beam_search(counting, no_time(1), only_end, beam_size=3, n_best=3)
    assert len(steps) == 1
    assert found.lengths.numpy().tolist() == [[1, 0, 0]]
    assert np.isneginf([found.log_probs[0, 1:], found.scores[0, 1:]]).all()
    assert not found.ids[0, 1:].numpy().any()
    assert not found.alignments[0, 1:].numpy().any()


def test_an_n_best_list_beyond_the_beam_is_rejected():
    with pytest.raises(ValueError, match=r"n_best: .*\(3\).* 4"):
        beam_search(spell, no_time(1), inputs(script_of("a"), [2]), beam_size=3, n_best=4)


def test_alignments_and_coverage_are_those_of_each_hypothesis_s_own_ancestors():
    mask = tf.constant([[True, True, True, True, False]] * 7)
    given = inputs(tf.constant(tables(7, contexts=29, words=17, seed=3)), [8] * 7)._replace(source_mask=mask)
    ranking = Ranking(plain_length(1.0), 0.01)
    found = beam_search(wander, no_time(7), given, beam_size=5, n_best=5, ranking=ranking)
    ids, alignments, log_probs = found.ids.numpy(), found.alignments.numpy(), found.log_probs.numpy()
    previous = np.concatenate([np.full([7, 5, 1], START), ids[..., :-1]], axis=-1)
    np.testing.assert_array_equal(alignments, np.eye(S)[previous % S] * (ids != PAD)[..., np.newaxis])
    assert len({tuple(row) for row in previous[:, :, 3].tolist()}) > 1  # hypotheses have different ancestors
    attended = np.clip(alignments.sum(axis=2)[..., :4], 1e-37, 1.0)
    coverage = 0.01 * np.log(attended).sum(axis=-1)
    np.testing.assert_allclose(found.scores, log_probs / found.lengths.numpy() + coverage, rtol=1e-4)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_hypotheses_begin_with_the_prefix_and_go_on_freely(search):
    t, h, e = (LETTERS.index(letter) for letter in "the")
    prefix = tf.constant([[t, h, e], [h, PAD, PAD], [PAD, PAD, PAD]])
    table = tf.constant(tables(3, contexts=29, words=V, seed=9))
    found, free = (search(wander, no_time(3), inputs(table, [7] * 3, prefix=given)) for given in (prefix, None))
    assert found.ids[0, 0, :3].numpy().tolist() == [t, h, e]
    assert found.ids[1, 0, 0] == h
    assert spelt(found)[2] == spelt(free)[2]
    scored = log_likelihood(wander, no_time(3), table, found.ids[:, 0], found.lengths[:, 0])
    np.testing.assert_allclose(scored.log_probs, found.log_probs[:, 0], rtol=1e-5)


# Log-likelihood


def test_forced_decoding_equals_teacher_forcing(model):
    source = tf.constant([[4, 5, 6, 7, END], [8, 9, END, PAD, PAD]])
    target = tf.constant([[6, 5, END, PAD], [9, PAD, PAD, PAD]])
    memory = model.encode(source)
    scored = log_likelihood(model.step, model.initial_state(memory), memory, target, tf.constant([3, 1]))
    output = model((source, tf.constant([[START, 6, 5, PAD], [START, PAD, PAD, PAD]])))
    wanted = tf.gather(tf.nn.log_softmax(output.logits), target, batch_dims=2) * [[1.0, 1, 1, 0], [1, 0, 0, 0]]
    np.testing.assert_allclose(scored.token_log_probs, wanted, rtol=1e-4)
    np.testing.assert_allclose(scored.log_probs, tf.reduce_sum(wanted, axis=1), rtol=1e-4)
    is_token = (target != PAD).numpy()[..., np.newaxis]
    np.testing.assert_allclose(scored.alignments, output.alignment * is_token, atol=1e-6)
