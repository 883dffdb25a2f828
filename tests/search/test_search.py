"""Search on step functions that spell known strings, and on tables where the right answer can be listed."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from reference import greedy as reference_greedy
from reference import softmax, weights_of

from nmt_keras.search import (
    Constraints,
    Coverage,
    Ranking,
    beam_search,
    gnmt_length,
    greedy,
    hashed_uniform,
    log_likelihood,
    plain_length,
    sample,
)
from nmt_keras.search.candidates import largest

PAD, UNK, START, END = 0, 1, 2, 3
LETTERS = "....abcdefghijklmnopqrstuvwxyz"  # the four special ids have no letter
V, S = len(LETTERS), 5


class Step(NamedTuple):
    logits: tf.Tensor
    alignment: tf.Tensor
    state: Any


class Script(NamedTuple):
    """A memory of logits: what comes at each time, or after each token."""

    logits: tf.Tensor  # [B, T, V], or [B, V, V]


def spell(ids, state, script):
    """Says what the script says at the carried time; looks at the source position of that number."""
    logits = tf.gather(script.logits, state, batch_dims=1)
    return Step(logits, tf.one_hot(state % S, S), state + 1)


def bigram(ids, state, script):
    """Says what the script says after the last token; carries the tokens it was shown."""
    logits = tf.gather(script.logits, ids, batch_dims=1)
    return Step(logits, tf.one_hot(ids % S, S), tf.concat([state[..., 1:], ids[..., tf.newaxis]], axis=-1))


def wander(ids, state, table):
    """Says what depends on every token so far: the state is a running hash of them. Looks at the last token's place."""
    state = (state * 7 + ids * 3 + 1) % tf.shape(table.logits)[1]
    return Step(tf.gather(table.logits, state, batch_dims=1), tf.one_hot(ids % S, S), state)


def script_of(*words, length=12):
    """Logits under which each word is by far the most probable, END after it, and then x for ever."""
    logits = np.zeros([len(words), length, V], np.float32)
    for row, word in zip(logits, words, strict=True):
        tokens = [*(LETTERS.index(letter) for letter in word), END]
        tokens += [LETTERS.index("x")] * (length - len(tokens))
        row[np.arange(length), tokens] = 9.0
    return Script(tf.constant(logits))


def spelt(hypotheses):
    return [
        "".join("#" if i == END else LETTERS[i] for i in row[:length])
        for row, length in zip(hypotheses.ids[:, 0].numpy(), hypotheses.lengths[:, 0].numpy(), strict=True)
    ]


def no_time(batch):
    return tf.zeros([batch, 1], tf.int32)


LOG_P = 9.0 - math.log(math.exp(9.0) + V - 1)  # of each scripted token


# Greedy


def test_greedy_spells_what_the_step_wants():
    found = greedy(spell, no_time(2), script_of("hello", "ox"), tf.constant([12, 12]))
    assert spelt(found) == ["hello#", "ox#"]
    assert found.ids.shape == (2, 1, 6)
    assert found.lengths.numpy().tolist() == [[6], [3]]


def test_a_hypothesis_stops_at_its_own_limit_without_end():
    found = greedy(spell, no_time(3), script_of("hello", "hello", "ox"), tf.constant([3, 6, 1]))
    assert spelt(found) == ["hel", "hello#", "o"]


def test_a_finished_hypothesis_is_frozen():
    found = greedy(spell, no_time(2), script_of("hello", "ox"), tf.constant([12, 12]))
    alone = greedy(spell, no_time(1), script_of("ox"), tf.constant([12]))
    assert found.ids[1, 0, 3:].numpy().tolist() == [PAD, PAD, PAD]
    assert not found.alignments[1, 0, 3:].numpy().any()
    np.testing.assert_allclose(found.log_probs[1], alone.log_probs[0], rtol=1e-6)
    np.testing.assert_allclose(found.scores[1], alone.scores[0], rtol=1e-6)


def test_log_probs_sum_over_tokens_end_included_and_scores_are_their_mean():
    found = greedy(spell, no_time(2), script_of("hello", "ox"), tf.constant([12, 2]))
    np.testing.assert_allclose(found.log_probs[:, 0], [6 * LOG_P, 2 * LOG_P], rtol=1e-4)
    np.testing.assert_allclose(found.scores[:, 0], [LOG_P, LOG_P], rtol=1e-4)


def test_each_token_carries_its_own_alignment():
    found = greedy(spell, no_time(1), script_of("garden"), tf.constant([12]))
    np.testing.assert_array_equal(found.alignments[0, 0], np.eye(S)[[0, 1, 2, 3, 4, 0, 1]])


def test_the_step_is_shown_start_and_then_the_tokens_it_chose():
    shown = []

    def watching(ids, state, script):
        shown.append(ids.numpy().ravel().tolist())
        return spell(ids, state, script)

    greedy(watching, no_time(1), script_of("ox"), tf.constant([12]))
    assert shown == [[START], [LETTERS.index("o")], [LETTERS.index("x")]]


