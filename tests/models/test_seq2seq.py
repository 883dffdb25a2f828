"""The whole model: loss and gradient against the reference, in eager mode, graphs and XLA, and in each precision."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from combinations import COMBINATIONS
from reference import loss as reference_loss
from reference import weights_of
from tensors import assert_same, padded
from tiny import TINY_MODEL, randomise

from nmt_keras.config import END
from nmt_keras.layers.dropout import Randomness
from nmt_keras.models.seq2seq import build_model
from nmt_keras.training import batch_loss

PAIRS = [([4, 5, 6, 7, END], [8, 9, END]), ([END], [10, 11, 12, 13, END]), ([16, 17, END], [END])]
SMOOTHING = 0.1


def batch(pairs, source_width, target_width):
    """Returns the ids of both sides of ``pairs``, padded."""
    sides = ([pair[side] for pair in pairs] for side in (0, 1))
    return tuple(padded(each, width)[0] for each, width in zip(sides, (source_width, target_width), strict=True))


def loss_and_gradient(model, source, target, randomness=None):
    with tf.GradientTape() as tape:
        loss = batch_loss(model, source, target, SMOOTHING, randomness=randomness)
    unread = tf.UnconnectedGradients.ZERO  # the lecture's decoder has an unused embedding
    variables = [v.value for v in model.trainable_variables]
    gradients = tape.gradient(loss.total, variables, unconnected_gradients=unread)
    return loss, [tf.convert_to_tensor(g) for g in gradients]


@pytest.fixture(scope="module")
def wanted(model):
    return loss_and_gradient(model, *batch(PAIRS, 7, 5))


@pytest.fixture
def in_precision(model, dtype_policy):
    """Builds a model under another dtype policy.

    The model is a copy of the tiny model or, if ``name`` is given, that combination with random weights.
    """

    def build(policy, name=None):
        dtype_policy(policy)
        copy = build_model(
            COMBINATIONS[name] if name else TINY_MODEL, model.source_vocabulary_size, model.target_vocabulary_size
        )
        if name:
            randomise(copy, 3)
        else:
            copy.set_weights(model.get_weights())
        return copy

    return build


# Against the papers


def test_the_loss_is_the_paper_s(model, wanted):
    loss, _ = wanted
    assert loss.total.numpy() == pytest.approx(reference_loss(weights_of(model), PAIRS, SMOOTHING), rel=1e-5)
    assert loss.cross_entropy.numpy() == pytest.approx(reference_loss(weights_of(model), PAIRS), rel=1e-5)
    assert loss.tokens.numpy() == 9.0


OFTEN = [
    *("rnnsearch-deep", "rnnsearch-linear", "rnnsearch-local-p", "conditional-deep", "conditional-fixed"),
    *("rnnencdec-mean", "luong-location", "luong-feed", "luong-local-m", "luong-local-p-wide"),
    *("lecture", "self-attention"),
]
"""Combinations that together contain every layer."""


def slow_except(often, names):
    """Returns ``names`` as cases. Those that are not in ``often`` are slow."""
    return [pytest.param(name, marks=[] if name in often else pytest.mark.slow) for name in names]


@pytest.mark.long
@pytest.mark.parametrize("name", slow_except(OFTEN, COMBINATIONS))
def test_every_part_s_gradient_is_the_slope_of_the_reference(name, in_precision):
    """Compares the gradient with central differences of the NumPy loss along a random direction of each variable."""
    model, pairs = in_precision("float64", name), [([4, 5, 6, 7, END], [8, 9, END]), ([16, END], [4, 10, 8, END])]
    _, gradients = loss_and_gradient(model, *batch(pairs, 7, 5))
    random, h = np.random.default_rng(4), 1e-5

    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        origin, direction = variable.numpy(), random.normal(size=variable.shape)

        def loss_at(move, variable=variable, origin=origin, direction=direction):
            variable.assign(origin + move * direction)
            return reference_loss(weights_of(model), pairs, SMOOTHING)

        slope = (loss_at(h) - loss_at(-h)) / (2.0 * h)
        variable.assign(origin)
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-4, abs=1e-4), variable.path


# Laws


def test_rows_that_are_masked_change_neither_loss_nor_gradient(model, wanted):
    masked = ([END], [])
    assert_same(loss_and_gradient(model, *batch([*PAIRS, masked, masked], 7, 5)), wanted, rtol=1e-4)


def test_a_batch_of_masked_rows_has_no_loss_and_no_gradient(model):
    loss, gradients = loss_and_gradient(model, *batch([([END], [])] * 2, 7, 5))
    assert all(float(part) == 0.0 for part in loss)
    assert not any(np.any(gradient) for gradient in gradients)


def shallow(config):
    """Returns the configuration with one layer on each side, because each layer takes seconds to compile."""
    return replace(config, encoder=replace(config.encoder, layers=1), decoder=replace(config.decoder, layers=1))


@pytest.mark.parametrize(
    "name", slow_except(["rnnsearch", "luong-local-m"], ["rnnsearch", "conditional", "luong-local-m", "self-attention"])
)
@pytest.mark.long
def test_graph_and_xla_give_the_same_loss_and_gradient_as_eager_also_under_dropout(name):
    model = build_model(shallow(COMBINATIONS[name]), 19, 23)
    randomise(model, 3)

    def noisy(source, target, step):
        return loss_and_gradient(model, source, target, Randomness(1, step))

    arguments = *batch(PAIRS, 7, 5), tf.constant(3)
    eager = noisy(*arguments)
    assert_same(tf.function(noisy, autograph=False)(*arguments), eager, rtol=1e-4)
    assert_same(tf.function(noisy, autograph=False, jit_compile=True)(*arguments), eager, rtol=1e-4)


# Precision


def test_mixed_half_precision_is_finite_and_near(in_precision):
    """With these weights, rounding does not change which unit of a maxout pair is larger.

    With other weights it may, and then the gradient flows to the other unit.
    """
    full, half = in_precision("float32"), in_precision("mixed_bfloat16")
    randomise(full, 4)
    half.set_weights(full.get_weights())
    assert {v.dtype for v in half.trainable_variables} == {"float32"}
    assert half(batch(PAIRS, 7, 5)).logits.dtype == tf.bfloat16
    wanted, found = (loss_and_gradient(each, *batch(PAIRS, 7, 5)) for each in (full, half))
    assert found[0].total.dtype == tf.float32
    assert float(found[0].total) == pytest.approx(float(wanted[0].total), rel=0.02)
    for near, exact in zip(found[1], wanted[1], strict=True):
        assert np.linalg.norm(near - exact) < 0.05 * np.linalg.norm(exact) + 1e-3


# As a Keras model


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras
def test_a_model_keeps_its_precision_in_a_process_that_has_another(dtype_policy, tmp_path):
    dtype_policy("mixed_bfloat16")
    model, inputs = build_model(TINY_MODEL, 19, 23), batch(PAIRS, 7, 5)
    outputs = model(inputs)
    model.save(tmp_path / "model.keras")
    dtype_policy("float32")
    assert_same(keras.models.load_model(tmp_path / "model.keras")(inputs).logits, outputs.logits, rtol=0.0, atol=0.0)
