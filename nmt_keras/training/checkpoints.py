"""Checkpoints: saving, checking and restoring the training state.

    checkpoints/
      last/ckpt-1000/   state.index and state.data-*, written by TensorFlow
      last/ckpt-1500/
      best/ckpt-1000/   the best validation score (``TrainConfig.select_by``)

A checkpoint is written into a folder with the suffix ``.partial``, synced to the disk, and renamed. A folder without
the suffix is therefore whole after a kill or a power cut at any moment. Older checkpoints are removed afterwards.
"""

import dataclasses
import errno
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import require, without_removed
from nmt_keras.corpus.batches import Position
from nmt_keras.io.errors import remedy
from nmt_keras.io.files import (
    PARTIAL,
    SYSTEM_REASONS,
    literal,
    make_folder,
    make_writable_folder,
    require_format,
    stamped,
    sync,
    sync_folder,
    unwritable,
)
from nmt_keras.models.seq2seq import Seq2Seq
from nmt_keras.training.progress import Progress
from nmt_keras.training.updater import Updater
from nmt_keras.translation.records import Checkpoint

Result = TypeVar("Result")

STATE = "state"
"""Prefix of the files in a checkpoint's folder."""

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

FORMAT = 6
"""Format number of checkpoints."""

UNFIT = (AssertionError, LookupError, RuntimeError, TypeError, ValueError, tf.errors.OpError)
"""Errors that are raised if a checkpoint is damaged or belongs to another model."""

DAMAGE = {os.strerror(errno.ENOENT), os.strerror(errno.EIO)}  # the other reasons of the system may pass


class Checkpoints:
    """Saves and restores the last checkpoints of a run and the best one.

    Args:
        folder: Folder of the subfolders ``last`` and ``best``, which are created.
        updater: Updater whose model, optimizer and counters are saved.
        identity: Values that identify the run, by name. A checkpoint with a different value is rejected.

    Raises:
        OSError: ``folder`` cannot be written.
    """

    def __init__(self, folder: Path, updater: Updater, identity: Mapping[str, object] | None = None):
        self.folder, self.model, self.max_to_keep = folder, updater.model, updater.config.max_to_keep
        self.identity = identity or {}
        self._record = tf.Variable("", dtype=tf.string)  # JSON, so that a new field is no new format
        # Checkpoint finds variables through attributes, so it would miss layers that Keras keeps in lists
        weights = tf.Module(name="weights")
        weights.all = [variable.value for variable in updater.model.variables]
        self.checkpoint = tf.train.Checkpoint(
            weights=weights,
            optimizer=updater.optimizer,
            stability=updater.stability,
            record=self._record,
        )
        for name in ("last", "best"):
            make_writable_folder(folder / name)

    def restore(self) -> Progress | None:
        """Restores the last checkpoint and returns its progress. Returns ``None`` if there is no checkpoint.

        Raises:
            ValueError: The checkpoint is damaged or does not fit the run. The message lists the differences.
        """
        found = checkpoints_in(self.folder / "last")
        if not found:
            return None
        path = found[-1]
        try:
            reader, record = _open(path)
            _require_equal(record["identity"], json.loads(json.dumps(self.identity)))
            _require_shapes(reader, self.model)
            self.checkpoint.restore(str(literal(path) / STATE)).assert_existing_objects_matched().assert_consumed()
            fields = without_removed(Progress, record["progress"], "progress.")
            progress = Progress(**{**fields, "position": Position(*fields["position"])})
        except UNFIT as error:
            whole = None if is_whole(path) else next(filter(is_whole, reversed(found)), None)
            hint = f" {whole.name} is intact: resume from it with RunOptions.previous." if whole else ""
            raise ValueError(
                f"{path}: expected an intact checkpoint of this recipe's model; {_message(error)}. "
                f"Train in a new run directory, or with the recipe of the checkpoint.{hint}"
            ) from error
        if not checkpoints_in(self.folder / "best"):
            progress.best = math.inf  # the best checkpoint is missing
        return progress

    def save(self, name: str, progress: Progress) -> None:
        """Saves the "last" or "best" checkpoint, numbered by its step, and removes older ones.

        Raises:
            OSError: The checkpoint could not be written. Its partial files are removed; earlier checkpoints are intact.
        """
        record = {**stamped(FORMAT), "identity": self.identity, "progress": dataclasses.asdict(progress)}
        self._record.assign(json.dumps(record))
        self.checkpoint.save_counter.assign_add(1)  # ``restore`` expects this variable
        folder = self.folder / name
        before = checkpoints_in(folder)
        path = folder / f"ckpt-{progress.step}"
        if before and _number(before[-1])[0] == progress.step:  # a resumed run may repeat a step
            path = path.with_name(f"{path.name}.{_number(before[-1])[1] + 1}")
        partial = path.with_name(path.name + PARTIAL)
        try:
            _remove_partial(folder)
            make_folder(partial)
            self.checkpoint.write(str(literal(partial) / STATE))
            sync_folder(partial)
            os.rename(partial, path)
            sync([folder])
            for old in [*before, path][: -self.max_to_keep if name == "last" else -1]:
                old.rename(old.with_name(old.name + PARTIAL))  # so that no incomplete checkpoint is ever visible
            sync([folder])  # before files are removed: a power cut must not undo the renaming
            _remove_partial(folder)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            kept = f"{before[-1].name} is intact." if before else "There is no earlier checkpoint."
            raise unwritable(path, _message(error), kept) from error