def test_greedy_takes_the_largest_logit_after_each_token():
    logits = np.random.default_rng(1).normal(size=(7, V, V))
    logits[..., [PAD, START]] = -9.0
    limit = 9
    found = greedy(bigram, tf.zeros([7, 1, 4], tf.int32), Script(tf.constant(logits)), tf.fill([7], limit))
    for table, ids, length, log_prob in zip(logits, found.ids[:, 0], found.lengths, found.log_probs, strict=True):
        tokens, wanted = [START], 0.0
        while len(tokens) <= limit and (len(tokens) == 1 or tokens[-1] != END):
            wanted += math.log(softmax(table[tokens[-1]]).max())
            tokens.append(int(table[tokens[-1]].argmax()))
        assert ids.numpy()[: length[0]].tolist() == tokens[1:]
        assert float(log_prob[0]) == pytest.approx(wanted, rel=1e-4)


def test_greedy_with_a_model_is_the_reference_s(model):
    sentences = [[4, 5, 6, 7, END], [END], [8, 9, END]]
    ids = tf.constant([[*sentence, *[PAD] * (6 - len(sentence))] for sentence in sentences])
    memory = model.decoder.remember(model.encoder(ids, ids != PAD))
    found = greedy(model.decoder.step, model.decoder.initial_state(memory), memory, tf.constant([7, 5, 11]))
    for b, limit in enumerate([7, 5, 11]):
        tokens, log_prob = reference_greedy(weights_of(model), sentences[b], limit)
        assert found.ids[b, 0].numpy()[: found.lengths[b, 0]].tolist() == tokens
        assert float(found.log_probs[b, 0]) == pytest.approx(log_prob, rel=1e-4)


def test_pad_and_start_are_never_chosen_however_probable():
    logits = np.zeros([1, V, V], np.float32)
    logits[..., [PAD, START]] = 50.0
    logits[..., END] = 40.0
    memory, limits = Script(tf.constant(logits)), tf.constant([3])
    found = [
        greedy(bigram, tf.zeros([1, 1, 4], tf.int32), memory, limits),
        beam_search(bigram, tf.zeros([1, 1, 4], tf.int32), memory, limits, width=4),
        sample(bigram, tf.zeros([1, 1, 4], tf.int32), memory, limits, noise=tf.fill([1, 3], 0.5)),
    ]
    assert [spelt(each) for each in found] == [["#"]] * 3
    # the model's own log-probability: PAD and START keep what they take
    assert [float(each.log_probs[0, 0]) for each in found] == pytest.approx([-10.0 - math.log(2.0)] * 3, abs=1e-3)


def test_each_sentence_costs_its_own_steps():
    batches = []

    def watching(ids, state, script):
        batches.append((ids.shape[0], script.logits.shape[0], state.shape[0]))
        return spell(ids, state, script)

    words = ["a", "bb", "cc", "abcdefgh"]
    found = greedy(watching, no_time(4), script_of(*words), tf.fill([4], 12))
    assert spelt(found) == [f"{word}#" for word in words]
    assert batches == [(4, 4, 4)] * 2 + [(3, 3, 3)] + [(1, 1, 1)] * 6
    for word, row in zip(words, found.alignments[:, 0].numpy(), strict=True):
        np.testing.assert_array_equal(row[: len(word) + 1], np.eye(S)[np.arange(len(word) + 1) % S])
        assert not row[len(word) + 1 :].any()


def test_an_empty_batch_gives_no_hypotheses():
    found = greedy(spell, no_time(0), Script(tf.zeros([0, 12, V])), tf.zeros([0], tf.int32))
    assert [tuple(part.shape) for part in found] == [(0, 1, 1), (0, 1), (0, 1), (0, 1), (0, 1, 1, S)]


# Candidates


@pytest.mark.parametrize("words", [7, 600, 4000, 4001, 8191])
def test_the_largest_in_two_stages_are_the_largest(words):
    logits = tf.constant(np.random.default_rng(words).normal(size=(3, 2, words)), tf.float32)
    values, ids = largest(logits, 6)
    wanted = tf.math.top_k(logits, min(6, words))
    np.testing.assert_array_equal(values, wanted.values)
    np.testing.assert_array_equal(ids, wanted.indices)


def test_the_largest_may_all_lie_in_one_block_or_in_the_last_words():
    logits = np.zeros([1, 1, 4001], np.float32)
    logits[..., 70:76] = [5, 9, 6, 8, 7, 4]
    logits[..., 4000] = 10.0
    values, ids = largest(tf.constant(logits), 5)
    assert ids.numpy().ravel().tolist() == [4000, 71, 73, 74, 72]
    assert values.numpy().ravel().tolist() == [10, 9, 8, 7, 6]


# Ranking


def test_plain_length_is_a_power_of_the_tokens():
    assert Ranking(plain_length(1.0)).score(tf.constant(-6.0), 3, ()).numpy() == pytest.approx(-2.0)
    assert Ranking(plain_length(0.5)).score(tf.constant(-6.0), 4, ()).numpy() == pytest.approx(-3.0)
    assert Ranking(plain_length(0.0)).score(tf.constant(-6.0), 9, ()).numpy() == pytest.approx(-6.0)


