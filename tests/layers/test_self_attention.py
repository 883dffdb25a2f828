"""Self-attention against the paper's equations, position by position, and laws of its encoder."""

import numpy as np
import pytest
import tensorflow as tf
from reference import (
    enter,
    layer_norm,
    multi_head,
    multi_head_of,
    self_attention_encoder_of,
    self_encode,
    sinusoid,
)
from tensors import normal, padded
from tiny import randomise

from nmt_keras.layers.self_attention import (
    MultiHead,
    SelfAttentionLayer,
    SublayerMasks,
    with_positions,
)
from nmt_keras.models.encoder import SelfAttentionEncoder

END = 3
SENTENCES = [[4, 5, 6, 7, END], [END], [8, 9, END], [18, END]]
LENGTHS = [5, 1, 3, 2]
V, E, U, HEADS, D, B, P = 19, 5, 6, 3, 11, 2, 7
MASK = tf.sequence_mask([P, 3], P)


def built(layer, *shape):
    """Builds a layer with random weights."""
    layer.build(*shape)
    randomise(layer, 5)
    return layer


def make(embedding_size=E, layers=2, dropout=0.0):
    sizes = {"vocabulary_size": V, "embedding_size": embedding_size, "units": U, "heads": HEADS}
    return built(SelfAttentionEncoder(**sizes, num_layers=layers, dropout=dropout))


def exact(x):
    return np.asarray(x, np.float64)


# Positions and normalisation


@pytest.mark.parametrize("position", [0, 1, 6, 1000])
def test_sinusoids_are_the_paper_s_with_the_sines_first(position):
    wanted = sinusoid(position, U)
    np.testing.assert_allclose(
        with_positions(tf.zeros([U]), tf.constant(position)), [*wanted[0::2], *wanted[1::2]], atol=1e-4
    )


# Heads


@pytest.mark.parametrize("mask", [MASK[:, tf.newaxis], tf.sequence_mask([[1, 2, 3, 7], [7, 5, 1, 4]], P)])
def test_attention_in_several_heads_is_the_paper_s_whatever_each_query_may_attend_to(mask):
    layer = built(MultiHead(U, HEADS), (B, P, U), (B, P, D))
    x, values = normal(B, 4, U), normal(B, P, D, seed=3)
    found, alpha = (each.numpy() for each in layer.attend(x, *layer.keys_and_values(values), mask))
    seen = np.broadcast_to(mask, [B, 4, P])
    for b, q in np.ndindex(B, 4):
        wanted, wanted_alpha = multi_head(multi_head_of(layer), exact(x[b, q]), exact(values[b])[seen[b, q]])
        np.testing.assert_allclose(found[b, q], wanted, atol=1e-5)
        np.testing.assert_allclose(alpha[b, :, q][:, seen[b, q]], wanted_alpha, atol=1e-6)
        assert not np.any(alpha[b, :, q][:, ~seen[b, q]])


def test_heads_by_hand():
    """There are two heads of one unit. The first attends to the matching value. The second has query 0 and averages."""
    layer = MultiHead(2, 2)
    layer.build((1, 1, 2), (1, 2, 2))
    layer.query_kernel.assign([[1.0, 0.0], [0.0, 0.0]])
    layer.key_value_kernel.assign(np.hstack([np.eye(2), np.eye(2)]))  # keys and contents equal the values
    layer.kernel.assign(np.eye(2))
    values = tf.constant([[[100.0, 6.0], [-100.0, 2.0]]])
    pairs = layer.keys_and_values(values)
    found, alpha = layer.attend(tf.constant([[[1.0, 1.0]]]), *pairs, tf.ones([1, 1, 2], tf.bool))
    np.testing.assert_allclose(found[0, 0], [100.0, 4.0], atol=1e-5)
    np.testing.assert_allclose(alpha[0, :, 0], [[1, 0], [0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(layer(tf.constant([[[1.0, 1.0]]]), values)[1], [[[0.75, 0.25]]], atol=1e-6)  # their mean


# Layers


def test_each_sublayer_of_a_layer_multiplies_its_output_by_a_mask_of_its_own():
    layer = built(SelfAttentionLayer(U, HEADS), (B, P, U), (B, P, D))
    x, source = normal(B, P, U), layer.cross_attention.keys_and_values(normal(B, P, D))
    sublayers = {
        "self_attention": lambda masks: layer.attend_to_self(x, MASK[:, tf.newaxis], masks)[0],
        "cross_attention": lambda masks: layer.attend_to_source(x, source, MASK, masks)[0],
        "feed_forward": lambda masks: layer.feed_forward(x, masks),
    }
    for name, sublayer in sublayers.items():
        added = sublayer(SublayerMasks()) - x
        halved = sublayer(SublayerMasks(*[tf.zeros_like(x)] * 3)._replace(**{name: tf.fill(x.shape, 0.5)})) - x
        np.testing.assert_allclose(halved, 0.5 * added, atol=1e-5)


def test_a_layer_that_was_built_without_a_source_takes_none():
    layer = SelfAttentionLayer(U, HEADS)
    layer(normal(B, P, U))
    with pytest.raises(ValueError, match=r"source: expected None .* Call it with a source the first time"):
        layer(normal(B, P, U), normal(B, P, D))


# The encoder


@pytest.mark.parametrize("embedding_size", [E, U], ids=["mapped to the width", "of the width"])
def test_annotations_are_the_paper_s_and_0_at_padding_whatever_its_ids_are(embedding_size):
    encoder = make(embedding_size)
    assert hasattr(encoder, "input_kernel") == (embedding_size != U)
    ids, mask = padded(SENTENCES, 7)
    encoding = encoder(ids, mask)
    np.testing.assert_array_equal(encoding.mask, mask)
    assert encoding.lengths.numpy().tolist() == LENGTHS
    assert not encoding.states
    for b, sentence in enumerate(SENTENCES):
        wanted = self_encode(self_attention_encoder_of(encoder), sentence)
        np.testing.assert_allclose(encoding.values[b, : len(sentence)], wanted, atol=2e-5)
        assert not np.any(encoding.values[b, len(sentence) :])
    np.testing.assert_array_equal(encoder(*padded(SENTENCES, 7, filler=11)).values, encoding.values)


def test_the_weights_of_each_head_are_those_of_the_layer():
    encoder = make(layers=1)
    ids, _ = padded(SENTENCES, 7)
    weights = encoder.head_weights(ids)
    assert weights.shape == (len(SENTENCES), 1, HEADS, 7, 7)
    p = self_attention_encoder_of(encoder)
    for b, sentence in enumerate(SENTENCES):
        xs = [enter(p.embedding, p.entry, token, position, U) for position, token in enumerate(sentence)]
        normed = [layer_norm(p.layers[0].norms[0], x) for x in xs]
        for position, x in enumerate(normed):
            _, wanted = multi_head(p.layers[0].self_attention, x, normed)
            np.testing.assert_allclose(weights[b, 0, :, position, : len(sentence)], wanted, atol=1e-6)
        assert not np.any(weights[b, 0, :, :, len(sentence) :])