def checkpoints_in(folder: Path) -> list[Path]:
    """Returns the checkpoints in ``folder`` in the order of their steps, newest last."""
    found = [path for path in folder.glob("ckpt-*") if re.fullmatch(r"ckpt-\d+(\.\d+)?", path.name)]
    return sorted(found, key=_number)


def is_whole(path: Path) -> bool:
    """Returns ``True`` if every tensor of a checkpoint can be read and its checksum matches.

    Raises:
        OSError: the system does not let this process read the checkpoint, which may be intact.
    """
    try:
        reader = tf.train.load_checkpoint(str(literal(path) / STATE))
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except UNFIT as error:
        if refused := next(filter(_message(error).__contains__, SYSTEM_REASONS - DAMAGE), None):
            raise OSError(f"{path}: cannot be read; {refused}. {remedy(refused)}.") from error
        return False
    return True


def set_damaged_aside(folder: Path, report: Callable[[str], None]) -> None:
    """Renames damaged checkpoints under ``folder`` to ``damaged-*`` if the newest one is damaged.

    Of the last checkpoints, one must be intact. The best one is set aside in any case, because training can continue
    without it.
    """
    for name in ("last", "best"):
        found = checkpoints_in(folder / name)
        if not found or is_whole(found[-1]):
            continue
        damaged = [path for path in found if not is_whole(path)]
        if name == "best" or len(damaged) < len(found):
            for path in damaged:
                aside = path.with_name(f"damaged-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)  # an earlier one of the same step
                path.rename(aside)
            whole = [path.name for path in found if path not in damaged]
            left = f"the newest intact checkpoint is {whole[-1]}" if whole else "no checkpoint is left"
            names = ", ".join(path.name for path in damaged)
            report(f"{folder / name}: set aside {names}, which cannot be read; {left}")


def is_finished(folder: Path) -> bool:
    """Returns ``True`` if the training in the run directory ``folder`` has ended."""
    try:
        return any(_open(path)[1]["progress"]["finished"] for path in checkpoints_in(folder / "checkpoints/last")[-1:])
    except UNFIT:  # restoring a damaged checkpoint reports it
        return False


def best_checkpoint(folder: Path) -> Path:
    """Returns the best checkpoint under ``folder``, or the last one if no best one exists.

    Raises:
        FileNotFoundError: There is no checkpoint.
    """
    if found := checkpoints_in(folder / "best") or checkpoints_in(folder / "last"):
        return found[-1]
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
            reader, _ = _open(path)
            _require_shapes(reader, model)
            names = [f"weights/all/{number}{VALUE}" for number in range(len(model.variables))]
            return _identify(path), [reader.get_tensor(name) for name in names]
        except UNFIT as error:
            hint = " To set damaged checkpoints aside, train again with RunOptions.previous (--previous)."
            resumable = not is_whole(path) and path.parent.name == "best" and checkpoints_in(folder / "last")
            raise ValueError(
                f"{path}: expected a checkpoint of this recipe's model; {_message(error)}.{hint if resumable else ''}"
            ) from error

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
        ValueError: The checkpoint is damaged, or a file is a link out of ``folder``.
    """

    def copy(path: Path) -> None:
        shutil.rmtree(to, ignore_errors=True)  # left by a killed process
        make_folder(to / path.name)
        for file in path.glob(f"{STATE}.*"):
            target = file.resolve()
            is_inside = target.is_relative_to(folder.resolve())
            require(is_inside, str(file), "a file of the run", f"a link to {target}", "Replace the link by the file.")
            shutil.copy(file, to / path.name)
        require(is_whole(to / path.name), str(path), "an intact checkpoint", "a damaged one")

    _read_best(folder, copy)


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
    index = (path / f"{STATE}.index").read_bytes()
    return Checkpoint(path.name, _number(path)[0], hashlib.sha256(index).hexdigest())


def _number(path: Path) -> tuple[int, int]:
    """Returns the step in a checkpoint's name, and the number of its repetition."""
    step, _, repetition = path.name.removeprefix("ckpt-").partition(".")
    return int(step), int(repetition or 0)


def _remove_partial(folder: Path) -> None:
    for path in folder.glob(f"ckpt-*{PARTIAL}"):
        shutil.rmtree(path)


def _open(path: Path) -> tuple[Any, dict[str, Any]]:
    """Returns a reader of a checkpoint, and its record. Raises one of ``UNFIT`` if it cannot be used."""
    reader = tf.train.load_checkpoint(str(literal(path) / STATE))
    record: dict[str, Any] = json.loads(reader.get_tensor(f"record{VALUE}"))
    require_format(path, record, [FORMAT], "Or train a new run with this version.")
    return reader, record


def _require_shapes(reader: Any, model: keras.Model) -> None:
    """Raises ValueError unless a checkpoint's variables have the same shapes as the model's variables."""
    stored = reader.get_variable_to_shape_map()
    there: dict[str, object] = {"number of variables": sum(name.startswith("weights/all/") for name in stored)}
    here: dict[str, object] = {"number of variables": len(model.variables)}
    for number, variable in enumerate(model.variables):
        name = f"{number} {variable.path}"
        there[name], here[name] = stored.get(f"weights/all/{number}{VALUE}"), list(variable.shape)
    _require_equal(there, here)


def _require_equal(there: Mapping[str, object], here: Mapping[str, object]) -> None:
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