def test_gnmt_length_is_one_for_a_single_token_and_grows_slowly():
    assert Ranking(gnmt_length(0.7)).score(tf.constant(-6.0), 1, ()).numpy() == pytest.approx(-6.0)
    assert Ranking(gnmt_length(1.0)).score(tf.constant(-6.0), 7, ()).numpy() == pytest.approx(-3.0)  # (5 + 7) / 6
    assert Ranking(gnmt_length(0.5)).score(tf.constant(-6.0), 19, ()).numpy() == pytest.approx(-3.0)  # sqrt(24 / 6)


def test_coverage_costs_what_the_words_of_the_source_lack():
    ranking = Ranking(plain_length(1.0), Coverage(0.5, tf.constant([[True, True, True, False]])))
    attention = ranking.unattended()[:, tf.newaxis] + tf.constant([[[0.5, 1.5, 0.25, 0.0]]])
    found = ranking.score(tf.constant([[-6.0]]), tf.constant([[2]]), attention)
    assert found.numpy().item() == pytest.approx(-3.0 + 0.5 * (math.log(0.5) + 0.0 + math.log(0.25)))


def test_a_word_without_any_attention_leaves_a_finite_score():
    ranking = Ranking(plain_length(1.0), Coverage(1.0, tf.constant([[True, True]])))
    found = ranking.score(tf.constant([[-1.0]]), tf.constant([[1]]), tf.constant([[[1.0, 0.0]]]))
    assert -100.0 < found.numpy().item() < -80.0


# Beam search


def slow_beam(logits, limit, width, n_best, length_penalty, min_tokens=1, unk_allowed=True):
    """Beam search for one sentence of ``wander`` in plain loops: (tokens, log-probability, score), and its steps."""
    running, ended, steps = [((), 0.0, 0)], [], 0
    never = {PAD, START} if unk_allowed else {PAD, START, UNK}
    while True:
        steps += 1
        grown = []
        for tokens, log_prob, state in running:
            state = (state * 7 + (tokens[-1] if tokens else START) * 3 + 1) % len(logits)
            p = softmax(logits[state])
            banned = never | {END} if steps < min_tokens else never
            grown += [((*tokens, i), log_prob + math.log(p[i]), state) for i in range(len(p)) if i not in banned]
        grown = sorted(grown, key=lambda one: -one[1])[: width - len(ended)]
        ended += [(tokens, log_p, log_p / length_penalty(steps)) for tokens, log_p, _ in grown if tokens[-1] == END]
        ended.sort(key=lambda one: -one[2])
        running = [one for one in grown if one[0][-1] != END]
        bound = max((log_p / length_penalty(limit) for _, log_p, _ in running), default=-math.inf)
        if steps == limit or not running or (len(ended) >= n_best and bound <= ended[n_best - 1][2]):
            cut = [(tokens, log_p, log_p / length_penalty(steps)) for tokens, log_p, _ in running]
            return [*ended, *sorted(cut, key=lambda one: -one[2])][:n_best], steps


def tables(count, contexts, words, seed, end=0.0):
    """Random logits for ``wander``; the larger ``end``, the shorter the sentences."""
    logits = np.random.default_rng(seed).normal(0.0, 1.5, size=(count, contexts, words)).astype(np.float32)
    logits[..., END] += end
    return logits


def expect_lists(found, wanted, rows=slice(None)):
    """Compares hypotheses with lists of (tokens, log-probability, score)."""
    columns = (found.ids[rows], found.lengths[rows], found.scores[rows], found.log_probs[rows])
    for ids, lengths, scores, log_probs, each in zip(*(x.numpy() for x in columns), wanted, strict=True):
        assert [tuple(row[:n].tolist()) for row, n in zip(ids, lengths, strict=True) if n] == [one[0] for one in each]
        assert not any(row[n:].any() for row, n in zip(ids, lengths, strict=True))
        np.testing.assert_allclose(log_probs[: len(each)], [one[1] for one in each], rtol=1e-4)
        np.testing.assert_allclose(scores[: len(each)], [one[2] for one in each], rtol=1e-4)


