"""Fused recurrences: the same numbers as the loop, and the one rule that chooses between them and XLA."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_MODEL, randomise

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, TrainConfig
from nmt_keras.layers.cells import GRUCell, LSTMCell, ResetAfterGRUCell, TanhCell
from nmt_keras.layers.cudnn import can_fuse, read_fused
from nmt_keras.layers.dropout import Randomness
from nmt_keras.models.encoder import RecurrentEncoder
from nmt_keras.models.seq2seq import Seq2Seq, build_model
from nmt_keras.training.execution import choose_execution, describe_execution

SOURCE = tf.constant([[5, 6, 7, 8, 3], [9, 3, 0, 0, 0], [4, 5, 3, 0, 0]])
SIZES = {"vocabulary_size": 11, "embedding_size": 5, "units": 7}
FUSED = ["gru-reset-after", "lstm"]


def encoders(cell, **options):
    """The same encoder twice: a loop, and fused."""
    both = [RecurrentEncoder(**SIZES, cell=cell, fused=fused, **options) for fused in (False, True)]
    for encoder in both:
        encoder.build()
        randomise(encoder, 1)
    return both


def flat(encoding):
    return [x for x in tf.nest.flatten(encoding) if x.dtype.is_floating]


@pytest.mark.parametrize("cell", FUSED)
@pytest.mark.parametrize("direction", ["forward", "backward", "bidirectional"])
def test_annotations_and_last_states_equal_the_loop_s(cell, direction):
    loop, fused = encoders(cell, direction=direction, layers=2, residual=True)
    mask = SOURCE != 0
    for one, other in zip(flat(loop(SOURCE, mask)), flat(fused(SOURCE, mask)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("cell", FUSED)
def test_gradients_equal_the_loop_s_in_a_graph_too(cell):
    gradients = []
    for encoder in encoders(cell):

        @tf.function(autograph=False)
        def gradient(encoder=encoder):
            with tf.GradientTape() as tape:
                encoding = encoder(SOURCE, SOURCE != 0, Randomness(tf.constant(1), tf.constant(2)))
                loss = tf.add_n([tf.reduce_sum(x * x) for x in flat(encoding)])
            return tape.gradient(loss, [v.value for v in encoder.trainable_variables])

        gradients.append(gradient())
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), tf.convert_to_tensor(other), atol=2e-5)


SENTENCES = tf.constant([[2, 4, 5, 6, 7], [2, 8, 3, 0, 0]])


def decoders(cell, kind="none", **whole):
    """Luong's model twice, its decoder a loop and fused; the encoder is a loop in both."""
    readout = {"output": "state"} if kind == "none" else {"output": "attentional", "output_units": 13}
    config = ModelConfig(
        5,
        EncoderConfig(cell=cell, units=7, layers=2, direction="backward"),
        AttentionConfig(kind),
        DecoderConfig("update-then-attend", cell, 7, 2, residual=True, initial_state="last", **readout),
        **whole,
    )
    both = [build_model(config, 19, 23, fused=fused) for fused in (False, True)]
    for model in both:
        randomise(model, 1)
    return both


@pytest.mark.parametrize("cell", FUSED)
@pytest.mark.parametrize("kind", ["none", "general"])
def test_a_decoder_that_waits_for_no_attention_equals_the_loop_s_and_so_does_its_gradient(cell, kind):
    randomness, answers = Randomness(tf.constant(1), tf.constant(2)), []
    for model in decoders(cell, kind, dropout=0.3):
        with tf.GradientTape() as tape:
            output = model((SOURCE[:2], SENTENCES), randomness)
            loss = tf.reduce_sum(output.logits**2)
        gradient = tape.gradient(loss, [v.value for v in model.trainable_variables])
        answers.append([output.logits, output.alignment, *(tf.convert_to_tensor(g) for g in gradient)])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_a_fused_decoder_loops_where_it_must(monkeypatch):
    _, fused = decoders("lstm")
    monkeypatch.setattr("nmt_keras.models.decoder.scan", None)  # the loop would call it
    assert fused((SOURCE[:2], SENTENCES)).logits.shape == (2, 5, 23)
    _, dropping = decoders("lstm", recurrent_dropout=0.3)
    with pytest.raises(TypeError, match="not callable"):
        dropping((SOURCE[:2], SENTENCES), Randomness(tf.constant(1), tf.constant(2)))


def test_the_fused_path_is_taken(monkeypatch):
    _, fused = encoders("lstm")
    monkeypatch.setattr("nmt_keras.models.encoder.scan", None)  # the loop would call it
    assert fused(SOURCE, SOURCE != 0).values.shape == (3, 5, 14)


def test_recurrent_dropout_stays_with_the_loop():
    loop, fused = encoders("lstm", recurrent_dropout=0.5)
    randomness = Randomness(tf.constant(1), tf.constant(2))
    one, other = (encoder(SOURCE, SOURCE != 0, randomness).values for encoder in (loop, fused))
    np.testing.assert_array_equal(one, other)


