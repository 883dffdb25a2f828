"""Self-attention against the paper's equations, position by position, and what a sentence's positions may see."""

import numpy as np
import pytest
import tensorflow as tf
from reference import (
    feed_forward,
    layer_norm,
    multi_head,
    multi_head_of,
    norm_of,
    self_attention_encoder_of,
    self_attention_layer_of,
    self_encode,
    sinusoid,
)
from tensors import normal, padded
from tiny import randomise

import nmt_keras.layers.self_attention
import nmt_keras.models.encoder
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.self_attention import MultiHead, SelfAttentionLayer, sinusoids
from nmt_keras.layers.self_attention import layer_norm as our_layer_norm
from nmt_keras.models.encoder import SelfAttentionEncoder

PAD, END = 0, 3
SENTENCES = [[4, 5, 6, 7, END], [END], [8, 9, END], [18, END]]
LENGTHS = [5, 1, 3, 2]
V, E, U, HEADS, D, B, P = 19, 5, 6, 3, 11, 2, 7


def built(part, seed=5):
    part.build()
    randomise(part, seed)
    return part


def make(seed=5, embedding_size=E, layers=2, dropout=0.0):
    sizes = {"vocabulary_size": V, "embedding_size": embedding_size, "units": U, "heads": HEADS}
    return built(SelfAttentionEncoder(**sizes, layers=layers, dropout=dropout), seed)


def exact(x):
    return np.asarray(x, np.float64)


# SelfAttentionInputs


def test_sinusoids_are_the_paper_s_with_the_sines_first():
    found = sinusoids(tf.range(P), U)
    for position in range(P):
        wanted = sinusoid(position, U)
        np.testing.assert_allclose(found[position], [*wanted[0::2], *wanted[1::2]], atol=1e-6)


def test_sinusoids_by_hand():
    """Of 4 units two turn by 1 radian per position and two by a hundredth of it."""
    found = sinusoids(tf.constant([[0], [3]]), 4)
    assert found.shape == (2, 1, 4)
    np.testing.assert_allclose(found[0, 0], [0.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(found[1, 0], [np.sin(3), np.sin(0.03), np.cos(3), np.cos(0.03)], atol=1e-6)


def test_sinusoids_far_into_a_text_are_still_those_of_their_position():
    wanted = sinusoid(1000, U)
    np.testing.assert_allclose(sinusoids(tf.constant(1000), U), [*wanted[0::2], *wanted[1::2]], atol=1e-4)


# Normalisation


def test_layer_norm_is_the_paper_s():
    x, scale, bias = normal(B, P, U), normal(U, seed=3), normal(U, seed=4)
    found = our_layer_norm(x, scale, bias)
    for b in range(B):
        for p in range(P):
            np.testing.assert_allclose(found[b, p], layer_norm(norm_of(scale, bias), exact(x[b, p])), atol=1e-5)


def test_layer_norm_by_hand():
    """Mean 3, deviation 1; and of equal numbers nothing is left but the bias."""
    scale, bias = tf.constant([1.0, 2.0]), tf.constant([0.0, 5.0])
    np.testing.assert_allclose(our_layer_norm(tf.constant([2.0, 4.0]), scale, bias), [-1.0, 7.0], atol=1e-4)
    np.testing.assert_allclose(our_layer_norm(tf.constant([4.0, 4.0]), scale, bias), [0.0, 5.0], atol=1e-4)


def test_layer_norm_in_half_precision_takes_its_moments_in_single():
    """256 and 258 are neighbours in bfloat16: their variance, 1, would be lost."""
    x, one, zero = (tf.constant(values, tf.bfloat16) for values in ([256.0, 258.0], [1.0, 1.0], [0.0, 0.0]))
    found = our_layer_norm(x, one, zero)
    assert found.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(found, tf.float32), [-1.0, 1.0], atol=1e-2)


# Heads


def test_attention_in_several_heads_is_the_paper_s():
    part = built(MultiHead(U, HEADS, D))
    x, values = normal(B, 4, U), normal(B, P, D, seed=3)
    lengths = [P, 3]
    mask = tf.sequence_mask(lengths, P)[:, tf.newaxis]
    found, weights = part.attend(x, *part.pairs(values), mask)
    for b, length in enumerate(lengths):
        for q in range(4):
            wanted, wanted_weights = multi_head(multi_head_of(part), exact(x[b, q]), exact(values[b, :length]))
            np.testing.assert_allclose(found[b, q], wanted, atol=1e-5)
            np.testing.assert_allclose(weights[b, q, :length], wanted_weights, atol=1e-6)
            assert not np.any(weights[b, q, length:])
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=-1), np.ones([B, 4]), atol=1e-6)


