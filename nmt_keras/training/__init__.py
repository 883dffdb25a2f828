"""Training: one compiled step under teacher forcing, and the loop around it, which can be stopped, killed and resumed.

signals       SIGINT and SIGTERM as a question that the loop asks
updating      what one update computes, and which updates are skipped
records       which checkpoints count, and what is done where the record of them is lost
checkpoints   what is saved, how it is restored and when it is refused; means of several checkpoints
log           log.jsonl and what its rows hold
loop          ``train``: everything together
"""

from nmt_keras.training.checkpoint_index import newest
from nmt_keras.training.checkpoints import (
    Checkpoints,
    Progress,
    average_weights,
    best_checkpoint,
    is_finished,
    load_weights,
    save_weights,
)
from nmt_keras.training.distribution import ReplicatedUpdater, find_strategy, is_chief, is_first_worker
from nmt_keras.training.log import Log, describe, describe_figures, read_log
from nmt_keras.training.loop import train
from nmt_keras.training.signals import Interrupted, stop_signals
from nmt_keras.training.step import Metrics, Updater, forward

__all__ = [
    "Checkpoints",
    "Interrupted",
    "Log",
    "Metrics",
    "Progress",
    "ReplicatedUpdater",
    "Updater",
    "average_weights",
    "best_checkpoint",
    "describe",
    "describe_figures",
    "find_strategy",
    "forward",
    "is_chief",
    "is_finished",
    "is_first_worker",
    "load_weights",
    "newest",
    "read_log",
    "save_weights",
    "stop_signals",
    "train",
]
