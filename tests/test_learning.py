"""A small model learns to copy and to reverse, and looks where each letter comes from."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import ModelConfig, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.model import build_model
from nmt_keras.search import greedy
from nmt_keras.training import Updater

PAD, END = 0, 3
LETTERS = range(4, 20)
SHORTEST, LONGEST = 3, 12
STEPS = 1200


def draw(random, count, order):
    """Strings of letters, and the same in the order asked for; both end in END."""
    source = np.full([count, LONGEST + 1], PAD, np.int32)
    target = source.copy()
    for row, n in enumerate(random.integers(SHORTEST, LONGEST + 1, count)):
        letters = random.choice(LETTERS, n)
        source[row, : n + 1] = [*letters, END]
        target[row, : n + 1] = [*letters[::order], END]
    return Batch(source, target, count)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1], ids=["copy", "reverse"])
def test_a_small_model_learns_to_order_letters_and_where_each_comes_from(order):
    keras.utils.set_random_seed(1)
    sizes = ModelConfig(
        embedding_size=32, encoder_units=48, decoder_units=96, attention_units=48, readout_units=48, dropout=0.0
    )
    model = build_model(sizes, LETTERS.stop, LETTERS.stop)
    updater = Updater(
        model, TrainConfig(steps=STEPS, minutes=None, learning_rate=4e-3, warmup_steps=100, label_smoothing=0.0)
    )
    random = np.random.default_rng(1)
    for step in range(STEPS):
        updater(draw(random, 64, order), step, STEPS)

    source, target, _ = draw(np.random.default_rng(2), 500, order)
    encoding = model.encoder(tf.constant(source), tf.constant(source != PAD))
    memory = model.decoder.remember(encoding)
    limits = tf.fill([500], LONGEST + 2)
    found = tf.function(greedy, autograph=False)(model.decoder.step, model.decoder.start(memory), memory, limits)
    ids, alignments = found.ids[:, 0].numpy(), found.alignments[:, 0].numpy()

    exact, letters, seen = 0, 0, 0
    for row, wanted in enumerate(target):
        n = int((wanted != PAD).sum()) - 1  # letters
        exact += ids[row, : n + 1].tolist() == wanted[: n + 1].tolist()
        looked = alignments[row, :n].argmax(axis=-1)
        letters += n
        seen += int((looked == np.arange(n)[::order][: len(looked)]).sum())
    assert exact >= 0.99 * 500
    assert seen >= 0.95 * letters
