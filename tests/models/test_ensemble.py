"""Ensembles: probabilities and alignments are the means of those of the models."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_MODEL, randomise

from nmt_keras.models.ensemble import Ensemble
from nmt_keras.models.seq2seq import build_model

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
    np.testing.assert_allclose(tf.exp(found.logits), wanted, atol=1e-6)
    np.testing.assert_allclose(found.alignment, np.mean([step.alignment for step in each], axis=0), atol=1e-6)


def test_the_models_may_compute_in_different_precisions(models):
    step = first_step(Ensemble([models[0], build_model(TINY_MODEL, 19, 23, "mixed_bfloat16")]))
    assert step.logits.dtype == step.alignment.dtype == tf.float32


def test_other_vocabularies_are_refused(models):
    with pytest.raises(ValueError, match=r"models: .*\(19, 29\)"):
        Ensemble([models[0], build_model(TINY_MODEL, 19, 29)])


def test_no_model_is_refused():
    with pytest.raises(ValueError, match="models"):
        Ensemble([])
