"""Checkpoints: all that a run must know to go on as if nothing had happened, and what is refused instead of guessed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Position
from nmt_keras.files import make_folder, require_format, settle
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.checkpoint_index import UNFIT, is_whole, newest, record_newest, recorded
from nmt_keras.training.step import Updater

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

FORMAT = 1
"""Format number of checkpoints, stored in ``Progress``."""


class Progress(tf.Module):
    """Where training stands: all that a checkpoint must hold beside weights and optimiser.

    Args:
        identity: what the run is made of, by name: a checkpoint of anything else is refused.
    """

    def __init__(self, identity: Mapping[str, Any]) -> None:
        super().__init__(name="progress")
        self.format = tf.Variable(FORMAT, dtype=tf.int64)
        self.step = tf.Variable(0, dtype=tf.int64)  # updates made
        self.epoch = tf.Variable(0, dtype=tf.int64)
        self.pool = tf.Variable(0, dtype=tf.int64)
        self.batch = tf.Variable(0, dtype=tf.int64)  # batches of this pool seen
        self.total_steps = tf.Variable(0, dtype=tf.int64)  # 0 until it is known
        self.settled = tf.Variable(False)  # whether real updates have said how many steps the minutes are
        self.seconds = tf.Variable(0.0, dtype=tf.float64)  # spent training
        self.best = tf.Variable(math.inf, dtype=tf.float64)  # lowest validation loss, nats per token
        self.stale = tf.Variable(0, dtype=tf.int64)  # validations since then
        self.validated = tf.Variable(0, dtype=tf.int64)  # step after which the model was validated last
        self.reductions = tf.Variable(0, dtype=tf.int64)  # times that a plateau lowered the rate
        self.finished = tf.Variable(False)
        self.identity = tf.Variable(json.dumps(identity, sort_keys=True), dtype=tf.string)

    @property
    def position(self) -> Position:
        """The batch that comes next."""
        return Position(int(self.epoch), int(self.pool), int(self.batch))

    def advance(self, step: int, seen: Position) -> None:
        """Takes note of update number ``step`` (counted from 1), whose last batch was ``seen``."""
        self.step.assign(step)
        self.epoch.assign(seen.epoch)
        self.pool.assign(seen.pool)
        self.batch.assign(seen.batch + 1)

    def judge(self, loss: float, config: TrainConfig, *, last: bool) -> bool:
        """Takes note of a validation's loss, nats per token; returns whether it is the best so far.

        Training is finished after the last validation, or after ``config.patience`` without a better loss.
        """
        better = loss < float(self.best)
        self.best.assign(min(float(self.best), loss))
        self.stale.assign(0 if better else self.stale + 1)
        if not better and config.decay == "plateau":
            self.reductions.assign_add(1)
        self.finished.assign(last or int(self.stale) >= config.patience)
        return better


class Weights(tf.Module):
    """A model's variables, in order, as a checkpoint holds them.

    TensorFlow would look for them by the attributes of the layers, and passes over layers that Keras keeps in lists.
    """

    def __init__(self, model: keras.Model):
        super().__init__(name="weights")
        self.all = [variable.value for variable in model.variables]


class Checkpoints:
    """The last states of a training and the best, each written whole or not at all.

    A checkpoint is written under a new number and waits until it is on the disk. Then the record names it, and only
    then is the oldest one removed: after a kill or a power cut at any moment, the newest recorded checkpoint is whole.
    See ``records`` for what is done where a record is lost.

    Args:
        folder: holds ``last`` and ``best``.
        updater: its model, optimiser and health are saved.
        progress: saved beside them.
        max_to_keep: how many of ``last``.
    """

    def __init__(self, folder: Path, updater: Updater, progress: Progress, max_to_keep: int = 2):
        self.checkpoint = tf.train.Checkpoint(
            weights=Weights(updater.model), optimizer=updater.optimizer, health=updater.health, progress=progress
        )
        self.model, self.progress, self.folder, self.max_to_keep = updater.model, progress, folder, max_to_keep
        try:
            for name in ("last", "best"):
                make_folder(folder / name)
                (folder / name / "writable").touch()
                (folder / name / "writable").unlink(missing_ok=True)
        except OSError as error:
            raise OSError(f"{folder}: expected a folder that checkpoints can be written into; {error}.") from error

    def restore(self, previous: bool = False) -> str | None:
        """Restores the last checkpoint if there is one; every variable must be found in it.

        Args:
            previous: whether to pass over damaged checkpoints to the newest one that is whole.

        Returns:
            The checkpoint's path; None if there is none.

        Raises:
            ValueError: the checkpoint is damaged, or was not written by this run; the message names what differs.
        """
        known = [str(self.folder / "last" / name) for name in reversed(recorded(self.folder / "last"))]
        if not known:
            return None
        path = next((p for p in known if is_whole(Path(p))), known[0]) if previous else known[0]
        require_checkpoint_format(Path(path))
        try:
            refuse_foreign(path, self.model, self.progress)
            self.checkpoint.restore(path).assert_existing_objects_matched().assert_consumed()
        except UNFIT as error:
            older = [] if is_whole(Path(path)) else [Path(p).name for p in known[1:] if is_whole(Path(p))]
            way = (
                f" {older[0]} before it is whole: ask for the previous checkpoint to go on from there." if older else ""
            )
            raise ValueError(
                f"{path}: expected a checkpoint of this recipe's model; {_told(error)}. "
                f"Train in a new run directory, or restore the recipe that made it.{way}"
            ) from error
        if newest(self.folder / "best") is None:
            self.progress.best.assign(math.inf)  # whatever it was, it is there no more
        return path

    def save(self, name: str) -> None:
        """Writes a checkpoint, numbered by its step.

        Args:
            name: "last" or "best".

        Raises:
            OSError: it could not be written; what it has written of it is removed, earlier ones are whole.
        """
        folder, step = self.folder / name, int(self.progress.step)
        try:
            write_checkpoint(self.checkpoint, folder, step, self.max_to_keep if name == "last" else 1)
        except (OSError, tf.errors.OpError) as error:
            free = shutil.disk_usage(self.folder).free
            names = recorded(folder)
            kept = f"{folder / names[-1]} is whole" if names else "there is none from before"
            raise OSError(
                f"{folder}: checkpoint {step} could not be written; {_told(error)}. {free / 2**20:,.0f} MiB are free; "
                f"{kept}. Make room or mend the permissions, then run the same command."
            ) from error


def write_checkpoint(checkpoint: tf.train.Checkpoint, folder: Path, step: int, max_to_keep: int) -> None:
    """Writes a checkpoint that outlives a power cut, then records it in ``folder`` and removes older ones.

    ``tf.train.CheckpointManager`` records a checkpoint and removes older ones before the new data is on the disk.

    Args:
        checkpoint: what to write.
        folder: is made.
        step: number of the checkpoint.
        max_to_keep: how many checkpoints stay, this one included.

    Raises:
        OSError, tf.errors.OpError: it could not be written; what was written of it is removed.
    """
    make_folder(folder)
    for abandoned in folder.glob("ckpt-*_temp"):  # TensorFlow's own, left by a killed process
        shutil.rmtree(abandoned)
    name = f"ckpt-{step}"
    if name in recorded(folder):  # a resumed run repeats a step: overwriting could leave half of either
        name = f"ckpt-again-{step}"
    checkpoint.save_counter.assign_add(1)  # ``restore`` expects this variable
    try:
        checkpoint.write(str(folder / name))
        settle([*folder.glob(f"{name}.*"), folder])
        record_newest(folder, name, max_to_keep)
    except (OSError, tf.errors.OpError):
        if name not in recorded(folder):
            for partial in folder.glob(f"{name}[._]*"):
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)
        raise


def is_finished(folder: Path) -> bool:
    """Whether the training in the run directory ``folder`` has come to its end."""
    path = newest(folder / "checkpoints" / "last")
    if path is None:
        return False
    try:
        return bool(tf.train.load_checkpoint(str(path)).get_tensor(f"progress/finished{VALUE}"))
    except UNFIT:  # damaged: whoever restores it says so
        return False


def best_checkpoint(folder: Path) -> Path:
    """Returns the best checkpoint under ``folder``, or the last one if no best one exists.

    Raises:
        FileNotFoundError: there is no checkpoint.
    """
    if path := newest(folder / "best") or newest(folder / "last"):
        return path
    raise FileNotFoundError(f"{folder}: expected a checkpoint under best/ or last/, found none. Train the run first.")


def load_weights(model: Seq2Seq, folder: Path) -> int:
    """Restores the model's weights alone from the best checkpoint under ``folder``, or the last where none is best.

    Returns:
        The step at which the checkpoint was written.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it cannot be read, or does not fit the model.
    """
    path = best_checkpoint(folder)
    try:
        values = _read_weights(model, str(path))
    except ValueError as error:
        if newest(folder / "last") in (None, path) or is_whole(path):
            raise
        way = "Call training again with RunOptions.previous (--options.previous): it sets aside what cannot be read."
        raise ValueError(f"{error} {way}") from error
    for variable, value in zip(model.variables, values, strict=True):
        variable.assign(value)
    return int(tf.train.load_checkpoint(str(path)).get_tensor(f"progress/step{VALUE}"))


def average_weights(model: Seq2Seq, folder: Path, count: int) -> list[int]:
    """Gives the model the mean of the last ``count`` checkpoints that a run has kept: of the weights that are trained.

    A run that keeps a moving average of its weights has a mean of its own, in the best checkpoint.

    (Junczys-Dowmunt, Dwojak, Sennrich 2016, section 5: a mean of the last checkpoints is nearly as good as their
    ensemble, for the price of one model.)

    Args:
        model: built.
        folder: the run's ``checkpoints``.
        count: how many; ``TrainConfig.max_to_keep`` says how many there are.

    Returns:
        Their steps, in order.

    Raises:
        ValueError: the run has kept fewer, or one does not fit the model.
    """
    kept = [str(folder / "last" / name) for name in recorded(folder / "last")]
    if not 1 <= count <= len(kept):
        raise ValueError(
            f"count: expected 1 to {len(kept)}, the checkpoints that {folder / 'last'} keeps, received {count}. "
            "TrainConfig.max_to_keep (--train.max-to-keep) says how many are kept."
        )
    sums = [np.zeros(variable.shape, np.float64) for variable in model.variables]
    for path in kept[-count:]:
        for total, value in zip(sums, _read_weights(model, path), strict=True):
            total += value
    for variable, total in zip(model.variables, sums, strict=True):
        variable.assign(total / count)
    return [int(path.rpartition("-")[2]) for path in kept[-count:]]


def save_weights(model: Seq2Seq, folder: Path, step: int) -> None:
    """Writes a model's weights as the only checkpoint of a training under ``folder`` that has come to its end.

    ``load_weights`` reads it; there is nothing to train on.
    """
    progress = Progress({})
    progress.step.assign(step)
    progress.finished.assign(True)
    checkpoint = tf.train.Checkpoint(weights=Weights(model), progress=progress)
    for name in ("last", "best"):
        write_checkpoint(checkpoint, folder / name, step, max_to_keep=1)


def require_checkpoint_format(path: Path) -> None:
    """Raises ValueError if a checkpoint has another format; reading its weights reports a damaged one."""
    try:
        reader = tf.train.load_checkpoint(str(path))
        name = f"progress/format{VALUE}"
        found = int(reader.get_tensor(name)) if reader.has_tensor(name) else None
    except UNFIT:
        return
    require_format(path, found, FORMAT, "Train a new run with this version of nmt_keras.")


def refuse_foreign(path: str, model: keras.Model, progress: Progress) -> None:
    """Raises ValueError naming what a checkpoint has otherwise than the model and the run that want it.

    Names that only one of them knows are passed over: a recipe's fields grow with the package's versions.
    """
    found = json.loads(tf.train.load_checkpoint(path).get_tensor(f"progress/identity{VALUE}"))
    wanted = json.loads(progress.identity.numpy())
    differences = [
        f"{name}: {found[name]!r} there, {wanted[name]!r} here"
        for name in sorted(found.keys() & wanted.keys())
        if found[name] != wanted[name]
    ]
    differences += _different_shapes(path, model)
    if differences:
        raise ValueError(_few(differences))


def _different_shapes(path: str, model: keras.Model) -> list[str]:
    """What differs between a model's variables and a checkpoint's, a phrase each."""
    buckets = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    differences = []
    for number, variable in enumerate(model.variables):
        found = buckets.get(f"weights/all/{number}{VALUE}")
        if found is None or tuple(found) != tuple(variable.shape):
            there = f"{found} there" if found is not None else "not there"
            differences.append(f"{variable.path}: {there}, {list(variable.shape)} here")
    stored = sum(name.startswith("weights/all/") for name in buckets)
    if stored > len(model.variables):
        differences.append(f"{stored} variables there, {len(model.variables)} here")
    return differences


def _read_weights(model: Seq2Seq, path: str) -> list[np.ndarray]:
    """The values of a model's variables in a checkpoint, in order."""
    require_checkpoint_format(Path(path))
    try:
        if differences := _different_shapes(path, model):
            raise ValueError(_few(differences))
        reader = tf.train.load_checkpoint(path)
        return [reader.get_tensor(f"weights/all/{number}{VALUE}") for number in range(len(model.variables))]
    except UNFIT as error:
        raise ValueError(f"{path}: expected a checkpoint of this recipe's model; {_told(error)}.") from error


def _few(phrases: Sequence[str], shown: int = 5) -> str:
    more = f" and {len(phrases) - shown} more" if len(phrases) > shown else ""
    return f"{'; '.join(phrases[:shown])}{more}"


def _told(error: BaseException) -> str:
    """An error's own words, without TensorFlow's node names."""
    return str(getattr(error, "message", None) or error).partition(" [Op:")[0].rstrip(".")
