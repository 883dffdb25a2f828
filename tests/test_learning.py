"""Small models learn to copy and to reverse, and look where each letter comes from. Each takes a minute or two."""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.model import build_model
from nmt_keras.search import greedy
from nmt_keras.training import Updater

PAD, END = 0, 3
LETTERS = range(4, 20)
TESTED = 500


class Task(NamedTuple):
    """Strings of letters, and the same in the order asked for."""

    shortest: int
    longest: int
    order: int  # 1 to copy, -1 to reverse

    def draw(self, random, count):
        """Pairs whose two sides end in END."""
        source = np.full([count, self.longest + 1], PAD, np.int32)
        target = source.copy()
        for row, n in enumerate(random.integers(self.shortest, self.longest + 1, count)):
            letters = random.choice(LETTERS, n)
            source[row, : n + 1] = [*letters, END]
            target[row, : n + 1] = [*letters[:: self.order], END]
        return Batch(source, target, count)


COPY, REVERSE = Task(3, 12, 1), Task(3, 12, -1)


class Score(NamedTuple):
    exact: float  # share of sentences that are right to the letter
    seen: float  # share of letters whose alignment is largest on the letter they come from


def learn(config, task, steps, rate=4e-3):
    """Trains a model on fresh pairs, and scores its greedy translations of others."""
    keras.utils.set_random_seed(1)
    model = build_model(config, LETTERS.stop, LETTERS.stop)
    updater = Updater(
        model, TrainConfig(steps=steps, minutes=None, learning_rate=rate, warmup_steps=100, label_smoothing=0.0)
    )
    random = np.random.default_rng(1)
    for step in range(steps):
        updater(task.draw(random, 64), step, steps)
    return score(model, task)


def score(model, task):
    source, target, *_ = task.draw(np.random.default_rng(2), TESTED)
    encoding = model.encoder(tf.constant(source), tf.constant(source != PAD))
    memory = model.decoder.remember(encoding)
    limits = tf.fill([TESTED], task.longest + 2)
    found = tf.function(greedy, autograph=False)(model.decoder.step, model.decoder.start(memory), memory, limits)
    ids, alignments = found.ids[:, 0].numpy(), found.alignments[:, 0].numpy()
    exact, letters, seen = 0, 0, 0
    for row, wanted in enumerate(target):
        n = int((wanted != PAD).sum()) - 1  # letters
        exact += ids[row, : n + 1].tolist() == wanted[: n + 1].tolist()
        looked = alignments[row, :n].argmax(axis=-1)
        letters += n
        seen += int((looked == np.arange(n)[:: task.order][: len(looked)]).sum())
    return Score(exact / TESTED, seen / letters)


def bahdanau(**attention):
    return ModelConfig(
        embedding_size=32,
        encoder=EncoderConfig(units=48),
        attention=AttentionConfig(**{"units": 48, **attention}),
        decoder=DecoderConfig(units=96, readout_units=48),
        dropout=0.0,
    )


def luong(**attention):
    """Updates, then attends; behind a bidirectional encoder, so that an annotation knows its surroundings."""
    return ModelConfig(
        embedding_size=32,
        encoder=EncoderConfig(units=48, cell="lstm"),
        attention=AttentionConfig(**{"units": 48, **attention}),
        decoder=DecoderConfig(
            "update-then-attend",
            "lstm",
            96,
            start="both",
            readout="attentional",
            readout_units=64,
            feeds_attention=True,
        ),
        dropout=0.0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("task", [COPY, REVERSE], ids=["copy", "reverse"])
@pytest.mark.parametrize("kind", ["additive", "dot", "general", "concat"])
@pytest.mark.parametrize("order", [bahdanau, luong])
def test_content_attention_learns_to_order_letters_and_where_each_comes_from(order, kind, task):
    rate = 8e-3 if (order, kind) == (luong, "dot") else 4e-3  # no matrix between states and annotations: both must move
    found = learn(order(kind=kind), task, 1200, rate)
    assert found.exact >= 0.99
    assert found.seen >= 0.95


@pytest.mark.slow
def test_local_m_learns_to_copy_for_it_looks_around_the_target_s_own_position():
    found = learn(luong(kind="general", span="local-m", window=2), COPY, 1200)
    assert found.exact >= 0.99
    assert found.seen >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1], ids=["copy", "reverse"])
def test_location_learns_where_letters_stand_in_strings_of_one_length(order):
    found = learn(luong(kind="location", max_source_positions=9), Task(8, 8, order), 1200)
    assert found.exact >= 0.99
    assert found.seen >= 0.95


LECTURE_FED = ModelConfig(
    embedding_size=32,
    encoder=EncoderConfig(units=96, direction="forward", cell="tanh"),
    attention=AttentionConfig("fixed"),
    decoder=DecoderConfig("attend-then-update", "tanh", 96, start="last", readout="state", readout_state="current"),
    dropout=0.0,
)
RNNENCDEC = ModelConfig(
    embedding_size=32,
    encoder=EncoderConfig(units=96, direction="forward"),
    attention=AttentionConfig("fixed"),
    decoder=DecoderConfig(units=96, start="forward", readout_units=48),
    dropout=0.0,
)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1], ids=["copy", "reverse"])
@pytest.mark.parametrize(("config", "rate"), [(RNNENCDEC, 4e-3), (LECTURE_FED, 2e-3)], ids=["rnnencdec", "lecture-fed"])
def test_one_vector_for_a_sentence_is_enough_for_short_strings(config, rate, order):
    assert learn(config, Task(1, 4, order), 2500, rate).exact >= 0.9
