"""Guided alignment: links between words become links between tokens, and attention learns to follow them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tiny import TINY_RECIPE, TINY_TEXT

from nmt_keras.config import AttentionConfig, TrainConfig
from nmt_keras.corpus import Pair, SplitCorpus
from nmt_keras.corpus.alignments import alignment_of, from_pharaoh, token_links, words_of_tokens
from nmt_keras.corpus.encoding import batch_pairs
from nmt_keras.layers.losses import guided_alignment
from nmt_keras.runs import Run
from nmt_keras.text import fit_tokenizer, normalise_lines
from nmt_keras.training import batch_loss, read_log


@pytest.mark.parametrize(
    ("sentence", "surfaces", "words"),
    [
        ("¿Está en casa?", ["¿", "Está", "en", "casa", "?", ""], [0, 0, 1, 2, 2, -1]),  # tokens of a word tokenizer
        ("¿Está en casa?", ["▁¿", "E", "stá", "▁en", "▁ca", "sa?", ""], [0, 0, 0, 1, 2, 2, -1]),
        ("a a  a", ["▁a", "▁a", "▁", "▁a", ""], [0, 1, -1, 2, -1]),
        ("uno dos tres", ["uno", "dos", ""], [0, 1, -1]),  # the last word was cut off
        ("El Año", ["El", "Año", ""], [0, 1, -1]),
        ("", [""], [-1]),
    ],
)
def test_a_token_belongs_to_the_word_it_stands_in(sentence, surfaces, words):
    assert words_of_tokens(sentence, surfaces, sentence) == words


def test_only_spaces_and_tabs_separate_the_words_of_alignment_files():
    written = "10\xa0km\u202fa\u2009b \u200b c\td\u3000 \u200d e"
    assert from_pharaoh("5-0", "line", (written, "a\xa0b")).sure == {(5, 0)}
    (normalised,) = normalise_lines([written])
    assert words_of_tokens(normalised, ["10", "km", "a", "b", "c", "d", "e", ""], written) == [0, 0, 0, 0, 2, 3, 5, -1]
    with pytest.raises(ValueError, match="between 6 source and 1 target words"):
        from_pharaoh("0-1", "line", (written, "a\xa0b"))


def test_links_between_words_are_links_between_all_their_tokens():
    found = token_links([(0, 1), (2, 0), (9, 0)], [0, 0, 1, 2, -1], [0, 1, 1, -1])
    assert found.tolist() == [[0, 1], [0, 2], [1, 1], [1, 2], [3, 0]]
    assert token_links([], [0], [0]).shape == (0, 2)


def test_a_target_token_should_look_evenly_at_its_links_and_nowhere_without():
    links = [np.array([[0, 1], [2, 1], [1, 0]]), np.zeros([0, 2], int)]
    wanted = alignment_of(links, 3, 3, 4)
    assert wanted[0].tolist() == [[0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.0] * 4]
    assert not wanted[1:].any()


def test_a_pair_keeps_its_links_if_the_one_before_it_is_skipped():
    text = fit_tokenizer(TINY_TEXT, ["a , b"])
    pairs = [Pair("a b a b", "a b a b"), Pair("a, b", "a, b")]  # 5 and 4 tokens with END
    train = TrainConfig(max_tokens=4, batch_size=1, length_buckets=1)
    batches = batch_pairs(pairs, (text, text), train, lambda _: None, ["0-0", "1-1"])
    (batch,) = batches.epoch(0)
    assert np.argwhere(batch.alignment[0]).tolist() == [[2, 2]]


def test_the_alignment_loss_by_hand():
    """Two rows have links. The second gives its link half of the weight. The third row has no link and no loss."""
    alignment = tf.constant([[[1.0, 0.0], [0.5, 0.5], [0.9, 0.1]]])
    wanted = tf.constant([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    assert float(guided_alignment(alignment, wanted)) == pytest.approx(math.log(2.0))


def test_a_link_outside_the_window_of_a_local_attention_adds_nothing():
    alignment = tf.Variable([[[0.75, 0.25, 0.0]]])
    with tf.GradientTape() as tape:
        loss = guided_alignment(alignment, tf.constant([[[0.5, 0.0, 0.5]]]))
    assert float(loss) == pytest.approx(-0.5 * math.log(0.75))
    assert tape.gradient(loss, alignment).numpy().tolist() == [[[pytest.approx(-0.5 / 0.75), 0.0, 0.0]]]


@pytest.mark.parametrize("weight", [1.2e-38, 1.1e-38, 1e-45])
def test_the_gradient_of_a_link_that_attention_hardly_sees_is_finite(weight):
    alignment = tf.Variable([[[1.0, weight]]])
    with tf.GradientTape() as tape:
        loss = guided_alignment(alignment, tf.constant([[[0.0, 1.0]]]))
    assert np.isfinite(tape.gradient(loss, alignment)).all()


def test_the_alignment_loss_is_added_with_its_weight_and_only_to_what_is_differentiated(model):
    source, target = tf.constant([[5, 6, 3]]), tf.constant([[7, 3]])
    wanted = tf.constant([[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    alone = batch_loss(model, source, target, 0.1)
    guided = batch_loss(model, source, target, 0.1, alignment=wanted, guided_weight=0.5)
    attention = model((source, tf.constant([[2, 7]]))).alignment
    assert float(guided.total - alone.total) == pytest.approx(-0.5 * math.log(float(attention[0, 0, 1])), rel=1e-4)
    assert float(guided.cross_entropy) == float(alone.cross_entropy)


@pytest.mark.long
def test_attention_learns_to_follow_the_links_of_a_run(pairs, tmp_path):
    """Without label smoothing, the rest of the loss is that of the alignments."""
    first = ["0-" + " 0-".join(map(str, range(len(pair.target.split())))) for pair in pairs[:32]]
    corpus = SplitCorpus("sample", pairs[:32], pairs[32:40], pairs[100:], alignments=first)
    train = replace(TINY_RECIPE.train, batch_size=32, learning_rate=0.05, label_smoothing=0.0)
    Run(tmp_path, replace(TINY_RECIPE, train=train)).train(corpus, lambda _: None, lambda *_: None)
    losses = [row["loss"] - row["cross_entropy"] for row in read_log(tmp_path / "log.jsonl") if "loss" in row]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("lines", "part", "fields", "message"),
    [
        (1, "train", {}, r"alignments: .*32 training pairs, received 1"),
        (32, "model", {"attention": AttentionConfig("fixed")}, r"AttentionConfig\.kind: expected .* received 'fixed'"),
        (32, "train", {"precision": "mixed_float16"}, r"TrainConfig\.precision: expected another"),
    ],
)
def test_what_cannot_learn_from_alignments_is_refused(pairs, tmp_path, lines, part, fields, message):
    corpus = SplitCorpus("sample", pairs[:32], pairs[32:40], pairs[100:], alignments=["0-0"] * lines)
    recipe = replace(TINY_RECIPE, **{part: replace(getattr(TINY_RECIPE, part), **fields)})
    with pytest.raises(ValueError, match=message):
        Run(tmp_path, recipe).train(corpus, print, print)
    assert not (tmp_path / "recipe.json").exists()