def test_heads_by_hand():
    """Two heads of one unit; the first finds the value that it matches, the second, whose query is 0, their mean."""
    part = MultiHead(2, 2, 2)
    part.query_kernel.assign([[1.0, 0.0], [0.0, 0.0]])
    part.pair_kernel.assign(np.hstack([np.eye(2), np.eye(2)]))  # keys and values are what they are made of
    part.kernel.assign(np.eye(2))
    values = tf.constant([[[100.0, 6.0], [-100.0, 2.0]]])
    found, weights = part.attend(tf.constant([[[1.0, 1.0]]]), *part.pairs(values), tf.ones([1, 1, 2], tf.bool))
    np.testing.assert_allclose(found[0, 0], [100.0, 4.0], atol=1e-5)
    np.testing.assert_allclose(weights[0, 0], [0.75, 0.25], atol=1e-6)


def test_a_mask_may_differ_from_query_to_query():
    part = built(MultiHead(U, HEADS, U))
    x = normal(B, P, U)
    earlier = tf.range(P) <= tf.range(P)[:, tf.newaxis]
    found, _ = part.attend(x, *part.pairs(x), earlier[tf.newaxis])
    for p in range(P):
        wanted, _ = multi_head(multi_head_of(part), exact(x[1, p]), exact(x[1, : p + 1]))
        np.testing.assert_allclose(found[1, p], wanted, atol=1e-5)


def test_queries_with_pasts_of_their_own_find_what_each_would_find_alone():
    part, queries, seen = built(MultiHead(U, HEADS, D)), 4, [[1, 2, 3, 7], [7, 5, 1, 4]]
    x, values = normal(B, queries, U), normal(B, queries, P, D, seed=3)
    keys, contents = tf.split(values @ part.pair_kernel.value, 2, axis=-1)
    found = part.attend_apart(x, keys, contents, tf.sequence_mask(seen, P))
    for b in range(B):
        for q in range(queries):
            past = exact(values[b, q, : seen[b][q]])
            np.testing.assert_allclose(found[b, q], multi_head(multi_head_of(part), exact(x[b, q]), past)[0], atol=1e-5)


def test_queries_with_one_past_in_common_find_the_same_apart_and_together():
    part, values = built(MultiHead(U, HEADS, D)), normal(B, P, D, seed=3)
    x, mask = normal(B, 4, U), tf.sequence_mask([5, 2], P)[:, tf.newaxis]
    together, _ = part.attend(x, *part.pairs(values), mask)
    keys, contents = (
        tf.repeat(half[:, tf.newaxis], 4, axis=1) for half in tf.split(values @ part.pair_kernel.value, 2, -1)
    )
    apart = part.attend_apart(x, keys, contents, tf.repeat(mask, 4, axis=1))
    np.testing.assert_allclose(apart, together, atol=1e-5)


# Layers


def test_a_layer_is_the_paper_s():
    layer = built(SelfAttentionLayer(U, HEADS))
    weights, x, lengths = self_attention_layer_of(layer), normal(B, P, U), [P, 3]
    found = layer.over_all(x, tf.sequence_mask(lengths, P)[:, tf.newaxis], None)
    for b, length in enumerate(lengths):
        normed = [layer_norm(weights.norms[0], exact(x[b, p])) for p in range(length)]
        for p in range(length):
            wanted = feed_forward(weights, exact(x[b, p]) + multi_head(weights.own, normed[p], normed)[0])
            np.testing.assert_allclose(found[b, p], wanted, atol=1e-5)