@pytest.mark.parametrize("n_best", [1, 5, 121])
@pytest.mark.parametrize(
    ("normaliser", "length_penalty"),
    [
        (plain_length(1.0), lambda n: n),
        (plain_length(0.0), lambda n: 1.0),
        (gnmt_length(0.6), lambda n: ((5.0 + n) / 6.0) ** 0.6),
    ],
    ids=["plain", "none", "gnmt"],
)
def test_a_beam_as_wide_as_the_space_finds_what_exhaustive_search_finds(n_best, normaliser, length_penalty):
    logits, limit = tables(3, contexts=211, words=6, seed=4), 4
    found = beam_search(
        wander, no_time(3), Script(tf.constant(logits)), tf.fill([3], limit),
        width=121, n_best=n_best, ranking=Ranking(normaliser),
    )  # fmt: skip
    wanted = []
    for table in logits:
        ended, cut = [], []
        for n in range(1, limit + 1):
            for tokens in itertools.product([UNK, 4, 5], repeat=n):
                whole = [*tokens[:-1], END], [*tokens]
                for sequence, pile in zip(whole, (ended, cut), strict=True):
                    if (pile is ended and tokens[-1] != UNK) or (pile is cut and n < limit):
                        continue  # each sequence once
                    state, last, log_prob = 0, START, 0.0
                    for token in sequence:
                        state = (state * 7 + last * 3 + 1) % len(table)
                        log_prob += math.log(softmax(table[state])[token])
                        last = token
                    pile.append((tuple(sequence), log_prob, log_prob / length_penalty(n)))
        assert (len(ended), len(cut)) == (40, 81)
        wanted.append([one for pile in (ended, cut) for one in sorted(pile, key=lambda one: -one[2])][:n_best])
    expect_lists(found, wanted)


@pytest.mark.parametrize("width", [2, 3, 5])
@pytest.mark.parametrize("n_best", [1, 2])
def test_a_narrow_beam_finds_what_plain_loops_find(width, n_best):
    logits, limits = tables(13, contexts=29, words=17, seed=width, end=0.5), [*range(1, 14)]
    found = beam_search(
        wander, no_time(13), Script(tf.constant(logits)), tf.constant(limits), width=width, n_best=n_best
    )
    slow = [slow_beam(*each, width, n_best, lambda n: n)[0] for each in zip(logits, limits, strict=True)]
    expect_lists(found, slow)


def test_a_beam_of_one_is_greedy():
    memory, limits = Script(tf.constant(tables(19, contexts=29, words=17, seed=1))), tf.range(1, 20)
    one, other = beam_search(wander, no_time(19), memory, limits, width=1), greedy(wander, no_time(19), memory, limits)
    for field, each, wanted in zip(one._fields, one, other, strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-6, err_msg=field)


def counted_steps(logits, limit, **options):
    """How many steps a search of one sentence takes."""
    steps = []

    def counting(ids, state, table):
        steps.append(ids)
        return wander(ids, state, table)

    beam_search(counting, no_time(1), Script(tf.constant(logits[np.newaxis])), tf.constant([limit]), **options)
    return len(steps)


@pytest.mark.parametrize("n_best", [1, 2, 4])
def test_the_search_stops_at_the_first_step_that_allows_it_and_not_before(n_best):
    found, wanted = [], []
    for table in tables(12, contexts=23, words=9, seed=6, end=1.0):
        found.append(counted_steps(table, 12, width=4, n_best=n_best, ranking=Ranking(gnmt_length(0.8))))
        wanted.append(slow_beam(table, 12, 4, n_best, lambda n: ((5.0 + n) / 6.0) ** 0.8)[1])
    assert found == wanted
    assert len(set(wanted)) > 3  # so that stopping early can be seen


@pytest.mark.parametrize(("second", "steps"), [(0.4, 2), (0.45, 3)])
def test_a_running_hypothesis_is_waited_for_while_its_best_possible_score_is_higher(second, steps):
    # END has log 0.5 = -0.693 a token at step 1. The other token may at the best reach, in 3 tokens,
    # log(0.3) / 3 = -0.401 after step 1: it can win. After step 2, log(0.3 * 0.4) / 3 = -0.707 cannot, but
    # log(0.3 * 0.45) / 3 = -0.667 can.
    table = np.full([1, 3, 6], 1e-9)
    table[0, 0, [END, 4, 5]] = [0.5, 0.3, 0.2]
    table[0, 1:, [4, 5, UNK]] = np.array([[second, 1e-3, 0.599 - (second - 0.4)]] * 2).T
    table[0, 1:, UNK] = 1e-9
    table[0, 1:, PAD] = 1.0 - table[0, 1:].sum(axis=-1)
    shown = []

    def counting(ids, state, script):
        shown.append(ids)
        return spell(ids, state, script)

    found = beam_search(counting, no_time(1), Script(tf.constant(np.log(table), tf.float32)), tf.constant([3]), width=2)
    assert len(shown) == steps
    assert spelt(found) == ["#"]


def test_what_has_ended_is_never_lost_to_a_longer_hypothesis():
    # the empty sentence ends at 0.08; a step later two that go on have 0.45 and 0.44, in a beam of two
    first, then = [1e-9, 1e-9, 1e-9, 0.08, 0.9, 0.02], [1e-9, 1e-9, 1e-9, 0.01, 0.5, 0.49]
    script = Script(tf.constant(np.log([[first, then, then]]), tf.float32))
    found = beam_search(spell, no_time(1), script, tf.constant([3]), width=2, n_best=2)
    assert found.ids[0].numpy().tolist() == [[END, PAD, PAD], [4, 4, 4]]
    assert float(found.log_probs[0, 0]) == pytest.approx(np.log(0.08), abs=1e-4)


