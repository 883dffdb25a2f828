"""Search on step functions that spell known strings, and on tables where the right answer can be listed."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from reference import greedy as reference_greedy
from reference import softmax, weights_of

from nmt_keras.search import greedy, sample

PAD, START, END = 0, 2, 3
LETTERS = "....abcdefghijklmnopqrstuvwxyz"  # the four special ids have no letter
V, S = len(LETTERS), 5


class Step(NamedTuple):
    logits: tf.Tensor
    alignment: tf.Tensor
    carry: Any


class Script(NamedTuple):
    """A memory of logits: what comes at each time, or after each token."""

    logits: tf.Tensor  # [B, T, V], or [B, V, V]


def spell(ids, carry, script):
    """Says what the script says at the carried time; looks at the source position of that number."""
    logits = tf.gather(script.logits, carry, batch_dims=1)
    return Step(logits, tf.one_hot(carry % S, S), carry + 1)


def bigram(ids, carry, script):
    """Says what the script says after the last token; carries the tokens it was shown."""
    logits = tf.gather(script.logits, ids, batch_dims=1)
    return Step(logits, tf.one_hot(ids % S, S), tf.concat([carry[..., 1:], ids[..., tf.newaxis]], axis=-1))


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

    def watching(ids, carry, script):
        shown.append(ids.numpy().ravel().tolist())
        return spell(ids, carry, script)

    greedy(watching, no_time(1), script_of("ox"), tf.constant([12]))
    assert shown == [[START], [LETTERS.index("o")], [LETTERS.index("x")]]


def test_an_empty_batch_gives_no_hypotheses():
    found = greedy(spell, no_time(0), Script(tf.zeros([0, 12, V])), tf.zeros([0], tf.int32))
    assert [tuple(part.shape) for part in found] == [(0, 1, 1), (0, 1), (0, 1), (0, 1), (0, 1, 1, S)]


def test_greedy_takes_the_largest_logit_after_each_token():
    logits = np.random.default_rng(1).normal(size=(7, V, V))
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
    found = greedy(model.decoder.step, model.decoder.start(memory), memory, tf.constant([7, 5, 11]))
    for b, limit in enumerate([7, 5, 11]):
        tokens, log_prob = reference_greedy(weights_of(model), sentences[b], limit)
        assert found.ids[b, 0].numpy()[: found.lengths[b, 0]].tolist() == tokens
        assert float(found.log_probs[b, 0]) == pytest.approx(log_prob, rel=1e-4)


def test_a_graph_of_unknown_sizes_finds_the_same():
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None, V]), tf.TensorSpec([None], tf.int32)])
    def search(logits, limits):
        return greedy(spell, tf.zeros([tf.shape(limits)[0], 1], tf.int32), Script(logits), limits)

    found = search(script_of("hello", "ox").logits, tf.constant([12, 2]))
    assert spelt(found) == ["hello#", "ox"]
    assert search(tf.zeros([0, 12, V]), tf.zeros([0], tf.int32)).ids.shape == (0, 1, 1)


# Sampling


def draw(logits, limit=1, temperature=1.0, seed=1):
    """Draws tokens from the same logits in every row, at every time."""
    rows = logits.shape[0]
    script = Script(tf.tile(tf.constant(logits, tf.float32)[:, tf.newaxis], [1, limit, 1]))
    return sample(spell, no_time(rows), script, tf.fill([rows], limit), temperature=temperature, seed=seed)


def chi_square(counts, probabilities):
    expected = probabilities * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_softmax_at_the_temperature(temperature):
    logits = np.array([0.3, -0.5, 1.0, 0.0, 0.6])
    found = draw(np.tile(logits, [20_000, 1]), temperature=temperature).ids.numpy().ravel()
    # 18.47 is the 99.9 % quantile of chi-square with the 4 degrees of freedom that 5 frequencies have
    assert chi_square(np.bincount(found, minlength=5), softmax(logits / temperature)) < 18.47


def test_draws_of_two_steps_are_independent():
    logits = np.array([0.3, -0.5, 1.0, -1e9, 0.6])  # never END, so that both are always drawn
    first, second = draw(np.tile(logits, [20_000, 1]), limit=2).ids[:, 0].numpy().T
    drawn, p = [0, 1, 2, 4], softmax(logits)
    counts = np.array([np.sum((first == i) & (second == j)) for i in drawn for j in drawn])
    # 37.70 is the 99.9 % quantile of chi-square with 15 degrees of freedom
    assert chi_square(counts, np.array([p[i] * p[j] for i in drawn for j in drawn])) < 37.70


def test_a_draw_is_a_pure_function_of_its_seed():
    logits = np.zeros([100, V])
    first, again, other = (draw(logits, limit=3, seed=seed).ids.numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.5


def test_a_low_temperature_is_greedy():
    logits = np.random.default_rng(2).normal(size=(50, V))
    np.testing.assert_array_equal(draw(logits, temperature=1e-4).ids[:, 0, 0], logits.argmax(axis=1))


def test_log_probs_of_draws_are_the_model_s_own():
    logits = np.random.default_rng(2).normal(size=(50, V))
    found = draw(logits, temperature=3.0)
    wanted = [math.log(softmax(row)[i]) for row, i in zip(logits, found.ids[:, 0, 0].numpy(), strict=True)]
    np.testing.assert_allclose(found.log_probs[:, 0], wanted, rtol=1e-4)


def test_sampling_ends_at_end_and_at_limits():
    found = sample(spell, no_time(2), script_of("hello", "ox"), tf.constant([3, 12]), temperature=0.5, seed=1)
    assert spelt(found) == ["hel", "ox#"]
