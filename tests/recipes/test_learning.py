"""Small models learn to copy and to reverse, and align letters with their origins. Each takes a minute or two."""

from dataclasses import replace
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import END, PAD, AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, TrainConfig
from nmt_keras.corpus.batches import Batch
from nmt_keras.models.seq2seq import build_model
from nmt_keras.recipes import find_recipe
from nmt_keras.search import SearchInputs, beam_search
from nmt_keras.training import Updater
from nmt_keras.training.schedules import learning_rate

LETTERS = range(4, 20)
TESTED = 500


class Task(NamedTuple):
    """A task: to write the letters of a string in the order ``order``."""

    shortest: int
    longest: int
    order: int  # 1 to copy, -1 to reverse

    def draw(self, random, count):
        """Returns random pairs. Both sides end in END."""
        source = np.full([count, self.longest + 1], PAD, np.int32)
        target = source.copy()
        for row, n in enumerate(random.integers(self.shortest, self.longest + 1, count)):
            letters = random.choice(LETTERS, n)
            source[row, : n + 1] = [*letters, END]
            target[row, : n + 1] = [*letters[:: self.order], END]
        return Batch(source, target, count)


COPY, REVERSE = Task(3, 12, 1), Task(3, 12, -1)


class Score(NamedTuple):
    exact: float  # share of sentences that are entirely right
    seen: float  # share of letters with the largest alignment weight on their source letter
    seen_after_first: float  # the same for all letters but the first of each sentence


def learn(config, task, steps, rate=4e-3, seed=1):
    """Trains a model on new pairs in each step, and scores its greedy translations of other pairs."""
    keras.utils.set_random_seed(seed)
    model = build_model(config, LETTERS.stop, LETTERS.stop)
    updater = Updater(
        model, TrainConfig(steps=steps, minutes=None, learning_rate=rate, warmup_steps=100, label_smoothing=0.0)
    )
    random = np.random.default_rng(1)
    for step in range(steps):
        updater.train_step([task.draw(random, 64)], step, learning_rate(updater.config, step, steps))
    return score(model, task)


def score(model, task):
    source, target, *_ = task.draw(np.random.default_rng(2), TESTED)

    @tf.function(autograph=False)
    def translated():
        memory, max_lengths = model.encode(tf.constant(source)), tf.fill([TESTED], task.longest + 2)
        return beam_search(model.step, model.initial_state(memory), SearchInputs(memory, memory.mask, max_lengths))

    found = translated()
    ids, alignments = found.ids[:, 0].numpy(), found.alignments[:, 0].numpy()
    exact, letters, seen, seen_first = 0, 0, 0, 0
    for row, wanted in enumerate(target):
        n = int((wanted != PAD).sum()) - 1  # letters
        exact += ids[row, : n + 1].tolist() == wanted[: n + 1].tolist()
        looked = alignments[row, :n].argmax(axis=-1)
        right = looked == np.arange(n)[:: task.order][: len(looked)]
        letters, seen, seen_first = letters + n, seen + int(right.sum()), seen_first + int(right[0])
    return Score(exact / TESTED, seen / letters, (seen - seen_first) / (letters - TESTED))


def bahdanau(**attention):
    return ModelConfig(
        embedding_size=32,
        encoder=EncoderConfig(units=48),
        attention=AttentionConfig(**{"units": 48, **attention}),
        decoder=DecoderConfig(units=96, output_units=48),
        dropout=0.0,
    )


def luong(**attention):
    """Returns a model with Luong's order and a bidirectional encoder, so that annotations depend on their context."""
    return ModelConfig(
        embedding_size=32,
        encoder=EncoderConfig(units=48, cell="lstm"),
        attention=AttentionConfig(**{"units": 48, **attention}),
        decoder=DecoderConfig(
            "update-then-attend",
            "lstm",
            96,
            initial_state="both",
            output="attentional",
            output_units=64,
            input_feeding=True,
        ),
        dropout=0.0,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["additive", "dot", "general", "concat"])
@pytest.mark.parametrize("order", [bahdanau, luong])
def test_content_attention_learns_to_reverse_letters_and_where_each_comes_from(order, kind):
    # a dot score has no matrix between states and annotations, so both must change
    rate = 8e-3 if (order, kind) == (luong, "dot") else 4e-3
    found = learn(order(kind=kind), REVERSE, 1200, rate)
    assert found.exact >= 0.99
    assert found.seen >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attention", "task", "seed"),
    [
        # the window is centred at the target's position
        ({"kind": "general", "span": "local-m", "window": 2}, COPY, 1),
        # local-p saturates from some initial weights
        ({"kind": "general", "span": "local-p", "window": 3}, REVERSE, 1),
        ({"kind": "general", "span": "local-p", "window": 3, "position_logit": "sum"}, REVERSE, 2),
        ({"kind": "location", "max_source_positions": 9}, Task(8, 8, -1), 1),
    ],
)
def test_local_and_location_attention_learn_positions(attention, task, seed):
    found = learn(luong(**attention), task, 1200, seed=seed)
    assert found.exact >= 0.99
    # the first letter is in the initial state, which holds the backward encoder's state after it
    assert found.seen_after_first >= 0.95


def of_recipe(name, width):
    """Returns a small version of a paper's model.

    It is narrow, has at most two layers, and starts from weights with which it learns in minutes.
    """
    model = find_recipe(name).model.scaled(width)
    encoder, decoder = (replace(part, layers=min(2, part.layers)) for part in (model.encoder, model.decoder))
    return replace(model, encoder=encoder, decoder=decoder, dropout=0.0, initializer="glorot")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "task", "steps", "rate", "exact"),
    [
        ("rnnsearch-50", 0.096, REVERSE, 1500, 4e-3, 0.99),
        ("conditional-gru", 0.375, REVERSE, 1500, 4e-3, 0.99),
        ("tutorial", 0.094, REVERSE, 1500, 4e-3, 0.99),
        ("luong-general", 0.096, REVERSE, 2500, 4e-3, 0.99),
        ("luong-local-m", 0.096, COPY, 2500, 4e-3, 0.99),
        ("self-attention", 0.25, REVERSE, 1500, 2e-3, 0.99),  # knows the order only from the encoded positions
        # one vector for a sentence is enough for short strings
        ("rnnencdec-50", 0.096, Task(1, 4, -1), 2500, 4e-3, 0.9),
        *(
            (f"lecture-{name}", 0.2, Task(1, 4, -1), 2500, 2e-3, 0.9)
            for name in ("separate", "fed", "deep", "bidirectional", "reversed")
        ),
    ],
)
def test_a_recipe_learns_its_task(name, width, task, steps, rate, exact):
    found = learn(of_recipe(name, width), task, steps, rate)
    assert found.exact >= exact
    assert found.seen >= 0.95 or name not in ("rnnsearch-50", "conditional-gru", "tutorial", "luong-general")