def test_hypotheses_that_the_limit_cut_rank_behind_those_that_ended():
    logits = np.log(np.array([[[1e-9, 1e-9, 1e-9, 0.1, 0.9 - 4e-9]] * 4]))
    found = beam_search(spell, no_time(1), Script(tf.constant(logits, tf.float32)), tf.constant([4]), width=3, n_best=3)
    assert found.ids[0].numpy().tolist() == [[4, END, PAD, PAD], [END, PAD, PAD, PAD], [4, 4, 4, 4]]
    assert found.scores[0, 2] > found.scores[0, 0] > found.scores[0, 1]
    cut = beam_search(spell, no_time(1), script_of("hello"), tf.constant([3]), width=1)
    assert spelt(cut) == ["hel"]
    assert float(cut.scores[0, 0]) == pytest.approx(LOG_P, rel=1e-4)


def test_places_that_no_hypothesis_fills_are_empty():
    # two tokens at the most, and END the only one allowed first: one hypothesis exists
    constraints = Constraints(prefix=tf.constant([[END]]))
    found = beam_search(spell, no_time(1), script_of("a"), tf.constant([2]), width=3, n_best=3, constraints=constraints)
    assert found.lengths.numpy().tolist() == [[1, 0, 0]]
    assert np.isneginf(found.log_probs.numpy()[0, 1:]).all()
    assert np.isneginf(found.scores.numpy()[0, 1:]).all()
    assert not found.ids[0, 1:].numpy().any()
    assert not found.alignments[0, 1:].numpy().any()


def test_an_n_best_list_longer_than_the_beam_is_refused():
    with pytest.raises(ValueError, match=r"n_best: .*\(3\).* 4"):
        beam_search(spell, no_time(1), script_of("a"), tf.constant([2]), width=3, n_best=4)


def test_alignments_are_those_of_each_hypothesis_s_own_ancestors():
    memory = Script(tf.constant(tables(7, contexts=29, words=17, seed=3, end=-1.0)))
    found = beam_search(wander, no_time(7), memory, tf.fill([7], 8), width=5, n_best=5)
    previous = np.concatenate([np.full([7, 5, 1], START), found.ids.numpy()[..., :-1]], axis=-1)
    written = (found.ids.numpy() != PAD)[..., np.newaxis]
    np.testing.assert_array_equal(found.alignments, np.eye(S)[previous % S] * written)
    assert len({tuple(row) for row in previous[:, :, 3].tolist()}) > 1  # so that hypotheses differ in their ancestors


def test_coverage_counts_the_attention_of_each_hypothesis_s_own_ancestors():
    mask = tf.constant([[True, True, True, True, False]] * 7)
    ranking = Ranking(plain_length(1.0), Coverage(0.01, mask))
    memory = Script(tf.constant(tables(7, contexts=29, words=17, seed=3, end=1.0)))
    found = beam_search(wander, no_time(7), memory, tf.fill([7], 8), width=5, n_best=5, ranking=ranking)
    for alignments, lengths, log_probs, scores in zip(
        *(x.numpy() for x in (found.alignments, found.lengths, found.log_probs, found.scores)), strict=True
    ):
        attended = np.maximum(alignments.sum(axis=1)[:, :4], 1e-37)
        coverage = 0.01 * np.log(np.minimum(attended, 1.0)).sum(axis=-1)
        np.testing.assert_allclose(scores, log_probs / lengths + coverage, rtol=1e-4)


def test_coverage_ranks_a_translation_that_leaves_a_word_out_lower():
    # "a#" and "bc#" are about as probable a token; the first never looks at the third word
    logits = np.full([1, 12, V], -1e9, np.float32)
    a, b, c = (LETTERS.index(letter) for letter in "abc")
    logits[0, 0, [a, b]] = [0.1, 0.0]
    logits[0, 1, [END, c]] = 0.0
    logits[0, 2, END] = 0.0

    def step(ids, state, script):
        result = spell(ids, state, script)
        word_after = {a: [END], b: [c]}
        allowed = tf.stack([tf.where(tf.equal(ids, k), 1.0, 0.0) for k in word_after], axis=-1)
        first = tf.equal(state, 1)[..., tf.newaxis]
        forbidden = tf.one_hot(c, V) * allowed[..., :1] + tf.one_hot(END, V) * allowed[..., 1:]
        return result._replace(logits=result.logits + tf.where(first, -1e9 * forbidden, 0.0))

    options = {"width": 3, "n_best": 2}
    mask = tf.constant([[True, True, True, False, False]])
    without = beam_search(step, no_time(1), Script(tf.constant(logits)), tf.constant([5]), **options,
                          ranking=Ranking(plain_length(0.0)))  # fmt: skip
    with_coverage = beam_search(step, no_time(1), Script(tf.constant(logits)), tf.constant([5]), **options,
                                ranking=Ranking(plain_length(0.0), Coverage(0.2, mask)))  # fmt: skip
    assert spelt(without) == ["a#"]
    assert spelt(with_coverage) == ["bc#"]


