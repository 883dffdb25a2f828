"""Rates that can be read off a drawing, Adam and clipping against their papers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import adam, clip

from nmt_keras.config import TrainConfig
from nmt_keras.optimization import build_optimizer, clip_by_global_norm, learning_rate


def config(**fields):
    return TrainConfig(**{"steps": 100, "minutes": None, "learning_rate": 1.0, "warmup_steps": 20, **fields})


@pytest.mark.parametrize("decay", ["constant", "cosine", "linear"])
def test_the_rate_grows_linearly_to_its_peak(decay):
    rates = [learning_rate(config(decay=decay), step, 100) for step in range(21)]
    np.testing.assert_allclose(rates, [*np.arange(1, 21) / 20, 1.0])


@pytest.mark.parametrize(
    ("decay", "quarter", "half", "end"),
    [("constant", 1.0, 1.0, 1.0), ("linear", 0.75, 0.5, 0.0), ("cosine", 0.5 + 0.5**1.5, 0.5, 0.0)],
)
def test_after_warming_up_the_rate_takes_its_way_to_the_last_step(decay, quarter, half, end):
    rates = [learning_rate(config(decay=decay), step, 100) for step in (40, 60, 100)]
    assert rates == pytest.approx([quarter, half, end])


def test_without_a_warm_up_the_first_step_has_the_peak():
    assert learning_rate(config(warmup_steps=0, decay="cosine"), 0, 100) == 1.0


@pytest.mark.parametrize("total", [1, 20, 21])
def test_a_run_that_hardly_outlives_its_warm_up_has_rates_within_bounds(total):
    assert all(0.0 <= learning_rate(config(), step, total) <= 1.0 for step in range(total + 5))


def test_adam_is_the_paper_s():
    start, gradients = np.array([1.0, -2.0, 3.0]), np.random.default_rng(1).normal(size=(5, 3))
    rates = [0.1, 0.2, 0.05, 0.1, 0.1]
    variable = keras.Variable(start)
    optimizer = build_optimizer(config(beta_2=0.98), [variable])
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.learning_rate.assign(rate)
        optimizer.apply([tf.constant(gradient, tf.float32)], [variable])
    wanted = adam(start, gradients, rates, beta_1=0.9, beta_2=0.98, epsilon=1e-8)
    np.testing.assert_allclose(variable.numpy(), wanted, atol=1e-6)


def test_adam_s_slots_are_there_before_the_first_update():
    variable = keras.Variable(tf.zeros([2, 3]))
    optimizer = build_optimizer(config(), [variable])
    assert sum(slot.shape == (2, 3) for slot in optimizer.variables) == 2


@pytest.mark.parametrize("clip_norm", [0.1, 6.5, 100.0])
def test_clipping_scales_the_joint_norm_down_and_never_up(clip_norm):
    gradients = [np.array([[3.0, 4.0]]), np.array([12.0])]  # norm 13
    found, norm = clip_by_global_norm([tf.constant(g, tf.float32) for g in gradients], clip_norm)
    wanted, wanted_norm = clip(gradients, clip_norm)
    assert float(norm) == wanted_norm == 13.0
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_no_gradient_is_clipped_to_no_gradient():
    (found,), norm = clip_by_global_norm([tf.zeros([3])], 1.0)
    assert float(norm) == 0.0
    assert found.numpy().tolist() == [0.0, 0.0, 0.0]
