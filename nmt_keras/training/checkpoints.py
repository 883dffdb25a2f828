"""Checkpoints: saving, checking and restoring the training state."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import TrainConfig
from nmt_keras.corpus.batches import Position
from nmt_keras.files import make_folder, make_writable_folder, require_format, stamped, sync, unwritable
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.checkpoint_index import UNFIT, is_whole, newest, record_newest, recorded, step_of
from nmt_keras.training.updater import Updater
from nmt_keras.translation.records import Checkpoint

Result = TypeVar("Result")

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

FORMAT = 5
"""Format number of checkpoints, stored in ``Progress``. Training resumes only from this format."""

OLDEST_WEIGHTS = 5
"""Oldest format with the present layout of the weights. Runs since then can be translated, exported and fine-tuned.

A change of the training state raises only ``FORMAT``. A change of the weights, such as another order, raises both.
"""


class Progress(tf.Module):
    """Training progress, saved in a checkpoint with the weights and the optimizer.

    Args:
        identity: Values that identify the run, by name. A checkpoint with a different value is rejected.
    """

    def __init__(self, identity: Mapping[str, Any]) -> None:
        super().__init__(name="progress")
        stamp = stamped(FORMAT)
        self.format = tf.Variable(stamp.pop("format"), dtype=tf.int64)
        self.step = tf.Variable(0, dtype=tf.int64)  # updates made
        self.epoch = tf.Variable(0, dtype=tf.int64)
        self.pool = tf.Variable(0, dtype=tf.int64)
        self.batch = tf.Variable(0, dtype=tf.int64)  # number of batches of this pool that were read
        self.total = tf.Variable(0.0, dtype=tf.float64)  # length in updates or seconds; 0 until it is known
        self.seconds = tf.Variable(0.0, dtype=tf.float64)  # spent training, the first compilation included
        self.compilation = tf.Variable(0.0, dtype=tf.float64)  # seconds before the first update
        self.validation_seconds = tf.Variable(0.0, dtype=tf.float64)  # of the longest validation
        self.best = tf.Variable(math.inf, dtype=tf.float64)  # lowest validation loss, nats per token, or -BLEU
        self.stale = tf.Variable(0, dtype=tf.int64)  # validations since the best one
        self.validated = tf.Variable(0, dtype=tf.int64)  # step of the last validation
        self.validations = tf.Variable(0, dtype=tf.int64)  # number of validations that are no longer due
        self.reductions = tf.Variable(0, dtype=tf.int64)  # number of times that a plateau lowered the rate
        self.finished = tf.Variable(False)
        # the version is here, because another variable would be another format
        self.identity = tf.Variable(json.dumps({**identity, **stamp}, sort_keys=True), dtype=tf.string)

    @property
    def position(self) -> Position:
        """Position of the next batch."""
        return Position(int(self.epoch), int(self.pool), int(self.batch))

    def advance(self, step: int, seen: Position) -> None:
        """Records ``step`` as the number of updates, and ``seen`` as the position of the last batch."""
        self.step.assign(step)
        self.epoch.assign(seen.epoch)
        self.pool.assign(seen.pool)
        self.batch.assign(seen.batch + 1)

    def judge(self, cost: float, config: TrainConfig, *, last: bool) -> bool:
        """Records a validation's loss in nats per token, or -BLEU. Returns ``True`` if it is the lowest so far.

        Sets ``finished`` after the last validation, or after ``config.patience`` validations without a lower cost.
        """
        better = cost < float(self.best)
        self.best.assign(min(float(self.best), cost))
        self.stale.assign(0 if better else self.stale + 1)
        if not better and config.decay == "plateau":
            self.reductions.assign_add(1)
        self.finished.assign(last or int(self.stale) >= config.patience)
        return better


class CheckpointedVariables(tf.Module):
    """A model's variables in order, as a checkpoint stores them.

    ``tf.train.Checkpoint`` finds variables through attributes, so it misses layers that Keras keeps in lists.
    """

    def __init__(self, model: keras.Model):
        super().__init__(name="weights")
        self.all = [variable.value for variable in model.variables]


class Checkpoints:
    """Saves and restores the last checkpoints of a run and the best one.

    Each checkpoint is written under a new name, synced to the disk, and recorded in the index. Then older ones are
    removed. The newest recorded checkpoint is therefore intact after a kill or a power cut at any moment.
    ``checkpoint_index`` repairs missing indexes.

    Args:
        folder: Folder of the subfolders ``last`` and ``best``, which are created.
        updater: Updater whose model, optimizer, counters and loss scale are saved.
        identity: Values that identify the run, by name. A checkpoint with a different value is rejected.

    Raises:
        OSError: ``folder`` cannot be written.
    """

    def __init__(self, folder: Path, updater: Updater, identity: Mapping[str, Any] | None = None):
        self.folder, self.model, self.max_to_keep = folder, updater.model, updater.config.max_to_keep
        self.progress = Progress(identity or {})
        parts = {"weights": CheckpointedVariables(updater.model), "optimizer": updater.optimizer}
        if updater.loss_scale is not None:
            parts["loss_scale"] = updater.loss_scale
        self.checkpoint = tf.train.Checkpoint(**parts, skipped=updater.skipped, progress=self.progress)
        for name in ("last", "best"):
            make_writable_folder(folder / name)

    def restore(self) -> bool:
        """Restores the last checkpoint. Returns ``False`` if there is none.

        Raises:
            ValueError: The checkpoint is damaged or does not fit the run. The message lists the differences.
        """
        paths = [self.folder / "last" / name for name in reversed(recorded(self.folder / "last"))]
        if not paths:
            return False
        path, *earlier = paths
        ours = self.progress.identity.numpy()
        try:
            reader = _open(path, FORMAT)
            there, here = json.loads(reader.get_tensor(f"progress/identity{VALUE}")), json.loads(ours)
            there.pop("nmt_keras", None)  # another version may resume a run of the same format
            _require_equal(there, here)
            _require_shapes(reader, self.model)
            self.checkpoint.restore(str(path)).assert_existing_objects_matched().assert_consumed()
            self.progress.identity.assign(ours)  # with this version
        except UNFIT as error:
            whole = None if is_whole(path) else next(filter(is_whole, earlier), None)
            hint = f" {whole.name} is intact: resume from it with RunOptions.previous." if whole else ""
            raise ValueError(
                f"{path}: expected a checkpoint of this recipe's model; {_message(error)}. "
                f"Train in a new run directory, or with the recipe of the checkpoint.{hint}"
            ) from error
        if newest(self.folder / "best") is None:
            self.progress.best.assign(math.inf)  # the best checkpoint is missing
        return True

    def save(self, name: str) -> None:
        """Saves the "last" or "best" checkpoint, numbered by its step.

        Raises:
            OSError: The checkpoint could not be written. Its partial files are removed; earlier checkpoints are intact.
        """
        folder, step = self.folder / name, int(self.progress.step)
        try:
            write_checkpoint(self.checkpoint, folder, step, self.max_to_keep if name == "last" else 1)
        except (OSError, tf.errors.OpError) as error:
            names = recorded(folder)
            kept = f"{names[-1]} is intact." if names else "There is no earlier checkpoint."
            raise unwritable(folder / f"ckpt-{step}", _message(error), kept) from error


def write_checkpoint(checkpoint: tf.train.Checkpoint, folder: Path, step: int, max_to_keep: int) -> None:
    """Writes a checkpoint and syncs it to the disk, then records it in ``folder`` and removes older ones.

    ``tf.train.CheckpointManager`` is not used, because it removes older checkpoints before the new one is on the disk.

    Args:
        checkpoint: State to write.
        folder: Folder of the checkpoints, which is created.
        step: Number of the checkpoint.
        max_to_keep: Number of checkpoints to keep, including this one.

    Raises:
        OSError, tf.errors.OpError: The checkpoint could not be written. Its partial files are removed.
    """
    make_folder(folder)
    for abandoned in folder.glob("ckpt-*_temp"):  # TensorFlow's own, left by a killed process
        shutil.rmtree(abandoned)
    name = f"ckpt-{step}"
    if name in recorded(folder):  # a resumed run repeats a step; a kill while overwriting would mix two checkpoints
        name = f"ckpt-again-{step}"
    checkpoint.save_counter.assign_add(1)  # ``restore`` expects this variable
    try:
        checkpoint.write(str(folder / name))
        sync([*folder.glob(f"{name}.*"), folder])
        record_newest(folder, name, max_to_keep)
    except (OSError, tf.errors.OpError):
        if name not in recorded(folder):
            for partial in folder.glob(f"{name}[._]*"):
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)
        raise


def is_finished(folder: Path) -> bool:
    """Returns ``True`` if the training in the run directory ``folder`` has ended."""
    path = newest(folder / "checkpoints" / "last")
    try:
        return path is not None and bool(_open(path).get_tensor(f"progress/finished{VALUE}"))
    except UNFIT:  # restoring a damaged checkpoint reports it
        return False


def best_checkpoint(folder: Path) -> Path:
    """Returns the best checkpoint under ``folder``, or the last one if no best one exists.

    Raises:
        FileNotFoundError: There is no checkpoint.
    """
    if path := newest(folder / "best") or newest(folder / "last"):
        return path
    raise FileNotFoundError(f"{folder}: expected a checkpoint under best/ or last/, found none. Train the run first.")


def load_weights(model: Seq2Seq, folder: Path) -> Checkpoint:
    """Restores the model's weights from the best checkpoint under ``folder``, or the last one if there is no best one.

    Returns:
        The identity of the checkpoint.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: The checkpoint cannot be read, or does not fit the model.
    """

    def read(path: Path) -> tuple[Checkpoint, list[np.ndarray]]:
        try:
            return _identify(path), _read_weights(model, path)
        except ValueError as error:
            if newest(folder / "last") in (None, path) or is_whole(path):
                raise
            hint = "To set damaged checkpoints aside, train again with RunOptions.previous (--previous)."
            raise ValueError(f"{error} {hint}") from error

    checkpoint, values = _read_best(folder, read)
    for variable, value in zip(model.variables, values, strict=True):
        variable.assign(value)
    return checkpoint


def identify_best(folder: Path) -> Checkpoint:
    """Returns the identity of the checkpoint that ``load_weights`` restores. Raises FileNotFoundError without one."""
    return _read_best(folder, _identify)


def copy_best(folder: Path, to: Path) -> None:
    """Copies the best checkpoint under ``folder``, or the last one if there is no best one, into the folder ``to``.

    Raises:
        FileNotFoundError: There is no checkpoint.
        ValueError: The checkpoint is damaged.
    """

    def copy(path: Path) -> str:
        make_folder(to)
        for file in path.parent.glob(f"{path.name}.*"):
            shutil.copyfile(file, to / file.name)
        if not is_whole(to / path.name):
            raise ValueError(f"{path}: expected an intact checkpoint, received a damaged one.")
        sync([*to.glob(f"{path.name}.*"), to])
        return path.name

    record_newest(to, _read_best(folder, copy), max_to_keep=1)


def _read_best(folder: Path, read: Callable[[Path], Result]) -> Result:
    """Returns ``read`` of the best checkpoint. Repeats the call if training replaced the checkpoint meanwhile."""
    while True:
        path = best_checkpoint(folder)
        try:
            return read(path)
        except (OSError, ValueError):
            if best_checkpoint(folder) == path:
                raise


def _identify(path: Path) -> Checkpoint:
    index = path.with_name(f"{path.name}.index").read_bytes()
    return Checkpoint(path.name, step_of(path.name), hashlib.sha256(index).hexdigest())


def average_weights(model: Seq2Seq, folder: Path, count: int) -> list[int]:
    """Assigns the mean of the last ``count`` checkpoints to the model (Junczys-Dowmunt et al. 2016, section 5).

    If ``TrainConfig.ema_decay`` is set, the best checkpoint already holds a moving average. This function averages the
    weights themselves.

    Args:
        model: Built model.
        folder: The run's folder ``checkpoints``.
        count: Number of checkpoints, at most ``TrainConfig.max_to_keep``.

    Returns:
        Steps of these checkpoints, in order.

    Raises:
        ValueError: The run has fewer checkpoints, or one does not fit the model.
    """
    names = recorded(folder / "last")
    if not 1 <= count <= len(names):
        raise ValueError(
            f"count: expected 1 to {len(names)}, the number of checkpoints in {folder / 'last'}, received {count}. "
            "A run keeps TrainConfig.max_to_keep checkpoints."
        )
    sums = [np.zeros(variable.shape, np.float64) for variable in model.variables]
    for name in names[-count:]:
        for total, value in zip(sums, _read_weights(model, folder / "last" / name), strict=True):
            total += value
    for variable, total in zip(model.variables, sums, strict=True):
        variable.assign(total / count)
    return [step_of(name) for name in names[-count:]]


def save_weights(model: Seq2Seq, folder: Path, step: int) -> None:
    """Saves a model's weights under ``folder`` as the last and best checkpoint of a finished run."""
    progress = Progress({})
    progress.step.assign(step)
    progress.finished.assign(True)
    checkpoint = tf.train.Checkpoint(weights=CheckpointedVariables(model), progress=progress)
    for name in ("last", "best"):
        write_checkpoint(checkpoint, folder / name, step, max_to_keep=1)