def test_unk_is_chosen_only_where_it_is_allowed():
    logits = script_of("ax").logits.numpy()
    logits[0, 0, UNK] = 12.0
    given = (spell, no_time(1), Script(tf.constant(logits)), tf.constant([4]))
    for allowed, wanted in ((True, ".x#"), (False, "ax#")):
        constraints = Constraints(unk_allowed=allowed)
        for found in (
            greedy(*given, constraints=constraints),
            beam_search(*given, width=2, constraints=constraints),
            sample(*given, noise=tf.fill([1, 4], 0.5), temperature=0.5, constraints=constraints),
        ):
            assert spelt(found) == [wanted]


def test_end_does_not_come_before_the_least_number_of_tokens():
    noise = tf.fill([3, 12], 0.5)
    words = ("hello", "of", "")
    logits = script_of(*words).logits.numpy()
    logits[..., LETTERS.index("x")] = 0.0
    for row, word in zip(logits, words, strict=True):
        row[len(word) :, END] = 9.0  # for ever
    for least, lengths in ((1, [6, 3, 1]), (3, [6, 3, 3]), (5, [6, 5, 5])):
        given = (spell, no_time(3), Script(tf.constant(logits)), tf.fill([3], 5 + 3))
        constraints = Constraints(min_tokens=least)
        for found in (
            greedy(*given, constraints=constraints),
            beam_search(*given, width=3, constraints=constraints, ranking=Ranking(plain_length(0.0))),
            sample(*given, noise=noise, temperature=0.3, constraints=constraints),
        ):
            tokens = found.ids[:, 0].numpy()
            assert not (tokens[:, : least - 1] == END).any()
            assert found.lengths[:, 0].numpy().tolist() == lengths


@pytest.mark.parametrize("least", [1, 4])
def test_constraints_are_those_of_the_plain_loops(least):
    logits = tables(7, contexts=29, words=9, seed=8, end=2.0)
    logits[..., UNK] += 2.0
    found = beam_search(
        wander, no_time(7), Script(tf.constant(logits)), tf.fill([7], 9), width=3, n_best=2,
        constraints=Constraints(least, unk_allowed=False),
    )  # fmt: skip
    expect_lists(found, [slow_beam(table, 9, 3, 2, lambda n: n, least, unk_allowed=False)[0] for table in logits])


def test_a_prefix_is_what_hypotheses_begin_with_and_what_follows_is_searched_freely():
    t, h, e = (LETTERS.index(letter) for letter in "the")
    logits = tables(3, contexts=29, words=V, seed=9)
    prefix = tf.constant([[t, h, e], [h, PAD, PAD], [PAD, PAD, PAD]])
    given = (wander, no_time(3), Script(tf.constant(logits)), tf.fill([3], 7))
    for search in (
        lambda **options: greedy(*given, **options),
        lambda **options: beam_search(*given, width=4, **options),
        lambda **options: sample(*given, noise=hashed_uniform(tf.constant(["a", "b", "c"]), 7, 1), **options),
    ):
        found, free = search(constraints=Constraints(prefix=prefix)), search()
        assert found.ids[0, 0, :3].numpy().tolist() == [t, h, e]
        assert found.ids[1, 0, 0] == h
        assert (
            found.ids[2, 0].numpy()[: free.lengths[2, 0]].tolist()
            == free.ids[2, 0, : free.lengths[2, 0]].numpy().tolist()
        )
        scored = log_likelihood(*given[:3], found.ids[:, 0], found.lengths[:, 0])
        np.testing.assert_allclose(scored.log_probs, found.log_probs[:, 0], rtol=1e-5)


@pytest.mark.parametrize("width", [1, 4])
def test_batch_mates_change_nothing(width):
    logits, limits = tables(17, contexts=29, words=17, seed=5, end=-0.5), np.arange(17) % 9 + 1

    def search(rows):
        memory = Script(tf.constant(logits[rows]))
        given = (wander, no_time(len(rows)), memory, tf.constant(limits[rows], tf.int32))
        return greedy(*given) if width == 1 else beam_search(*given, width=width, n_best=3)

    together = search(np.arange(17))
    for rows in (np.random.default_rng(1).permutation(17), np.array([3]), np.array([8, 16])):
        for name, each, whole in zip(together._fields, search(rows), together, strict=True):
            wanted, each = whole.numpy()[rows], each.numpy()
            if name in ("ids", "alignments"):
                assert not wanted[:, :, each.shape[2] :].any()
                wanted = wanted[:, :, : each.shape[2]]
            np.testing.assert_allclose(each, wanted, rtol=1e-6, err_msg=name)


