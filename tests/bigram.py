"""A model of two matrices, which is traced quickly, and runs of the training loop with it."""

import os
import signal
from collections import namedtuple
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from nmt_keras.config import RunOptions, TrainConfig
from nmt_keras.corpus.batches import Batches, TokenLists, choose_buckets
from nmt_keras.layers.dropout import dropout
from nmt_keras.training import Checkpoints, Interrupted, Trainer, Updater, checkpoints_in
from nmt_keras.training.checkpoints import STATE

PAD, END = 0, 3
V, STEPS = 11, 20


Logits = namedtuple("Logits", "logits")


class Bigram(keras.Model):
    """Predicts each token from the token before it and from the bag of source words."""

    def __init__(self, units=3, rate=0.3):
        super().__init__()
        self.rate = rate
        single = {"initializer": "random_normal", "autocast": False}  # the policy mixed_float16 only scales the loss
        self.embedding = self.add_weight(name="embedding", shape=(V, units), **single)
        self.kernel = self.add_weight(name="kernel", shape=(units, V), **single)

    def call(self, inputs, randomness=None, sampling_probability=None):
        source, target = inputs
        rows = tf.convert_to_tensor(self.embedding)
        bag = tf.reduce_sum(tf.gather(rows, source) * tf.cast(source != PAD, tf.float32)[:, :, None], axis=1)
        hidden = dropout(tf.gather(rows, target) + bag[:, None], self.rate, randomness, "hidden")
        return Logits(tf.tensordot(hidden, tf.convert_to_tensor(self.kernel), axes=1))


def config(**fields):
    """Returns a configuration of short training on small batches, with ``fields`` replaced."""
    short = TrainConfig(
        steps=STEPS,
        minutes=None,
        batch_size=4,
        learning_rate=0.05,
        warmup_steps=2,
        log_every=3,
        validations=4,
        xla=False,
    )
    return replace(short, **fields)


def random_batches(buckets=1):
    """Returns batches of 30 pairs of 2 to 6 tokens. Each bucket is traced in each run."""
    random = np.random.default_rng(1)
    sides = []
    for lengths in (random.integers(2, 7, 30) for _ in range(2)):
        sides.append(TokenLists(np.concatenate([[*random.integers(4, V, n - 1), END] for n in lengths]), lengths))
    shapes = choose_buckets(sides[0].lengths, sides[1].lengths, buckets)
    return Batches(*sides, batch_size=4, buckets=shapes, pool_size=13, seed=1)


class Run:
    """A training with a record of its reports."""

    def __init__(self, batches, folder, settings=None, at=None, losses=(3.0,), model=None):
        keras.utils.set_random_seed(5)
        self.model, self.batches, self.folder = model or Bigram(), batches, folder
        self.settings, self.at = settings or config(), at or {}
        self.losses = [*losses, *[losses[-1]] * 100]
        self.reports, self.shown, self.validated = [], [], []

    def __call__(self, identity=None, stop_after=None, callbacks=(), **options):
        updater = Updater(self.model, self.settings)
        checkpoints = Checkpoints(self.folder / "checkpoints", updater, identity)
        trainer = Trainer(
            updater,
            self.batches,
            checkpoints,
            self.folder / "log.jsonl",
            self.validate,
            self.reports.append,
            self.show,
            callbacks,
        )
        self.progress = trainer.train(RunOptions(**options), stop_after)
        return self

    def until_stopped(self, **options):
        """Trains until a signal or a kill ends the training."""
        with pytest.raises((Interrupted, Killed)):
            self(**options)
        return self

    def validate(self):
        self.validated.append(self.steps[-1] if self.steps else 0)
        return {"valid_loss": self.losses[len(self.validated) - 1]}

    def show(self, step, total_steps, row):
        self.shown.append((step, total_steps))
        self.at.get(step, lambda: None)()

    @property
    def steps(self):
        return [step for step, _ in self.shown]


class Killed(Exception):
    """Stands in for a process that ends at once."""


def kill():
    raise Killed


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


class Fragile(Bigram):
    """A Bigram whose logits can be made infinite, like those of a batch that overflows."""

    def __init__(self, rate=0.3):
        super().__init__(rate=rate)
        self.factor = self.add_weight(name="factor", shape=(), initializer="ones", trainable=False)

    def call(self, inputs, randomness=None, sampling_probability=None):
        return Logits(super().call(inputs, randomness, sampling_probability).logits * tf.convert_to_tensor(self.factor))


def checkpoint_state(folder):
    """Returns the weights and the state of the optimizer in the last checkpoint of a run."""
    reader = tf.train.load_checkpoint(str(checkpoints_in(folder / "checkpoints" / "last")[-1] / STATE))
    names = [n for n in reader.get_variable_to_shape_map() if n.startswith(("weights/", "optimizer/", "stability/"))]
    return {name: reader.get_tensor(name) for name in names}


def assert_same_checkpoints(folder, other, rtol=0.0, atol=0.0):
    """Asserts that the last checkpoints of two runs are equal, by default to the bit."""
    found, wanted = checkpoint_state(folder), checkpoint_state(other)
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=rtol, atol=atol, err_msg=name)
