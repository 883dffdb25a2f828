"""Dropout masks: pure functions of seed, batch, replica, position and site."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS

from nmt_keras.layers import dropout as dropout_module
from nmt_keras.layers.dropout import Randomness, draw_dropout_mask, dropout
from nmt_keras.models.seq2seq import build_model

RANDOMNESS = Randomness(tf.constant(1), tf.constant(1))


def test_dropout_is_absent_outside_training_and_at_rate_0():
    x = tf.ones([3, 5])
    assert dropout(x, 0.5, None, "site") is x
    assert dropout(x, 0.0, RANDOMNESS, "site") is x


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_zeroes_at_its_rate_and_scales_so_that_the_mean_stays(rate):
    n = 100_000
    found = dropout(tf.fill([n], 2.0), rate, RANDOMNESS, "site").numpy() / 2.0
    assert set(found.tolist()) == {0.0, np.float32(1.0 / (1.0 - rate))}
    deviation = (rate * (1.0 - rate) / n) ** 0.5  # standard deviation of the share of zeros
    assert abs((found == 0.0).mean() - rate) < 4.0 * deviation


def test_a_mask_depends_on_seed_batch_replica_position_and_site_alone():
    def draw(site="a", **changes):
        return draw_dropout_mask([1000], 0.5, replace(RANDOMNESS, **changes), site, tf.float32).numpy()

    first = draw()
    np.testing.assert_array_equal(first, draw())
    for other in [draw("b"), *(draw(**{name: 7}) for name in ("seed", "batch_number", "replica", "position"))]:
        # independent masks of rate 1/2 agree in half of the places, within 4 standard deviations
        assert abs((first == other).mean() - 0.5) < 4.0 * 0.5 / 1000**0.5


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_a_mask_is_the_same_with_and_without_xla_and_of_the_dtype_asked_for(dtype):
    def draw(step):
        return draw_dropout_mask([3, 5, 7], 0.3, Randomness(5, step), "site", dtype)

    plain, step = draw(9), tf.constant(9)
    assert plain.dtype == dtype
    for compiled in (tf.function(draw), tf.function(draw, jit_compile=True)):
        np.testing.assert_array_equal(compiled(step), plain)


# Masks of whole models


def model_of(name, **rates):
    return build_model(replace(COMBINATIONS[name], **rates), 19, 23)


@pytest.mark.parametrize("name", ["rnnsearch-deep", "luong-feed", "self-attention"])
def test_no_two_places_of_a_model_draw_by_the_same_name(name, monkeypatch):
    names, draw = [], dropout_module.random_uniform
    monkeypatch.setattr(dropout_module, "random_uniform", lambda *where: names.append(where[2]) or draw(*where))
    rates = {"dropout": 0.3} if name == "self-attention" else {"dropout": 0.3, "recurrent_dropout": 0.3}
    model_of(name, **rates)((tf.ones([2, 3], tf.int32), tf.ones([2, 5], tf.int32)), randomness=RANDOMNESS)
    assert len(names) > 4
    assert len(set(names)) == len(names)


def masks_of(randomness, steps=5, **rates):
    decoder = model_of("rnnsearch-deep", **{"dropout": 0.0, "recurrent_dropout": 0.0, **rates}).decoder
    return decoder.embed(tf.ones([4, steps], tf.int32), randomness).masks


def test_masks_between_cells_are_new_at_every_step_and_those_of_states_are_not():
    masks = masks_of(RANDOMNESS, dropout=0.25, recurrent_dropout=0.5)
    assert [m.shape for m in masks.inputs] == [(4, 5, 11)] * 2
    assert [m.shape for m in masks.states] == [(4, 5, 11)] * 3
    assert set(np.unique(masks.inputs)) == {0.0, np.float32(1 / 0.75)}
    assert set(np.unique(masks.states)) == {0.0, 2.0}
    assert all(np.ptp(mask, axis=1).any() for mask in masks.inputs)
    assert all(np.ptp(mask, axis=0).any() and not np.ptp(mask, axis=1).any() for mask in masks.states)


def test_positions_that_draw_one_by_one_share_the_masks_of_states():
    rates = {"dropout": 0.5, "recurrent_dropout": 0.5}
    first, second = (masks_of(replace(RANDOMNESS, position=tf.constant(p)), 1, **rates) for p in (0, 1))
    assert all(np.any(one != other) for one, other in zip(first.inputs, second.inputs, strict=True))
    np.testing.assert_array_equal(first.states, second.states)