def test_padding_of_the_source_changes_nothing(model):
    sentences = [[4, 5, 6, 7, END], [END], [8, 9, END]]

    def search(rows, width):
        ids = tf.constant([[*row, *[PAD] * (width - len(row))] for row in rows])
        encoding = model.encoder(ids, ids != PAD)
        memory = model.decoder.remember(encoding)
        ranking = Ranking(plain_length(1.0), Coverage(0.3, encoding.mask))
        given = (model.decoder.step, model.decoder.initial_state(memory), memory, tf.fill([len(rows)], 9))
        return beam_search(*given, width=4, n_best=4, ranking=ranking)

    wide = search(sentences, 11)
    for row, sentence in enumerate(sentences):
        alone = search([sentence], len(sentence))
        np.testing.assert_array_equal(alone.lengths[0], wide.lengths[row])
        np.testing.assert_array_equal(alone.ids[0], wide.ids[row, :, : alone.ids.shape[2]])
        np.testing.assert_allclose(alone.scores[0], wide.scores[row], rtol=1e-4)
        np.testing.assert_allclose(
            alone.alignments[0], wide.alignments[row, :, : alone.ids.shape[2], : len(sentence)], atol=1e-5
        )


def test_the_memory_is_never_tiled():
    shapes = set()

    def watching(ids, state, memory):
        shapes.add((tuple(ids.shape), tuple(memory.logits.shape), tuple(state.shape)))
        return wander(ids, state, memory)

    beam_search(watching, no_time(1), Script(tf.zeros([1, 29, 17])), tf.constant([3]), width=7)
    assert shapes == {((1, 7), (1, 29, 17), (1, 7))}


# LogLikelihood scoring


def test_a_given_translation_has_the_log_probability_that_a_search_gave_it(model):
    ids = tf.constant([[4, 5, 6, 7, END], [8, 9, END, PAD, PAD], [END, PAD, PAD, PAD, PAD]])
    memory = model.decoder.remember(model.encoder(ids, ids != PAD))
    state = model.decoder.initial_state(memory)
    found = beam_search(model.decoder.step, state, memory, tf.constant([7, 5, 11]), width=5, n_best=4)
    for k in range(4):
        scored = log_likelihood(model.decoder.step, state, memory, found.ids[:, k], found.lengths[:, k])
        np.testing.assert_allclose(scored.log_probs, found.log_probs[:, k], rtol=1e-5)
        np.testing.assert_allclose(tf.reduce_sum(scored.token_log_probs, 1), scored.log_probs, rtol=1e-5)
        np.testing.assert_allclose(scored.alignments, found.alignments[:, k], atol=1e-6)


def test_forced_scores_are_those_of_teacher_forcing(model):
    source = tf.constant([[4, 5, 6, 7, END], [8, 9, END, PAD, PAD]])
    target = tf.constant([[6, 5, END, PAD], [9, PAD, PAD, PAD]])
    memory = model.decoder.remember(model.encoder(source, source != PAD))
    scored = log_likelihood(
        model.decoder.step, model.decoder.initial_state(memory), memory, target, tf.constant([3, 1])
    )
    output = model((source, tf.constant([[START, 6, 5, PAD], [START, PAD, PAD, PAD]])))
    wanted = tf.gather(tf.nn.log_softmax(output.logits), target, batch_dims=2) * [[1.0, 1, 1, 0], [1, 0, 0, 0]]
    np.testing.assert_allclose(scored.token_log_probs, wanted, rtol=1e-4)
    np.testing.assert_allclose(scored.log_probs, tf.reduce_sum(wanted, axis=1), rtol=1e-4)


# In a graph


def test_a_graph_of_unknown_sizes_finds_what_eager_execution_finds():
    searches = {
        "greedy": lambda *given: greedy(*given),
        "beam": lambda *given: beam_search(*given, width=3, n_best=2),
        "sample": lambda *given: sample(
            *given, noise=hashed_uniform(tf.strings.as_string(given[3]), 9, 1), top_k=5, top_p=0.9
        ),
    }
    logits, limits = tf.constant(tables(5, contexts=29, words=17, seed=2)), tf.constant([1, 9, 4, 2, 7])
    for name, search in searches.items():

        @tf.function(
            autograph=False, input_signature=[tf.TensorSpec([None, None, 17]), tf.TensorSpec([None], tf.int32)]
        )
        def in_graph(logits, limits, search=search):
            return search(wander, tf.zeros([tf.shape(limits)[0], 1], tf.int32), Script(logits), limits)

        eager = search(wander, no_time(5), Script(logits), limits)
        for field, each, wanted in zip(eager._fields, in_graph(logits, limits), eager, strict=True):
            np.testing.assert_allclose(each, wanted, rtol=1e-6, err_msg=f"{name} {field}")
        k = eager.ids.shape[1]
        empty = in_graph(tf.zeros([0, 29, 17]), tf.zeros([0], tf.int32))
        assert [tuple(part.shape) for part in empty] == [(0, k, 1), (0, k), (0, k), (0, k), (0, k, 1, S)]


# Sampling


def draw(logits, limit=1, seed=1, **options):
    """Draws tokens from the same logits in every row, at every time."""
    rows = logits.shape[0]
    script = Script(tf.tile(tf.constant(logits, tf.float32)[:, tf.newaxis], [1, limit, 1]))
    noise = hashed_uniform(tf.strings.as_string(tf.range(rows)), limit, seed)
    return sample(spell, no_time(rows), script, tf.fill([rows], limit), noise=noise, **options)


