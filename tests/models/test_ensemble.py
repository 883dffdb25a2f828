"""Ensembles: probabilities and alignments are the means of those of the models."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_MODEL, randomise

from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model
from nmt_keras.search import SearchInputs, beam_search

START, END = 2, 3
SOURCES = [[4, 5, 6, END], [7, END, 0, 0]]


@pytest.fixture(scope="module")
def models():
    keras.utils.set_random_seed(3)
    built = [build_model(TINY_MODEL, 19, 23) for _ in range(3)]
    for seed, model in enumerate(built):
        randomise(model, seed)
    return built


def first_step(model):
    memory = model.encode(tf.constant(SOURCES))
    return model.step(tf.fill([2, 1], START), model.initial_state(memory), memory)


def test_probabilities_and_alignments_are_the_models_means(models):
    found, each = first_step(Ensemble(models)), [first_step(model) for model in models]
    wanted = np.mean([tf.nn.softmax(step.logits) for step in each], axis=0)
    np.testing.assert_allclose(tf.nn.softmax(found.logits), wanted, atol=1e-6)
    np.testing.assert_allclose(tf.exp(found.logits), wanted, atol=1e-6)
    np.testing.assert_allclose(found.alignment, np.mean([step.alignment for step in each], axis=0), atol=1e-6)


def test_a_search_follows_the_mean_of_models_that_differ(models):
    """Each token has the largest mean probability. The log-probability sums the logarithms of these means."""
    ensemble, mask, limits = Ensemble(models), tf.constant(SOURCES) != 0, tf.constant([9, 9])
    memory = ensemble.encode(tf.constant(SOURCES))
    found = beam_search(ensemble.step, ensemble.initial_state(memory), SearchInputs(memory, mask, limits))
    for row, source in enumerate(SOURCES):
        own = [model.encode(tf.constant([source])) for model in models]
        carries = [model.initial_state(memory) for model, memory in zip(models, own, strict=True)]
        last, total = START, 0.0
        for t in range(int(found.lengths[row, 0])):
            steps = [
                model.step(tf.constant([[last]]), state, memory)
                for model, state, memory in zip(models, carries, own, strict=True)
            ]
            carries = [step.state for step in steps]
            mean = np.mean([tf.nn.softmax(step.logits)[0, 0] for step in steps], axis=0)
            mean[[0, START]] = 0.0  # never predicted
            last = int(mean.argmax())
            total += np.log(mean[last])
            assert found.ids[row, 0, t] == last
            where = np.mean([step.alignment[0, 0] for step in steps], axis=0)
            np.testing.assert_allclose(found.alignments[row, 0, t], where, atol=1e-5)
        assert found.log_probs[row, 0].numpy() == pytest.approx(total, abs=1e-4)


def test_other_vocabularies_are_refused(models):
    with pytest.raises(ValueError, match=r"models: .*\(19, 29\)"):
        Ensemble([models[0], build_model(TINY_MODEL, 19, 29)])


def test_no_model_is_refused():
    with pytest.raises(ValueError, match="models"):
        Ensemble([])
