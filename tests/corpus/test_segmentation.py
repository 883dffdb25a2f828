"""Subword regularisation: each epoch draws other pieces of the same sentences, and a resumed run draws the same."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import END, Recipe, TokenizerConfig, TrainConfig
from nmt_keras.corpus import Pair, regularisation
from nmt_keras.corpus.augmentation import Augmentation
from nmt_keras.corpus.batches import Batches, Position, choose_buckets
from nmt_keras.corpus.encoding import encode_pairs
from nmt_keras.corpus.regularisation import SampledBatches, Segmenter
from nmt_keras.text import Codec, SubwordTokenizer, fit_tokenizer


@pytest.fixture(scope="module")
def lines(pairs):
    return [pair.source for pair in pairs[:40]]


@pytest.fixture(scope="module")
def text(pairs):
    return fit_tokenizer(TokenizerConfig("subword", 380), [pair.source for pair in pairs])


def batches_of(text, lines, alpha=0.2, share=0.0, rows=(8, 8), pool_size=100):
    pairs = [Pair(line, line) for line in lines]
    ids, _, _ = encode_pairs(Codec(text, text), pairs)
    buckets = choose_buckets(ids.lengths + 3, ids.lengths + 3, 2)
    batches = Batches(
        ids, ids, batch_size=dict(zip(buckets, rows, strict=True)), buckets=buckets, pool_size=pool_size, seed=1
    )
    segmenters = Segmenter(text, alpha, 16), None
    return SampledBatches(batches, pairs, Codec(text, text), Augmentation(share, pairs), segmenters)


def test_the_best_segmentation_is_the_text_s_and_each_spells_the_sentence(text, lines):
    assert isinstance(text, SubwordTokenizer)
    for line in [*lines[:5], "", "año 😀 nuevo"]:
        found, log_probs = text.segmentations(line, 7)
        assert found[0] == text.encode(tf.constant([line])).ids.numpy()[0].tolist()
        assert list(log_probs) == sorted(log_probs, reverse=True)
        assert len({tuple(ids) for ids in found}) == len(found)
        spelt = text.decode(tf.ragged.constant(found).to_tensor()).numpy()
        assert {sentence.decode() for sentence in spelt} == {line}


class Halves:
    """A tokenizer with two segmentations, one twice as probable as the other."""

    def segmentations(self, line, count):
        return [[10, END], [11, 12, END]], np.log([2.0 / 3.0, 1.0 / 3.0])


@pytest.mark.parametrize(("alpha", "share"), [(0.0, 1 / 2), (1.0, 2 / 3), (2.0, 4 / 5)])
def test_segmentations_are_drawn_in_proportion_to_a_power_of_their_probability(alpha, share):
    segmenter, random = Segmenter(Halves(), alpha, 2), np.random.default_rng(1)
    counts = Counter(len(segmenter.draw("", random)) for _ in range(4000))
    assert counts[2] / 4000 == pytest.approx(share, abs=0.03)


def test_every_epoch_cuts_the_same_sentences_into_other_pieces_on_the_side_that_is_drawn(text, lines):
    batches = batches_of(text, lines)
    epochs = [list(islice(batches.iterate(Position(epoch, 0, 0)), len(batches))) for epoch in (0, 1)]
    spelt = []
    for epoch in epochs:
        rows = [row for _, batch in epoch for row in batch.source[: batch.pairs].tolist()]
        spelt.append({text.decode(tf.constant([row])).numpy()[0].decode(): tuple(row) for row in rows})
    assert set(spelt[0]) == set(spelt[1]) == set(lines)
    assert sum(spelt[0][line][:6] != spelt[1][line][:6] for line in set(lines)) > 5
    for _, batch in epochs[0]:
        for row in batch.target[: batch.pairs].tolist():
            assert row[: row.index(END) + 1] == text.encode(text.decode(tf.constant([row]))).ids.numpy()[0].tolist()


@pytest.mark.parametrize("rows", [(8, 8), (8, 4)])
def test_what_is_drawn_does_not_depend_on_where_the_epoch_is_entered(text, lines, rows, monkeypatch):
    batches = batches_of(text, lines, share=0.5, rows=rows, pool_size=16)
    whole = list(islice(batches.iterate(Position(1, 0, 0)), 2 * len(batches)))
    assert len({place.pool for place, _ in whole}) > 2
    monkeypatch.setattr(regularisation, "PAIRS_AT_ONCE", 7)
    rows_of = {bucket.target: size for bucket, size in batches.batches.rows.items()}
    for wanted_place, wanted in whole:
        place, batch = next(batches.iterate(wanted_place))
        assert place == wanted_place
        np.testing.assert_array_equal(batch.source, wanted.source)
        assert batch.target.shape[0] == rows_of[batch.target.shape[1]]


def test_words_are_not_cut():
    word = TokenizerConfig("word")
    with pytest.raises(ValueError, match=r"TrainConfig\.segmentation_alpha: expected None.* 0\.1"):
        Recipe("words", source=word, target=word, train=TrainConfig(segmentation_alpha=0.1))
