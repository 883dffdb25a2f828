"""Initial weights, learning rates and optimizers against the papers."""

from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf
from reference import adadelta, adam, cell_of

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, TrainConfig
from nmt_keras.layers.cells import CELLS
from nmt_keras.models.recurrent_decoder import ConditionalDecoder
from nmt_keras.models.seq2seq import build_model
from nmt_keras.training.optimizers import build_optimizer
from nmt_keras.training.schedules import learning_rate, sampling_probability


def config(**fields):
    return TrainConfig(**{"steps": 100, "minutes": None, "learning_rate": 1.0, "warmup_steps": 20, **fields})


# Initial weights. The standard deviation of n draws has a relative error of 1 / sqrt(2n), so sizes are large.


def initialized(initializer, cell="gru", **parts):
    parts = {
        "encoder": EncoderConfig(cell=cell, units=29, layers=2),
        "attention": AttentionConfig(units=37),
        "decoder": DecoderConfig(cell=cell, units=41, layers=2, output_units=43),
        **parts,
    }
    return build_model(ModelConfig(31, **parts, initializer=initializer), 101, 103)


@cache
def initialized_by_bahdanau(cell):
    return initialized("bahdanau", cell)


def all_cells(model):
    encoder, decoder = model.encoder, model.decoder
    word_cells = [decoder.word_cell] if isinstance(decoder, ConditionalDecoder) else []
    return [*encoder.forward_cells, *encoder.backward_cells, *word_cells, *decoder.stack.cells]


def assert_normal(values, deviation):
    values = np.ravel(values)
    assert values.std() == pytest.approx(deviation, rel=4.0 / (2.0 * values.size) ** 0.5)
    assert abs(values.mean()) < 4.0 * deviation / values.size**0.5


@pytest.mark.parametrize("cell", CELLS)
def test_bahdanau_s_recurrent_matrices_are_orthogonal_gate_by_gate(cell):
    decoder = DecoderConfig("conditional", cell, 41, output_units=43, output_state="current")
    models = initialized_by_bahdanau(cell), initialized("bahdanau", cell, decoder=decoder)
    for one in (one for model in models for one in all_cells(model)):
        matrices = [gate.U for gate in cell_of(one).gates]
        assert len(matrices) == one.projections
        for U in matrices:
            np.testing.assert_allclose(U @ U.T, np.eye(one.units), atol=1e-5)
        assert len({U.tobytes() for U in matrices}) == one.projections, "each gate has a matrix of its own"


@pytest.mark.parametrize("cell", CELLS)
def test_bahdanau_s_other_weights_are_normal_but_for_biases_and_the_alignment_s_score_vector(cell):
    model = initialized_by_bahdanau(cell)
    score = model.decoder.attention.score
    assert_normal(score.query_kernel, 0.001)
    assert_normal(score.key_kernel, 0.001)
    assert not np.any(score.score_vector)
    biases = [v for v in model.trainable_variables if v.path.endswith("bias")]
    assert sum(v.shape.num_elements() for v in biases) == sum(
        one.projections * one.units * (2 if cell == "gru-reset-after" else 1) for one in all_cells(model)
    ) + 2 * 41 + (2 * 43 + 103)
    assert not any(np.any(v) for v in biases)
    apart = [score.query_kernel, score.key_kernel, score.score_vector, *biases]
    apart += [v for one in all_cells(model) for v in one.trainable_variables if v.name.endswith("recurrent")]
    norms = [v for v in model.trainable_variables if v.name in ("gamma", "beta")]
    assert all(np.all(v == float(v.name == "gamma")) for v in norms), "scale 1 and shift 0"
    apart += norms
    others = [v for v in model.trainable_variables if not any(v is known for known in apart)]
    kernels = sum(1 + hasattr(one, "context_kernel") for one in all_cells(model))
    assert len(others) == 2 + kernels + 5, "embeddings, W and C of each cell, W_s, U_o, V_o, C_o, W_o"
    for variable in others:
        assert_normal(variable, 0.01)


@pytest.mark.parametrize("logit", ["mean", "sum"])
def test_luong_s_weights_are_all_uniform_within_a_tenth_biases_too(logit):
    model = initialized(
        "uniform",
        "lstm",
        encoder=EncoderConfig(cell="lstm", direction="backward", units=41, layers=2),
        attention=AttentionConfig("general", "local-p", units=37, position_logit=logit),
        decoder=DecoderConfig(
            "update-then-attend", "lstm", 41, 2, initial_state="last", input_feeding=True, output="attentional"
        ),
    )
    weights = [np.ravel(variable) for variable in model.trainable_variables]
    for values in weights:
        assert np.abs(values).max() <= 0.1
        assert values.max() > 0.05
        assert values.min() < -0.05
    everything = np.concatenate(weights)
    assert everything.std() == pytest.approx(0.1 / 3**0.5, rel=0.01)
    assert everything.mean() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("initializer", ["glorot", "bahdanau", "uniform"])