def test_a_layer_over_a_source_is_the_paper_s():
    layer = built(SelfAttentionLayer(U, HEADS, memory_size=D))
    weights, x, memory, lengths = self_attention_layer_of(layer), normal(B, 4, U), normal(B, P, D, seed=3), [P, 3]
    found, alignment = layer.over_source(x, layer.source.pairs(memory), tf.sequence_mask(lengths, P), None)
    for b, length in enumerate(lengths):
        for q in range(4):
            query = layer_norm(weights.norms[1], exact(x[b, q]))
            wanted, wanted_weights = multi_head(weights.source, query, exact(memory[b, :length]))
            np.testing.assert_allclose(found[b, q], exact(x[b, q]) + wanted, atol=1e-5)
            np.testing.assert_allclose(alignment[b, q, :length], wanted_weights, atol=1e-6)
            assert not np.any(alignment[b, q, length:])


def test_every_sublayer_of_a_layer_drops_what_it_adds_with_a_mask_of_its_own(monkeypatch):
    dropped = []

    def spy(x, rate, randomness, site):
        dropped.append((rate, site))
        return x * 0.0

    monkeypatch.setattr(nmt_keras.layers.self_attention, "dropout", spy)
    layer, x, randomness = (
        built(SelfAttentionLayer(U, HEADS, dropout=0.25, memory_size=D)),
        normal(B, 4, U),
        Randomness(tf.constant(1), tf.constant(1)),
    )
    everything = tf.ones([B, 1, 4], tf.bool)
    np.testing.assert_array_equal(layer.over_all(x, everything, randomness), x)
    found, _ = layer.over_source(x, layer.source.pairs(normal(B, 4, D)), everything[:, 0], randomness)
    np.testing.assert_array_equal(found, x)
    assert [rate for rate, _ in dropped] == [0.25] * 3
    assert len({site for _, site in dropped}) == 3


# The encoder against the paper


@pytest.mark.parametrize("embedding_size", [E, U], ids=["brought to the width", "of the width"])
def test_annotations_are_the_paper_s(embedding_size):
    encoder = make(embedding_size=embedding_size)
    assert hasattr(encoder, "entry") == (embedding_size != U)
    encoding = encoder(*padded(SENTENCES, 7))
    for b, sentence in enumerate(SENTENCES):
        wanted = self_encode(self_attention_encoder_of(encoder), sentence)
        np.testing.assert_allclose(encoding.values[b, : len(sentence)], wanted, atol=2e-5)


def test_the_gradient_is_the_slope_of_the_reference(dtype_policy):
    """Central differences, in float64, along a random direction of each variable; softmax and norms are in float32."""
    dtype_policy("float64")
    encoder, random, h = make(), np.random.default_rng(4), 1e-5
    of_values = random.normal(size=(4, 7, U))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(encoder(*padded(SENTENCES, 7)).values * of_values)
    gradients = tape.gradient(total, [variable.value for variable in encoder.trainable_variables])

    def reference_total():
        weights = self_attention_encoder_of(encoder)
        return sum(
            np.sum(exact(self_encode(weights, sentence)) * of_values[b, : len(sentence)])
            for b, sentence in enumerate(SENTENCES)
        )

    for variable, gradient in zip(encoder.trainable_variables, gradients, strict=True):
        origin, direction = variable.numpy(), random.normal(size=variable.shape)
        ends = []
        for move in (h, -h):
            variable.assign(origin + move * direction)
            ends.append(reference_total())
        variable.assign(origin)
        slope = (ends[0] - ends[1]) / (2.0 * h)
        found = np.sum(tf.convert_to_tensor(gradient) * direction)
        assert found == pytest.approx(slope, rel=1e-4, abs=1e-4), variable.path


# Laws


