"""The decoder against the paper's equations, and teacher forcing against one step after another."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import randomise
from reference import decode, readout, readout_of, weights_of

from nmt_keras.cells import Noise
from nmt_keras.decoder import BahdanauDecoder, MaxoutReadout
from nmt_keras.model import Seq2Seq

PAD, START, END = 0, 2, 3
PAIRS = [([4, 5, 6, 7, END], [8, 9, END]), ([END], [10, 11, 12, 13, 14, 15, END]), ([16, 17, END], [END])]
S, T = 6, 7


def padded(sentences, width):
    return tf.constant([[*sentence, *[PAD] * (width - len(sentence))] for sentence in sentences])


def starting(targets):
    return [[START, *target[:-1]] for target in targets]


@pytest.fixture(scope="module")
def encoding(model):
    ids = padded([source for source, _ in PAIRS], S)
    return model.encoder(ids, ids != PAD)


@pytest.fixture(scope="module", params=["previous", "current"])
def decoder(request, model):
    """The tiny model's decoder, with either state in its readout."""
    decoder = BahdanauDecoder.from_config({**model.decoder.get_config(), "readout_state": request.param})
    decoder.build()
    randomise(decoder, 5)
    return decoder


@pytest.fixture(scope="module")
def output(decoder, encoding):
    return decoder(padded(starting(target for _, target in PAIRS), T), encoding)


def test_logits_and_alignments_are_the_paper_s(model, decoder, output):
    weights = weights_of(Seq2Seq(model.encoder, decoder))
    for b, (source, target) in enumerate(PAIRS):
        logits, alignments = decode(weights, source, target)
        np.testing.assert_allclose(output.logits[b, : len(target)], logits, atol=2e-5)
        np.testing.assert_allclose(output.alignment[b, : len(target), : len(source)], alignments, atol=1e-5)


def test_alignments_sum_to_1_and_are_exactly_0_on_padding(output):
    np.testing.assert_allclose(tf.reduce_sum(output.alignment, axis=-1), 1.0, atol=1e-6)
    for b, (source, _) in enumerate(PAIRS):
        assert not output.alignment[b, :, len(source) :].numpy().any()


def test_teacher_forcing_equals_one_step_after_another(decoder, encoding, output):
    ids = padded(starting(target for _, target in PAIRS), T)
    memory = decoder.remember(encoding)
    carry = decoder.start(memory)
    for t in range(T):
        step = decoder.step(ids[:, t : t + 1], carry, memory)
        np.testing.assert_allclose(step.logits[:, 0], output.logits[:, t], atol=1e-5)
        np.testing.assert_allclose(step.alignment[:, 0], output.alignment[:, t], atol=1e-6)
        carry = step.carry
        assert (carry.step.numpy() == t + 1).all()


def test_hypotheses_share_one_memory_and_do_not_meet(decoder, encoding):
    memory = decoder.remember(encoding)
    first = decoder.start(memory)
    apart = [decoder.step(tf.fill([len(PAIRS), 1], token), first, memory) for token in (START, 9, 11)]
    carry = tf.nest.map_structure(lambda *x: tf.concat(x, axis=1), *(step.carry for step in apart))
    together = decoder.step(tf.constant([[9, START, 11]] * len(PAIRS)), carry, memory)
    for q, token in enumerate((9, START, 11)):
        alone = decoder.step(tf.fill([len(PAIRS), 1], token), apart[q].carry, memory)
        np.testing.assert_allclose(together.logits[:, q], alone.logits[:, 0], atol=1e-5)
        np.testing.assert_allclose(together.carry.state[:, q], alone.carry.state[:, 0], atol=1e-6)


def test_a_token_depends_on_the_tokens_before_it_alone(decoder, encoding, output):
    ids = padded(starting(target for _, target in PAIRS), T).numpy()
    ids[:, 4:] = 21
    np.testing.assert_array_equal(decoder(tf.constant(ids), encoding).logits[:, :4], output.logits[:, :4])


def test_dropout_acts_under_noise_alone(decoder, encoding, output):
    ids = padded(starting(target for _, target in PAIRS), T)
    noisy = [decoder(ids, encoding, Noise(tf.constant(1), tf.constant(step))).logits for step in (1, 1, 2)]
    np.testing.assert_array_equal(noisy[0], noisy[1])
    assert np.abs(noisy[0] - noisy[2]).max() > 0.01
    assert np.abs(noisy[0] - output.logits).max() > 0.01


def test_a_decoder_comes_back_from_its_configuration(decoder):
    config = decoder.get_config()
    copy = BahdanauDecoder.from_config(config)
    copy.build()
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in decoder.trainable_variables]


# The readout


def test_the_readout_is_the_paper_s():
    units, U, D, E, V = 5, 7, 11, 13, 17
    layer = MaxoutReadout(V, units, U, D, E)
    randomise(layer, 1)
    random = np.random.default_rng(2)
    state, context, embedded = (random.normal(size=(2, 3, size)) for size in (U, D, E))
    found = layer(*(tf.constant(x, tf.float32) for x in (state, context, embedded)))
    for b in range(2):
        for t in range(3):
            wanted = readout(readout_of(layer), state[b, t], embedded[b, t], context[b, t])
            np.testing.assert_allclose(found[b, t], wanted, atol=1e-5)


def test_maxout_takes_the_larger_of_neighbours():
    layer = MaxoutReadout(2, 2, 4, 0, 0)
    layer.kernel.assign(tf.eye(4))
    layer.output_kernel.assign(tf.eye(2))
    nothing = tf.zeros([1, 1, 0])
    logits = layer(tf.constant([[[1.0, 2.0, 7.0, 5.0]]]), nothing, nothing)
    assert logits.numpy().tolist() == [[[2.0, 7.0]]]
