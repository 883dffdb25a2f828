"""Trains a small model on several virtual devices, or as one of several workers, and prints the weights.

Arguments: the run directory, the number of devices of this process, the step after which it sends itself a signal (0
for never), and the number of the signal (0 to stop like a callback). TF_CONFIG lists the workers. Each worker has a
different validation loss. Their mean is 1. The updates after steps 11 and 12 are not finite.
"""

import itertools
import json
import os
import sys
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")

import keras
import numpy as np
import tensorflow as tf
from bigram import Fragile, config, random_batches

from nmt_keras.config import RunOptions
from nmt_keras.training import (
    Checkpoints,
    StrategyReplicas,
    Trainer,
    Updater,
    find_strategy,
    is_chief,
)  # fmt: skip
from nmt_keras.training.distribution import reporting_lost_workers

folder, (devices, signalled, number) = Path(sys.argv[1]), map(int, sys.argv[2:])
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * devices
)
strategy = find_strategy()
if devices > 1:
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(devices)])

batches = random_batches()
keras.utils.set_random_seed(5)
with strategy.scope() if strategy else tf.name_scope(""):
    model = Fragile(rate=0.0)
task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task")
apart = 0.0 if task is None else (0.25, -0.25)[task["index"]]
validations = itertools.count(1)


def show(step, *_):
    if step == signalled:
        os.kill(os.getpid(), number)  # signal 0 does nothing
        model.stop_training = number == 0
    model.factor.assign(np.nan if step in (11, 12) else 1.0)


settings = config(
    log_every=1,
    gradient_accumulation_steps=2,
    xla=False,
    checkpoint_every=4,
    clip_norm=0.5,
)
updater = Updater(model, settings, StrategyReplicas(strategy) if strategy else None)
with reporting_lost_workers(updater.replicas):
    Trainer(
        updater,
        batches,
        Checkpoints(folder / "checkpoints", updater),
        folder / "log.jsonl",
        lambda: {"valid_loss": 1.0 + apart * next(validations)},
        print,
        show,
        is_chief=is_chief(strategy),
    ).train(RunOptions())
print("WEIGHTS", json.dumps([variable.numpy().tolist() for variable in model.trainable_variables]))