def test_initial_weights_follow_from_keras_s_seed(initializer):
    drawn = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(seed)
        model = initialized(initializer, encoder=EncoderConfig(units=3), decoder=DecoderConfig(units=5))
        drawn.append(np.concatenate([np.ravel(v) for v in model.trainable_variables]))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.any(drawn[0] != drawn[2])


# Rates


@pytest.mark.parametrize("decay", ["constant", "cosine", "linear", "halving"])
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


@pytest.mark.parametrize("steps_per_epoch", [1, 7, 340, 36000])
@pytest.mark.parametrize(("epochs", "after"), [(10, 5), (12, 8)])
def test_halving_is_luong_s(epochs, after, steps_per_epoch):
    """Luong et al. train for 10 epochs and halve the rate after 5; with dropout, 12 and 8 (section 4.1)."""
    fields = {"warmup_steps": 0, "decay": "halving", "halve_from": after / epochs, "halve_every": 1 / epochs}
    total = epochs * steps_per_epoch
    for epoch in range(1, epochs + 1):
        first, last = (epoch - 1) * steps_per_epoch, epoch * steps_per_epoch - 1
        for step in (first, (first + last) // 2, last):
            assert learning_rate(config(**fields), step, total) == 0.5 ** max(0, epoch - after), (epoch, step)


def test_halving_begins_after_the_warm_up_where_there_is_one():
    fields = {"warmup_steps": 20, "decay": "halving", "halve_from": 0.5, "halve_every": 0.25}
    rates = [learning_rate(config(**fields), step, 100) for step in (20, 59, 60, 79, 80, 99)]
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


def test_inverse_square_root_by_hand():
    fields = {"warmup_steps": 4, "decay": "inverse-sqrt"}
    rates = [learning_rate(config(**fields), step, 1000) for step in (0, 1, 3, 15, 63)]
    assert rates == [0.25, 0.5, 1.0, 0.5, 0.25]
    assert [learning_rate(config(**{**fields, "warmup_steps": 0}), step, 1000) for step in (0, 3)] == [1.0, 0.5]


# Scheduled sampling


def test_the_probability_of_reading_own_tokens_goes_along_a_line():
    fields = {"sampling_from": 0.2, "sampling_to": 0.6}
    found = [sampling_probability(config(**fields), step, 5) for step in range(5)]
    assert found == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6])
    assert sampling_probability(config(), 3, 5) == 0.0
    assert sampling_probability(config(sampling_from=1.0, sampling_to=1.0), 0, 1) == 1.0


# Optimizers


def trained(optimizer_fields, start, gradients, rates):
    """Returns a variable after one update per gradient, each with its own learning rate."""
    variable = keras.Variable(start)
    optimizer = build_optimizer(config(**optimizer_fields), [variable])
    for gradient, rate in zip(gradients, rates, strict=True):
        optimizer.learning_rate.assign(rate)
        optimizer.apply([tf.constant(gradient, tf.float32)], [variable])
    return variable.numpy()


@pytest.mark.parametrize(("rate", "rho"), [(1.0, 0.95), (0.5, 0.8)])
def test_adadelta_is_the_paper_s(rate, rho):
    start, gradients = np.array([1.0, -2.0, 3.0]), np.random.default_rng(1).normal(size=(7, 3))
    fields, wanted = {"optimizer": "adadelta", "rho": rho, "epsilon": 1e-6}, adadelta(start, gradients, rho, 1e-6, rate)
    assert np.abs(wanted - start).max() > 1e-3
    np.testing.assert_allclose(trained(fields, start, gradients, [rate] * 7), wanted, atol=1e-6)


def test_plain_gradient_descent_goes_against_the_slope():
    start, gradients, rates = np.array([1.0, -2.0]), np.random.default_rng(1).normal(size=(3, 2)), [1.0, 0.5, 0.25]
    found = trained({"optimizer": "sgd", "learning_rate": 1}, start, gradients, rates)
    np.testing.assert_allclose(found, start - np.array(rates) @ gradients, atol=1e-6)


def test_adam_is_the_paper_s():
    start, gradients = np.array([1.0, -2.0, 3.0]), np.random.default_rng(1).normal(size=(5, 3))
    rates = [0.1, 0.2, 0.05, 0.1, 0.1]
    found = trained({"beta_2": 0.98}, start, gradients, rates)
    wanted = adam(start, gradients, rates, beta_1=0.9, beta_2=0.98, epsilon=1e-8)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