def test_cells_whose_equations_cudnn_lacks_stay_with_the_loop():
    assert [can_fuse(cell(3, 2)) for cell in (TanhCell, GRUCell, ResetAfterGRUCell, LSTMCell)] == [0, 0, 1, 1]


def test_half_precision_computes_in_it(dtype_policy):
    dtype_policy("mixed_bfloat16")
    cell = LSTMCell(7, 5)
    outputs, state = read_fused(cell, tf.zeros([2, 3, 5], tf.bfloat16), tf.ones([2, 3], tf.bool))
    assert outputs.dtype == state.hidden.dtype == tf.bfloat16


def test_a_fused_model_has_the_weights_of_any_other():
    config = replace(TINY_MODEL, encoder=EncoderConfig(cell="lstm", units=7), decoder=TINY_MODEL.decoder)
    fused, plain = build_model(config, 19, 23, fused=True), build_model(config, 19, 23)
    assert [v.path.partition("/")[2] for v in fused.variables] == [v.path.partition("/")[2] for v in plain.variables]
    again = Seq2Seq.from_config(fused.get_config())
    assert again.fused
    again.build()
    again.set_weights(fused.get_weights())
    plain.set_weights(fused.get_weights())
    inputs = SOURCE, tf.constant([[2, 4], [2, 5], [2, 6]])
    for other in (again, plain):
        np.testing.assert_allclose(other(inputs).logits, fused(inputs).logits, atol=1e-6)


@pytest.mark.parametrize(
    ("asked", "gpus", "xla", "fused"),
    [
        (None, 0, True, False),
        (None, 1, False, True),
        (None, 8, False, True),
        (True, 0, True, False),
        (True, 1, True, False),
        (False, 0, False, False),
        (False, 1, False, True),
    ],
)
def test_xla_or_cudnn_but_never_both(asked, gpus, xla, fused):
    assert choose_execution(asked, gpus)[:2] == (xla, fused)


@pytest.mark.parametrize(
    ("precision", "asked", "gpus", "rounds", "policy"),
    [
        ("float32", None, 0, False, "float32"),
        ("float32", None, 1, False, "float32"),
        ("bfloat16", None, 0, True, "float32"),
        ("bfloat16", False, 0, False, "mixed_bfloat16"),
        ("bfloat16", True, 1, False, "mixed_bfloat16"),
        ("bfloat16", None, 1, False, "mixed_bfloat16"),
        ("float16", None, 0, False, "mixed_float16"),
        ("float16", None, 1, False, "mixed_float16"),
    ],
)
def test_products_alone_are_rounded_where_xla_compiles_for_a_cpu(precision, asked, gpus, rounds, policy):
    chosen = choose_execution(asked, gpus, precision)
    assert (chosen.rounds, chosen.policy) == (rounds, policy)


@pytest.mark.parametrize(
    ("xla", "gpus", "precision", "told"),
    [
        (None, 0, "float32", "forward and backward pass: compiled by XLA"),
        (False, 0, "float32", "forward and backward pass: a plain TensorFlow graph"),
        (
            None,
            1,
            "float32",
            "forward and backward pass: a plain TensorFlow graph; cuDNN reads whole sentences in the ",
        ),
        (None, 0, "bfloat16", "forward and backward pass: compiled by XLA; factors of products are rounded to"),
    ],
)
def test_a_run_is_told_which_path_its_steps_take(xla, gpus, precision, told):
    config = replace(TrainConfig(), xla=xla, precision=precision)
    execution = choose_execution(xla, gpus, precision)
    model = Seq2Seq(
        replace(TINY_MODEL, encoder=replace(TINY_MODEL.encoder, cell="lstm")), 11, 13, fused=execution.fused
    )
    assert describe_execution(execution, model, config).startswith(told)


@pytest.mark.parametrize(
    ("fields", "sampling", "parts"),
    [
        ({}, 0.0, "encoder and the decoder"),
        ({}, 0.1, "encoder"),
        ({"input_feeding": True}, 0.0, "encoder"),
        ({"cell": "gru", "initial_state": "mean"}, 0.0, "encoder"),
    ],
)
def test_what_cudnn_computes_is_told_part_by_part(fields, sampling, parts):
    decoder = DecoderConfig(
        "update-then-attend", "lstm", 7, initial_state="last", output="attentional", output_units=13
    )
    encoder = EncoderConfig(cell="lstm", units=7, direction="backward")
    config = ModelConfig(5, encoder, AttentionConfig("general"), replace(decoder, **fields))
    model, execution = Seq2Seq(config, 11, 13, fused=True), choose_execution(None, 1)
    found = describe_execution(execution, model, replace(TrainConfig(), sampling_to=sampling))
    assert found.endswith(f"cuDNN reads whole sentences in the {parts}")
