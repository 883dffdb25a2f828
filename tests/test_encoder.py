"""The bidirectional encoder against the paper's equations, sentence by sentence."""

import numpy as np
import tensorflow as tf
from conftest import randomise
from reference import encode, weights_of

from nmt_keras.cells import Noise
from nmt_keras.encoder import Encoder
from nmt_keras.model import Seq2Seq

PAD, END = 0, 3
SENTENCES = [[4, 5, 6, 7, END], [END], [8, 9, END], [18, END]]


def padded(sentences, width):
    ids = tf.constant([[*sentence, *[PAD] * (width - len(sentence))] for sentence in sentences])
    return ids, tf.not_equal(ids, PAD)


def test_annotations_and_last_states_are_the_paper_s(model):
    encoding = model.encoder(*padded(SENTENCES, 7))
    for b, sentence in enumerate(SENTENCES):
        h, last_forward, first_backward = encode(weights_of(model), sentence)
        np.testing.assert_allclose(encoding.values[b, : len(sentence)], h, atol=1e-5)
        np.testing.assert_allclose(encoding.states[0][b], last_forward, atol=1e-5)
        np.testing.assert_allclose(encoding.states[1][b], first_backward, atol=1e-5)


def test_a_residual_adds_a_linear_view_of_each_word_and_nothing_at_padding(model):
    encoder = Encoder.from_config({**model.encoder.get_config(), "residual": True})
    encoder.build()
    randomise(encoder, 5)
    encoding = encoder(*padded(SENTENCES, 7))
    for b, sentence in enumerate(SENTENCES):
        h, last_forward, _ = encode(weights_of(Seq2Seq(encoder, model.decoder)), sentence)
        np.testing.assert_allclose(encoding.values[b, : len(sentence)], h, atol=1e-5)
        np.testing.assert_allclose(encoding.states[0][b], last_forward, atol=1e-5)
        assert not encoding.values[b, len(sentence) :].numpy().any()


def test_annotations_are_0_at_padding(model):
    encoding = model.encoder(*padded(SENTENCES, 7))
    for b, sentence in enumerate(SENTENCES):
        assert not encoding.values[b, len(sentence) :].numpy().any()


def test_the_encoding_tells_the_mask_and_the_lengths(model):
    ids, mask = padded(SENTENCES, 7)
    encoding = model.encoder(ids, mask)
    np.testing.assert_array_equal(encoding.mask, mask)
    assert encoding.lengths.numpy().tolist() == [5, 1, 3, 2]


def test_padding_and_batch_mates_change_no_encoding(model):
    together = model.encoder(*padded(SENTENCES, 11))
    for b, sentence in enumerate(SENTENCES):
        alone = model.encoder(*padded([sentence], len(sentence)))
        np.testing.assert_allclose(together.values[b, : len(sentence)], alone.values[0], atol=1e-6)
        for found, wanted in zip(together.states, alone.states, strict=True):
            np.testing.assert_allclose(found[b], wanted[0], atol=1e-6)


def test_an_encoder_without_dropout_ignores_noise_and_one_with_it_does_not(model):
    ids, noise = padded(SENTENCES, 5), Noise(tf.constant(1), tf.constant(1))
    calm = Encoder(19, 5, 7)
    np.testing.assert_array_equal(calm(*ids, noise).values, calm(*ids).values)
    assert np.abs(model.encoder(*ids, noise).values - model.encoder(*ids).values).max() > 0.01


def test_an_encoder_comes_back_from_its_configuration(model):
    config = model.encoder.get_config()
    copy = Encoder.from_config(config)
    copy.build()
    assert copy.get_config() == config
    assert [v.shape for v in copy.trainable_variables] == [v.shape for v in model.encoder.trainable_variables]
