"""Training with teacher forcing or scheduled sampling. A run can be stopped or killed at any time, and resumed.

trainer           Trainer: restores a checkpoint, makes updates, logs, validates and saves; Callback
tensorboard       callbacks for TensorBoard
updater           one update: forward and backward pass, clipping, change of the weights
compiling         compiles the update before training, and measures its speed
stability         non-finite updates, and the loss scale of float16
distribution      replicas on several devices or machines
optimizers        optimizers and gradient clipping
schedules         learning rate and sampling probability as functions of the step
execution         choice of XLA, cuDNN and precision
checkpoints       saving, checking, restoring and averaging checkpoints
checkpoint_index  the index of the checkpoints in a folder, and its repair
log               log.jsonl and its rows
signals           SIGINT and SIGTERM
watchdog          ends a process whose main thread hangs in native code
"""

from nmt_keras.training.checkpoint_index import newest
from nmt_keras.training.checkpoints import (
    Checkpoints,
    Progress,
    average_weights,
    copy_best,
    identify_best,
    is_finished,
    load_weights,
    save_weights,
)
from nmt_keras.training.distribution import StrategyReplicas, find_strategy, is_chief, is_first_worker
from nmt_keras.training.log import Log, describe, read_log
from nmt_keras.training.signals import Interrupted
from nmt_keras.training.trainer import Callback, ProgressCallback, Trainer
from nmt_keras.training.updater import Metrics, Updater, batch_loss

__all__ = [
    "Callback",
    "Checkpoints",
    "Interrupted",
    "Log",
    "Metrics",
    "Progress",
    "ProgressCallback",
    "StrategyReplicas",
    "Trainer",
    "Updater",
    "average_weights",
    "batch_loss",
    "copy_best",
    "describe",
    "find_strategy",
    "identify_best",
    "is_chief",
    "is_finished",
    "is_first_worker",
    "load_weights",
    "newest",
    "read_log",
    "save_weights",
]
