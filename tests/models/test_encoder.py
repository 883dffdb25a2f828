"""Recurrent encoders against the papers' equations, sentence by sentence."""

import numpy as np
import pytest
import tensorflow as tf
from reference import encode, output_of, read, recurrent_encoder_of
from tensors import assert_same, padded
from tiny import randomise

import nmt_keras.models.encoder
from nmt_keras.layers.cells import CELLS
from nmt_keras.layers.dropout import Randomness
from nmt_keras.layers.memory import last_states
from nmt_keras.models.encoder import Encoder, SelfAttentionEncoder

END = 3
SENTENCES = [[4, 5, 6, 7, END], [END], [8, 9, END], [18, END]]
V, E, U = 19, 5, 7

KINDS = {
    "rnnsearch": {},
    "tanh forward": {"cell": "tanh", "direction": "forward"},
    "lstm backward, three layers": {"cell": "lstm", "direction": "backward", "num_layers": 3},
    "lstm forward, three layers": {"cell": "lstm", "direction": "forward", "num_layers": 3},
    "gru-reset-after": {"cell": "gru-reset-after"},
    "deep, word projection": {"num_layers": 2, "word_projection": True},
    "lstm, both, word projection": {"cell": "lstm", "num_layers": 2, "word_projection": True},
}


def make(seed=5, **fields):
    encoder = Encoder(vocabulary_size=V, embedding_size=E, units=U, **fields)
    encoder.build()
    randomise(encoder, seed)
    return encoder


def at(nest, b):
    return tf.nest.map_structure(lambda x: None if x is None else x[b], nest)


# Against the papers


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS.keys())
def test_annotations_and_last_states_are_those_of_the_papers(fields):
    encoder = make(**fields)
    weights, encoding = recurrent_encoder_of(encoder), encoder(*padded(SENTENCES, 7))
    shapes = encoder.encoding_shape((4, 7))
    assert encoding.values.shape == shapes.values == (4, 7, encoder.annotation_size)
    assert len(encoding.states) == len(shapes.states) == encoder.num_layers
    for b, sentence in enumerate(SENTENCES):
        wanted = encode(weights, sentence)
        np.testing.assert_allclose(encoding.values[b, : len(sentence)], wanted.h, atol=1e-5)
        assert not np.any(encoding.values[b, len(sentence) :])
        for states, forward, backward in zip(encoding.states, wanted.forward, wanted.backward, strict=True):
            for found, ends in ((states.forward, forward), (states.backward, backward)):
                assert_same(at(found, b), () if ends is None else ends)


# Results


def test_a_self_attention_encoder_that_was_not_called_has_the_weights_of_its_heads():
    ids = tf.constant([[5, 6, 3], [7, 3, 0]])
    assert SelfAttentionEncoder(19, 4, 8, heads=2, num_layers=3).head_weights(ids).shape == (2, 3, 2, 3, 3)


def test_a_direction_that_the_encoder_lacks_is_an_error():
    with pytest.raises(ValueError, match="source: expected directions that the encoder has, received 'both'"):
        last_states(make(direction="forward")(*padded(SENTENCES, 7)).states, "both")


# Dropout


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_dropout_masks_what_reads_the_state_alike_at_all_positions(cell, monkeypatch):
    masks, draw = [], nmt_keras.models.encoder.draw_dropout_mask

    def spy(*arguments):
        masks.append(draw(*arguments))
        return masks[-1]

    monkeypatch.setattr(nmt_keras.models.encoder, "draw_dropout_mask", spy)
    encoder = make(cell=cell, recurrent_dropout=0.5)
    encoding = encoder(*padded(SENTENCES, 7), randomness=Randomness(1, 1))
    forward, backward = masks
    assert forward.shape == backward.shape == (4, 1, U)
    assert np.any(forward != backward)
    weights = recurrent_encoder_of(encoder)
    ((forward_cell, backward_cell),) = weights.layers
    for b, sentence in enumerate(SENTENCES):
        xs = [weights.embedding[token] for token in sentence]
        one = [output_of(forward_cell, s) for s in read(forward_cell, xs, forward[b, 0].numpy())]
        other = [output_of(backward_cell, s) for s in read(backward_cell, xs[::-1], backward[b, 0].numpy())]
        wanted = np.concatenate([one, other[::-1]], axis=1)
        np.testing.assert_allclose(encoding.values[b, : len(sentence)], wanted, atol=1e-5)
