"""Fused recurrences: the same results as the loop, and the choice between cuDNN and XLA."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE, randomise

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from nmt_keras.layers.dropout import Randomness
from nmt_keras.models.seq2seq import build_model
from nmt_keras.training.execution import Execution, build_for_training, choose_execution

SOURCE = tf.constant([[5, 6, 7, 8, 3], [9, 3, 0, 0, 0], [4, 5, 3, 0, 0]])
TARGET = tf.constant([[2, 4, 5, 6, 7], [2, 8, 3, 0, 0], [2, 3, 0, 0, 0]])
FUSED = ["gru-reset-after", "lstm"]
RANDOMNESS = Randomness(tf.constant(1), tf.constant(2))


def luong(cell="lstm", kind="general", encoder=None, decoder=None, **whole):
    """Returns Luong's model with two residual layers on each side."""
    output = {"output": "state"} if kind == "none" else {"output": "attentional", "output_units": 13}
    decoder = {"cell": cell, "units": 7, "layers": 2, "initial_state": "last", **output, **(decoder or {})}
    return ModelConfig(
        5,
        EncoderConfig(**{"cell": cell, "units": 7, "layers": 2, "direction": "backward", **(encoder or {})}),
        AttentionConfig(kind),
        DecoderConfig("update-then-attend", residual=True, **decoder),
        **whole,
    )


def build(config, use_cudnn=True):
    model = build_model(config, 19, 23)
    model.encoder.use_cudnn = model.decoder.use_cudnn = use_cudnn
    randomise(model, 1)
    return model


@pytest.mark.long
@pytest.mark.parametrize("cell", FUSED)
@pytest.mark.parametrize("direction", ["backward", "bidirectional"])
def test_annotations_and_last_states_and_their_gradients_equal_the_loop_s(cell, direction):
    config = luong(cell, "dot", {"direction": direction, "merge": "sum", "residual": True}, {"initial_state": "zero"})
    answers = []
    for use_cudnn in (False, True):
        encoder = build(config, use_cudnn).encoder

        @tf.function(autograph=False)
        def differentiated(encoder=encoder):
            with tf.GradientTape() as tape:
                encoding = encoder(SOURCE, randomness=RANDOMNESS)
                floats = [x for x in tf.nest.flatten(encoding) if x is not None and x.dtype.is_floating]
                loss = tf.add_n([tf.reduce_sum(x * x) for x in floats])
            return *floats, *tape.gradient(loss, [v.value for v in encoder.trainable_variables])

        answers.append(differentiated())
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), atol=2e-5)


@pytest.mark.parametrize("cell", FUSED)
@pytest.mark.parametrize("kind", ["none", "general"])
def test_luong_s_decoder_equals_the_loop_s_and_so_does_its_gradient(cell, kind):
    answers = []
    for use_cudnn in (False, True):
        model = build(luong(cell, kind, dropout=0.3), use_cudnn)
        with tf.GradientTape() as tape:
            output = model((SOURCE, TARGET), randomness=RANDOMNESS)
            loss = tf.reduce_sum(output.logits**2)
        gradient = tape.gradient(loss, [v.value for v in model.trainable_variables])
        answers.append([*output, *(tf.convert_to_tensor(g) for g in gradient)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("cell", FUSED)
def test_cudnn_gets_inputs_and_weights_of_one_type_in_a_model(policy, cell, dtype_policy, monkeypatch):
    monkeypatch.setattr(sys.modules["keras.src.backend.tensorflow.rnn"], "_is_gpu_available", lambda: True)
    dtype_policy(policy)
    model = build(luong(cell))
    trained = tf.function(lambda: model((SOURCE, TARGET), randomness=RANDOMNESS).logits, autograph=False)
    operations = [each.type for each in trained.get_concrete_function().graph.get_operations()]  # or TypeError
    assert operations.count("CudnnRNNV3") == 4  # two layers on each side


def test_a_search_does_not_use_cudnn_because_an_export_must_run_on_a_cpu(monkeypatch):
    monkeypatch.setattr("nmt_keras.models.encoder.run_cudnn", lambda *given, **options: pytest.fail("cuDNN"))
    model = build(luong("lstm"))
    assert model.encoder.runs_cudnn
    model.encoder(SOURCE)


@pytest.mark.parametrize(
    ("asked", "gpus", "wanted"),
    [
        (None, 0, Execution(xla=True, fused=False)),
        (None, 1, Execution(xla=True, fused=False)),
        (None, 8, Execution(xla=False, fused=True)),
        (True, 8, Execution(xla=True, fused=False)),
        (False, 0, Execution(xla=False, fused=False)),
        (False, 1, Execution(xla=False, fused=True)),
    ],
)
def test_xla_or_cudnn_but_never_both(asked, gpus, wanted):
    assert choose_execution(asked, gpus) == wanted


@pytest.mark.parametrize(("asked", "gpus"), [(False, 0), (None, 1), (True, 1)])
def test_rounded_products_need_xla_on_a_cpu(asked, gpus):
    with pytest.raises(ValueError, match=r"TrainConfig\.precision: .*mixed_bfloat16.*bfloat16-products"):
        choose_execution(asked, gpus, "bfloat16-products")


@pytest.mark.parametrize(
    ("precision", "policy"),
    [("float32", "float32"), ("bfloat16-products", "float32"), ("mixed_bfloat16", "mixed_bfloat16")],
)
def test_a_model_built_for_training_has_the_policy_of_its_precision(precision, policy):
    train = replace(TINY_RECIPE.train, precision=precision, xla=None)
    assert build_for_training(replace(TINY_RECIPE, train=train), 11, 13).dtype_policy.name == policy


@pytest.mark.parametrize(("xla", "gpus", "fused"), [(False, 1, True), (None, 1, False), (False, 0, False)])
def test_a_model_built_for_training_uses_cudnn_if_this_machine_has_a_gpu_and_xla_is_off(xla, gpus, fused, monkeypatch):
    monkeypatch.setattr("tensorflow.config.list_logical_devices", lambda kind: [kind] * gpus)
    train = replace(TINY_RECIPE.train, xla=xla)
    recipe = replace(TINY_RECIPE, train=train, model=luong("lstm"))
    model = build_for_training(recipe, 11, 13)
    assert model.encoder.use_cudnn == model.decoder.use_cudnn == fused