def test_the_encoding_tells_mask_and_lengths_and_has_no_last_states():
    ids, mask = padded(SENTENCES, 7)
    encoding = make()(ids, mask)
    np.testing.assert_array_equal(encoding.mask, mask)
    assert encoding.lengths.numpy().tolist() == LENGTHS
    assert encoding.states == encoding.summary == ()


def test_annotations_are_0_at_padding():
    encoding = make()(*padded(SENTENCES, 7))
    for b, length in enumerate(LENGTHS):
        assert not encoding.values[b, length:].numpy().any()
        assert encoding.values[b, :length].numpy().all()


def test_padding_and_batch_mates_change_no_annotation():
    encoder = make()
    together = encoder(*padded(SENTENCES, 11))
    for b, sentence in enumerate(SENTENCES):
        alone = encoder(*padded([sentence], len(sentence)))
        np.testing.assert_allclose(together.values[b, : len(sentence)], alone.values[0], atol=1e-5)


def test_what_stands_at_padding_is_not_seen():
    encoder = make()
    with_pad, with_words = encoder(*padded(SENTENCES, 7)), encoder(*padded(SENTENCES, 7, filler=11))
    np.testing.assert_array_equal(with_words.values, with_pad.values)


def test_every_position_sees_every_other_and_where_it_stands():
    encoder = make(layers=1)
    values = encoder(*padded([[4, 5, 6, 7, END], [4, 5, 6, 9, END], [5, 4, 6, 7, END]], 5)).values
    assert np.abs(values[0] - values[1]).max(axis=1).min() > 1e-3, "another fourth word changes all five annotations"
    assert np.abs(values[0] - values[2]).max(axis=1).min() > 1e-3, "so does another order of the first two"


def test_a_graph_of_unknown_shapes_gives_what_eager_gives():
    encoder = make()
    shapes = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None], tf.bool)]
    batch = padded(SENTENCES, 7)
    found = tf.function(encoder.call, shapes, autograph=False)(*batch)
    np.testing.assert_allclose(found.values, encoder(*batch).values, atol=1e-5)


def test_in_mixed_precision_weights_are_single_and_annotations_half_and_near(dtype_policy):
    batch = padded(SENTENCES, 7)
    wanted = make()(*batch)
    dtype_policy("mixed_bfloat16")
    encoder = make()
    found = encoder(*batch)
    assert {variable.dtype for variable in encoder.trainable_variables} == {"float32"}
    assert found.values.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(found.values, tf.float32), wanted.values, atol=0.1)


def test_an_encoder_without_dropout_ignores_noise_and_one_with_it_does_not():
    batch, randomness = padded(SENTENCES, 5), Randomness(tf.constant(1), tf.constant(1))
    calm, wild = make(), make(dropout=0.5)
    np.testing.assert_array_equal(calm(*batch, randomness).values, calm(*batch).values)
    np.testing.assert_array_equal(wild(*batch).values, calm(*batch).values)
    assert np.abs(wild(*batch, randomness).values - calm(*batch).values).max() > 0.01


def test_dropout_is_on_what_enters_and_in_each_sublayer_never_twice_with_one_mask(monkeypatch):
    sites = []

    def spy(x, rate, randomness, site):
        sites.append(site)
        return x

    for module in (nmt_keras.models.encoder, nmt_keras.layers.self_attention):
        monkeypatch.setattr(module, "dropout", spy)
    make(dropout=0.25)(*padded(SENTENCES, 5), Randomness(tf.constant(1), tf.constant(1)))
    assert len(sites) == len(set(sites)) == 1 + 2 * 2


# As a Keras layer


def test_an_encoder_comes_back_from_its_configuration():
    encoder = make(dropout=0.25)
    config = encoder.get_config()
    copy = SelfAttentionEncoder.from_config(config)
    copy.build()
    assert copy.get_config() == config
    copy.set_weights(encoder.get_weights())
    batch = padded(SENTENCES, 5)
    np.testing.assert_array_equal(copy(*batch).values, encoder(*batch).values)
