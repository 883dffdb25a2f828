"""Training with teacher forcing or scheduled sampling. A run can be stopped or killed at any time, and resumed.

trainer           Trainer: restores a checkpoint, makes updates, logs, validates and saves
tensorboard       callbacks for TensorBoard
updater           one update: forward and backward pass, change of the weights
compiling         compiles the update before training
stability         non-finite updates, and the loss scale of float16
distribution      replicas on several devices or machines
optimizers        optimizers
schedules         learning rate and sampling probability as functions of the step
execution         choice of XLA and precision
checkpoints       saving, checking and restoring checkpoints
progress          progress of a training, and early stopping
log               log.jsonl and its rows
signals           SIGINT, SIGTERM and SIGHUP
"""

from nmt_keras.training.checkpoints import (
    Checkpoints,
    checkpoints_in,
    copy_best,
    identify_best,
    is_finished,
    load_weights,
)
from nmt_keras.training.distribution import StrategyReplicas, find_strategy, is_chief, is_first_worker
from nmt_keras.training.log import Log, describe, read_log
from nmt_keras.training.progress import Progress
from nmt_keras.training.signals import Interrupted
from nmt_keras.training.trainer import Show, Trainer
from nmt_keras.training.updater import Metrics, Updater, batch_loss

__all__ = [
    "Checkpoints",
    "Interrupted",
    "Log",
    "Metrics",
    "Progress",
    "Show",
    "StrategyReplicas",
    "Trainer",
    "Updater",
    "batch_loss",
    "checkpoints_in",
    "copy_best",
    "describe",
    "find_strategy",
    "identify_best",
    "is_chief",
    "is_finished",
    "is_first_worker",
    "load_weights",
    "read_log",
]
