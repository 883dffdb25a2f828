"""The record of the checkpoints in a folder: TensorFlow's file ``checkpoint``, and how a lost one is rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from nmt_keras.files import write_whole

UNFIT = (AssertionError, IndexError, RuntimeError, ValueError, tf.errors.OpError)
"""Errors that TensorFlow raises if a checkpoint is damaged or belongs to another model."""


def recorded(folder: Path) -> list[str]:
    """Returns the names of the checkpoints in the record of ``folder``, the newest last."""
    try:
        state = tf.train.get_checkpoint_state(str(folder))
    except ValueError:  # an empty file
        return []
    return [Path(path).name for path in state.all_model_checkpoint_paths] if state else []


def newest(folder: Path) -> Path | None:
    """Returns the path of the newest recorded checkpoint in ``folder``, without a suffix; ``None`` if there is none."""
    names = recorded(folder)
    return folder / names[-1] if names and (folder / f"{names[-1]}.index").exists() else None


def is_whole(path: Path) -> bool:
    """Returns ``True`` if every tensor of a checkpoint can be read. Each has a checksum."""
    try:
        reader = tf.train.load_checkpoint(str(path))
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except UNFIT:
        return False
    return True


def record_newest(folder: Path, name: str, max_to_keep: int) -> None:
    """Records ``name``, which is on the disk, as the newest checkpoint in ``folder``, and removes older ones.

    Removal includes checkpoints that are not in the record: a killed process leaves one if it stops before it records
    or removes it. An unrecorded checkpoint of a later step is kept, because the record may be out of date, as on a
    synced drive. Training overwrites or removes that checkpoint when it passes its step.

    Args:
        folder: Holds the checkpoints.
        name: Name of the checkpoint. An earlier one of the same step is removed.
        max_to_keep: Number of checkpoints to keep, this one included.
    """
    before = recorded(folder)
    others = [known for known in before if step_of(known) != step_of(name)]
    kept = [*others, name][-max_to_keep:]
    _write_record(folder, kept)
    present = {file.name.partition(".")[0] for file in folder.glob("ckpt-*.*")}
    passed = {known for known in present if 0 <= step_of(known) <= step_of(name)}
    for old in passed.union(before).difference(kept):
        for file in folder.glob(f"{old}.*"):
            file.unlink(missing_ok=True)


def mend_records(folder: Path, previous: bool, report: Callable[[str], None]) -> None:
    """Mends the records of ``last`` and ``best`` in a run's ``checkpoints``, and reports what was done.

    Training can resume without a best checkpoint: with ``previous``, one that cannot be read is set aside. See
    ``mend_record``.
    """
    for name in ("last", "best"):
        if mended := mend_record(folder / name, previous, needed=name == "last"):
            report(mended)


def mend_record(folder: Path, previous: bool = False, needed: bool = True) -> str | None:
    """Makes the record of the checkpoints in ``folder`` name those that training can resume from.

    If there is no record, all whole checkpoints are recorded. If none is whole, a lone checkpoint is set aside only if
    ``_is_first`` finds no other trace of training. With ``previous``, recorded checkpoints that cannot be read are set
    aside if an older one is whole: otherwise the next save would remove the whole one and keep them. If none is whole,
    they are set aside where no checkpoint is ``needed``.

    Returns:
        What was done, in a sentence; ``None`` if there was nothing to do.

    Raises:
        ValueError: There is no record, none of the checkpoints is whole, and they are not set aside.
        OSError: The folder cannot be written.
    """
    names, record = recorded(folder), folder / "checkpoint"
    if names and (not previous or is_whole(folder / names[-1])):
        return None
    there = names or sorted((each.stem for each in folder.glob("ckpt-*.index")), key=step_of)
    if not there:
        record.unlink(missing_ok=True)  # empty
        return None
    whole = [name for name in there if is_whole(folder / name)]
    if whole and not names:
        _write_record(folder, whole)
        return f"{record}: the record was lost and is made anew; the newest checkpoint that is whole is {whole[-1]}"
    if whole or (previous and not needed) or (len(there) == 1 and _is_first(folder)):
        return _set_aside(folder, there, whole)
    if names:
        return None  # restoring the newest one reports the damage
    way = "remove it to train anew" if needed else "set them aside with RunOptions.previous"
    raise ValueError(
        f"{record}: expected a record of the checkpoints {', '.join(there)}, found none that can be read, and none of "
        f"them is whole. Restore the folder from a copy, or {way}."
    )


def _is_first(folder: Path) -> bool:
    """Returns ``True`` if the run has no trace of training beside the checkpoint in ``folder``.

    A power cut during the first save leaves this state: no record, no other checkpoint, and a log without rows. A
    missing log is no evidence, because a copy of the run may be incomplete.
    """
    log = folder.parent.parent / "log.jsonl"
    others = [each for each in folder.parent.glob("*/ckpt-*") if each.parent != folder]
    return log.exists() and not log.stat().st_size and not others and not (folder / "checkpoint").exists()


def step_of(name: str) -> int:
    """Returns the step in a checkpoint's name, -1 if it has none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _set_aside(folder: Path, names: Sequence[str], whole: Sequence[str]) -> str:
    """Records those of ``names`` that are ``whole`` and renames the others; returns what was done."""
    _write_record(folder, whole)
    damaged = [name for name in names if name not in whole]
    for name in damaged:
        for file in folder.glob(f"{name}.*"):
            file.rename(folder / f"damaged-{file.name}")
    left = f"the newest that is whole is {whole[-1]}" if whole else "none is left"
    return f"{folder}: {', '.join(damaged)} cannot be read, set aside; {left}"


def _write_record(folder: Path, names: Sequence[str]) -> None:
    """Writes the record of the checkpoints ``names``, oldest first, in TensorFlow's format; without names, removes it.

    The format is a CheckpointState as text. ``tf.train.CheckpointManager`` does not sync it.
    """
    if not names:
        (folder / "checkpoint").unlink(missing_ok=True)
        return
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    write_whole(folder / "checkpoint", "\n".join([*lines, ""]))
