"""The whole model: its loss and gradient against the reference, in every way to run it and in every precision."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import TINY_MODEL
from reference import loss as reference_loss
from reference import weights_of

from nmt_keras.cells import Noise
from nmt_keras.config import ModelConfig
from nmt_keras.model import Seq2Seq, build_model
from nmt_keras.training import forward

PAD, START, END = 0, 2, 3
PAIRS = [([4, 5, 6, 7, END], [8, 9, END]), ([END], [10, 11, 12, 13, END]), ([16, 17, END], [END])]
SMOOTHING = 0.1


def padded(sentences, width):
    return tf.constant([[*sentence, *[PAD] * (width - len(sentence))] for sentence in sentences])


def batch(pairs, source_width, target_width):
    return padded([source for source, _ in pairs], source_width), padded([target for _, target in pairs], target_width)


def loss_and_gradient(model, source, target, noise=None):
    with tf.GradientTape() as tape:
        loss = forward(model, source, target, SMOOTHING, noise)
    gradients = tape.gradient(loss.total, [v.value for v in model.trainable_variables])
    return loss, [tf.convert_to_tensor(g) for g in gradients]


def assert_same(found, wanted, rtol=1e-4, atol=1e-5):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


@pytest.fixture(scope="module")
def wanted(model):
    return loss_and_gradient(model, *batch(PAIRS, 7, 5))


@pytest.fixture
def in_precision(model):
    """The tiny model again, under another dtype policy."""
    before = keras.config.dtype_policy()

    def build(policy):
        keras.config.set_dtype_policy(policy)
        copy = build_model(TINY_MODEL, model.encoder.vocabulary_size, model.decoder.vocabulary_size)
        copy.set_weights(model.get_weights())
        return copy

    yield build
    keras.config.set_dtype_policy(before)


# Against the papers


def test_the_loss_is_the_paper_s(model, wanted):
    loss, _ = wanted
    assert loss.total.numpy() == pytest.approx(reference_loss(weights_of(model), PAIRS, SMOOTHING), rel=1e-5)
    assert loss.cross_entropy.numpy() == pytest.approx(reference_loss(weights_of(model), PAIRS), rel=1e-5)
    assert loss.tokens.numpy() == 9.0


def test_the_gradient_is_the_slope_of_the_reference(in_precision):
    """Central differences of the NumPy loss in float64, along a random direction of each variable."""
    model = in_precision("float64")
    _, gradients = loss_and_gradient(model, *batch(PAIRS, 7, 5))
    random, h = np.random.default_rng(4), 1e-5

    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        origin, direction = variable.numpy(), random.normal(size=variable.shape)

        def loss_at(move, variable=variable, origin=origin, direction=direction):
            variable.assign(origin + move * direction)
            return reference_loss(weights_of(model), PAIRS, SMOOTHING)

        slope = (loss_at(h) - loss_at(-h)) / (2.0 * h)
        variable.assign(origin)
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-4, abs=1e-4), variable.path


# Laws


def test_padding_changes_neither_loss_nor_gradient(model, wanted):
    assert_same(loss_and_gradient(model, *batch(PAIRS, 11, 13)), wanted)


def test_batch_mates_change_neither_loss_nor_gradient(model, wanted):
    alone = [loss_and_gradient(model, *batch([pair], 7, 5)) for pair in PAIRS]
    assert_same(tf.nest.map_structure(lambda *parts: sum(parts), *alone), wanted)


def test_rows_that_are_masked_change_neither_loss_nor_gradient(model, wanted):
    masked = ([END], [])
    assert_same(loss_and_gradient(model, *batch([*PAIRS, masked, masked], 7, 5)), wanted)


def test_a_batch_of_masked_rows_has_no_loss_and_no_gradient(model):
    loss, gradients = loss_and_gradient(model, *batch([([END], [])] * 2, 7, 5))
    assert all(float(part) == 0.0 for part in loss)
    assert not any(np.any(gradient) for gradient in gradients)


def test_graph_and_xla_give_the_same_loss_and_gradient_as_eager_also_under_dropout(model):
    def noisy(source, target, step):
        return loss_and_gradient(model, source, target, Noise(tf.constant(1), step))

    arguments = *batch(PAIRS, 7, 5), tf.constant(3)
    eager = noisy(*arguments)
    assert_same(tf.function(noisy, autograph=False)(*arguments), eager)
    assert_same(tf.function(noisy, autograph=False, jit_compile=True)(*arguments), eager)


# Precision


def test_double_precision_agrees_with_single(model, in_precision):
    source, target = batch(PAIRS, 7, 5)
    double, single = in_precision("float64")((source, target)), model((source, target))
    assert double.logits.dtype == double.alignment.dtype == tf.float64
    assert_same(double, single, atol=2e-5)


def test_mixed_half_precision_is_finite_and_near(model, wanted, in_precision):
    half = in_precision("mixed_bfloat16")
    assert {v.dtype for v in half.trainable_variables} == {"float32"}
    assert half(batch(PAIRS, 7, 5)).logits.dtype == tf.bfloat16
    loss, gradients = loss_and_gradient(half, *batch(PAIRS, 7, 5))
    assert loss.total.dtype == tf.float32
    assert float(loss.total) == pytest.approx(float(wanted[0].total), rel=0.02)
    for found, exact in zip(gradients, wanted[1], strict=True):
        assert np.linalg.norm(found - exact) < 0.05 * np.linalg.norm(exact) + 1e-3


# As a Keras model


def test_the_summary_counts_the_parameters_of_both_halves(model):
    E, H, U, A, readout = 5, 7, 11, 13, 17
    D = 2 * H
    encoder = 19 * E + 2 * 3 * H * (E + H + 1)
    attention = A * (U + D + 1)
    decoder = (
        23 * E + (H + 1) * U + attention + 3 * U * (E + U + D + 1) + (U + D + E + 1) * 2 * readout + (readout + 1) * 23
    )
    assert model.encoder.count_params() == encoder
    assert model.decoder.count_params() == decoder
    lines: list[str] = []
    model.summary(print_fn=lambda line, line_break=False: lines.append(line))
    text = "\n".join(lines)
    assert f"{encoder:,}" in next(line for line in text.split("\n") if "encoder" in line)
    assert f"{decoder:,}" in next(line for line in text.split("\n") if "decoder" in line)
    assert f"Total params: {encoder + decoder:,}" in text


def test_a_configuration_gives_the_model_its_sizes():
    config = ModelConfig(embedding_size=2, encoder_units=3, decoder_units=5, attention_units=7, readout_units=11)
    model = build_model(config, 13, 17)
    assert model((tf.constant([[4, END]]), tf.constant([[START]]))).logits.shape == (1, 1, 17)
    assert model.encoder.units == 3
    assert model.decoder.annotation_size == 6
    assert model.decoder.readout_state == config.readout_state
    assert model.encoder.dropout == model.decoder.dropout == config.dropout


def test_a_model_comes_back_from_its_configuration(model):
    config = model.get_config()
    copy = Seq2Seq.from_config(config)
    copy.build()
    copy.set_weights(model.get_weights())
    assert copy.get_config() == config
    assert_same(copy(batch(PAIRS, 7, 5)), model(batch(PAIRS, 7, 5)), rtol=0.0, atol=0.0)


@pytest.mark.saved_model
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras 3.15 saving, NumPy 2.4
def test_a_keras_file_gives_the_same_output_in_another_process(model, tmp_path):
    source, target = batch(PAIRS, 7, 5)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", source=source, target=target)
    program = """
import sys, keras, numpy as np, nmt_keras.model
folder = sys.argv[1]
ids = np.load(f"{folder}/inputs.npz")
output = keras.models.load_model(f"{folder}/model.keras")((ids["source"], ids["target"]))
np.savez(f"{folder}/outputs.npz", logits=output.logits, alignment=output.alignment)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    outputs = np.load(tmp_path / "outputs.npz")
    wanted = model((source, target))
    np.testing.assert_allclose(outputs["logits"], wanted.logits, atol=1e-6)
    np.testing.assert_allclose(outputs["alignment"], wanted.alignment, atol=1e-6)