def chi_square(counts, probabilities):
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


SOME = np.array([-2.0, -0.5, 5.0, 0.3, 0.6, 1.0, 0.1])  # PAD and START among them, which are never drawn
DRAWN = [UNK, END, 4, 5, 6]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_softmax_at_the_temperature(temperature):
    found = draw(np.tile(SOME, [20_000, 1]), temperature=temperature).ids.numpy().ravel()
    counts = np.bincount(found, minlength=7)
    assert counts[PAD] == counts[START] == 0
    # 18.47 is the 99.9 % quantile of chi-square with the 4 degrees of freedom that 5 frequencies have
    assert chi_square(counts[DRAWN], softmax(SOME[DRAWN] / temperature)) < 18.47


def test_draws_of_two_steps_are_independent():
    logits = SOME.copy()
    logits[END] = -1e9  # so that both are always drawn
    first, second = draw(np.tile(logits, [20_000, 1]), limit=2).ids[:, 0].numpy().T
    drawn = [UNK, 4, 5, 6]
    p = softmax(logits[drawn])
    counts = np.array([np.sum((first == i) & (second == j)) for i in drawn for j in drawn])
    # 37.70 is the 99.9 % quantile of chi-square with 15 degrees of freedom
    assert chi_square(counts, np.outer(p, p).ravel()) < 37.70


def test_top_k_draws_among_the_k_most_probable_tokens():
    found = draw(np.tile(SOME, [20_000, 1]), top_k=3, temperature=0.7).ids.numpy().ravel()
    counts = np.bincount(found, minlength=7)
    assert set(np.flatnonzero(counts)) == {5, 4, END}
    # 13.82 is the 99.9 % quantile of chi-square with 2 degrees of freedom
    assert chi_square(counts[[5, 4, END]], softmax(SOME[[5, 4, END]] / 0.7)) < 13.82


def test_top_p_draws_from_the_fewest_tokens_that_hold_the_probability():
    # of those allowed, the two most probable hold 0.597 of the probability, the three most probable 0.775
    np.testing.assert_allclose(np.cumsum(np.sort(softmax(SOME[DRAWN]))[::-1])[1:3], [0.597, 0.775], atol=1e-3)
    for top_p, nucleus in ((0.2, {5}), (0.55, {5, 4}), (0.65, {5, 4, END})):
        found = draw(np.tile(SOME, [2_000, 1]), top_p=top_p).ids.numpy().ravel()
        assert set(found.tolist()) == nucleus, top_p


def test_a_draw_is_a_pure_function_of_its_noise():
    logits = np.zeros([100, V])
    first, again, other = (draw(logits, limit=3, seed=seed).ids.numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5


def test_noise_belongs_to_its_key_and_position_and_is_even():
    keys = [f"sentence {i}" for i in range(500)]
    noise = hashed_uniform(tf.constant(keys), 40, seed=3).numpy()
    np.testing.assert_array_equal(hashed_uniform(tf.constant(keys[::-1]), 7, seed=3), noise[::-1, :7])
    assert (noise >= 0.0).all()
    assert (noise < 1.0).all()
    counts = np.histogram(noise, bins=10, range=(0.0, 1.0))[0]
    # 27.88 is the 99.9 % quantile of chi-square with 9 degrees of freedom
    assert chi_square(counts, np.full(10, 0.1)) < 27.88
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 0.15


@pytest.mark.parametrize("chance", [0.0, 1.0 - 2.0**-24])
def test_the_extremes_of_noise_draw_tokens_that_can_come(chance):
    logits = tf.constant([[[0.0, 0.0, 0.0, -1e9, 1.0, 2.0, -1e9]] * 2])
    found = sample(spell, no_time(1), Script(logits), tf.constant([2]), noise=tf.fill([1, 2], chance))
    assert set(found.ids.numpy().ravel().tolist()) == ({UNK} if chance == 0.0 else {5})


def test_a_low_temperature_is_greedy():
    logits = np.random.default_rng(2).normal(size=(50, V))
    logits[:, [PAD, START]] = -9.0
    np.testing.assert_array_equal(draw(logits, temperature=1e-4).ids[:, 0, 0], logits.argmax(axis=1))


def test_log_probs_of_draws_are_the_model_s_own():
    logits = np.random.default_rng(2).normal(size=(50, V))
    found = draw(logits, temperature=3.0, top_k=4)
    wanted = [math.log(softmax(row)[i]) for row, i in zip(logits, found.ids[:, 0, 0].numpy(), strict=True)]
    np.testing.assert_allclose(found.log_probs[:, 0], wanted, rtol=1e-4)


def test_sampling_ends_at_end_and_at_limits():
    found = sample(
        spell, no_time(2), script_of("hello", "ox"), tf.constant([3, 12]), noise=tf.fill([2, 12], 0.5), temperature=0.5
    )
    assert spelt(found) == ["hel", "ox#"]