def _read_weights(model: Seq2Seq, path: Path) -> list[np.ndarray]:
    """Returns the values of a model's variables in a checkpoint, in order."""
    try:
        reader = _open(path)
        _require_shapes(reader, model)
        return [reader.get_tensor(f"weights/all/{number}{VALUE}") for number in range(len(model.variables))]
    except UNFIT as error:
        raise ValueError(f"{path}: expected a checkpoint of this recipe's model; {_message(error)}.") from error


def _open(path: Path, oldest: int | None = None) -> Any:
    """Returns a reader of a checkpoint of the format ``oldest``, by default ``OLDEST_WEIGHTS``, or newer.

    Raises ValueError for another format, and one of ``UNFIT`` for a damaged file.
    """
    reader = tf.train.load_checkpoint(str(path))
    record = {"format": int(reader.get_tensor(f"progress/format{VALUE}"))}
    if reader.has_tensor(f"progress/identity{VALUE}"):
        record["nmt_keras"] = json.loads(reader.get_tensor(f"progress/identity{VALUE}")).get("nmt_keras")
    remedy = "Or train a new run with this version."
    if OLDEST_WEIGHTS <= record["format"] <= FORMAT:
        remedy += " This version can translate, export and fine-tune the run (RunOptions.init_from)."
    require_format(path, record, FORMAT, remedy, oldest=oldest or OLDEST_WEIGHTS)
    return reader


def _require_shapes(reader: Any, model: keras.Model) -> None:
    """Raises ValueError unless a checkpoint's variables have the same shapes as the model's variables."""
    stored = reader.get_variable_to_shape_map()
    there: dict[str, Any] = {"number of variables": sum(name.startswith("weights/all/") for name in stored)}
    here: dict[str, Any] = {"number of variables": len(model.variables)}
    for number, variable in enumerate(model.variables):
        name = f"{number} {variable.path}"
        there[name], here[name] = stored.get(f"weights/all/{number}{VALUE}"), list(variable.shape)
    _require_equal(there, here)


def _require_equal(there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raises ValueError with the first differences between a checkpoint and the run.

    Names that only one of the two contains are ignored, because later versions of the package add fields to the recipe.
    """
    different = [name for name in sorted(there.keys() & here.keys()) if there[name] != here[name]]
    if different:
        raise ValueError(
            "; ".join(
                f"{name}: {there[name]!r} in the checkpoint, {here[name]!r} in this run" for name in different[:5]
            )
        )


def _message(error: BaseException) -> str:
    """Returns an error's message without TensorFlow's node names."""
    return str(getattr(error, "message", None) or error).partition(" [Op:")[0].rstrip(".")
