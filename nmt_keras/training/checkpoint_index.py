"""The index of the checkpoints in a folder (TensorFlow's file ``checkpoint``), and its repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from nmt_keras.files import write_whole

UNFIT = (AssertionError, IndexError, RuntimeError, ValueError, tf.errors.OpError)
"""Errors that TensorFlow raises if a checkpoint is damaged or belongs to another model."""


def recorded(folder: Path) -> list[str]:
    """Returns the names of the checkpoints in the index of ``folder``, newest last."""
    try:
        state = tf.train.get_checkpoint_state(str(folder))
    except ValueError:  # an empty file
        return []
    return [Path(path).name for path in state.all_model_checkpoint_paths] if state else []


def newest(folder: Path) -> Path | None:
    """Returns the path of the newest recorded checkpoint in ``folder``, without a suffix; ``None`` if there is none."""
    names = recorded(folder)
    while names and not (folder / f"{names[-1]}.index").exists():
        before, names = names, recorded(folder)  # training may have replaced the checkpoint meanwhile
        if names == before:
            return None
    return folder / names[-1] if names else None


def is_whole(path: Path) -> bool:
    """Returns ``True`` if every tensor of a checkpoint can be read and its checksum matches."""
    try:
        reader = tf.train.load_checkpoint(str(path))
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except UNFIT:
        return False
    return True


def record_newest(folder: Path, name: str, max_to_keep: int) -> None:
    """Records ``name`` as the newest checkpoint in ``folder`` and removes older ones.

    Unrecorded checkpoints of earlier steps, which a killed process can leave, are also removed. Unrecorded checkpoints
    of later steps are kept, because the index may be out of date, for example on a synced drive. Training overwrites or
    removes them when it passes their steps.

    Args:
        folder: Folder of the checkpoints.
        name: Name of a checkpoint whose files are on the disk. Any other checkpoint of the same step is removed.
        max_to_keep: Number of checkpoints to keep, including this one.
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


def repair_indexes(folder: Path, previous: bool, report: Callable[[str], None]) -> None:
    """Repairs the indexes of ``last`` and ``best`` in a run's ``checkpoints``, and reports each repair.

    With ``previous``, a damaged best checkpoint is set aside even if no intact one exists, because training can resume
    without it. See ``mend_record``.
    """
    for name in ("last", "best"):
        if mended := mend_record(folder / name, previous, needed=name == "last"):
            report(mended)


def mend_record(folder: Path, previous: bool = False, needed: bool = True) -> str | None:
    """Repairs the index of ``folder``.

    The repaired index names only checkpoints from which training can resume. Setting a checkpoint aside means renaming
    its files to ``damaged-*``.

    A missing index is rebuilt from the intact checkpoints. If no checkpoint is intact, a damaged one is set aside only
    if it is the run's only trace of training (``_is_first``).

    Args:
        folder: Folder of the checkpoints.
        previous: If ``True``, checks the newest checkpoint. If it is damaged and an older one is intact, all
            damaged ones are set aside. Without this, the next save would keep damaged ones and remove the intact one.
        needed: If ``False``, ``previous`` sets damaged checkpoints aside even if no older one is intact.

    Returns:
        A description of the repair; ``None`` if there was nothing to repair.

    Raises:
        ValueError: The index is missing, all checkpoints are damaged, and they are not set aside.
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
        return f"{record}: rebuilt the missing checkpoint index; the newest intact checkpoint is {whole[-1]}"
    if whole or (previous and not needed) or (len(there) == 1 and _is_first(folder)):
        return _set_aside(folder, there, whole)
    if names:
        return None  # restoring the newest one reports the damage
    way = "remove it to start training again" if needed else "set the checkpoints aside with RunOptions.previous"
    raise ValueError(
        f"{record}: expected a checkpoint index or an intact checkpoint. Received: no index, and damaged checkpoints "
        f"({', '.join(there)}). Restore the folder from a copy, or {way}."
    )


def _is_first(folder: Path) -> bool:
    """Returns ``True`` if the run has no trace of training other than the checkpoint in ``folder``.

    A power cut during the first save leaves this state: no index, no other checkpoint, and a log without rows. Returns
    ``False`` if the log is missing, because a copy of the run may be incomplete.
    """
    log = folder.parent.parent / "log.jsonl"
    others = [each for each in folder.parent.glob("*/ckpt-*") if each.parent != folder]
    return log.exists() and not log.stat().st_size and not others and not (folder / "checkpoint").exists()


def step_of(name: str) -> int:
    """Returns the step in a checkpoint's name; -1 if there is none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _set_aside(folder: Path, names: Sequence[str], whole: Sequence[str]) -> str:
    """Records the ``whole`` checkpoints and renames the other ``names``. Returns a description."""
    _write_record(folder, whole)
    damaged = [name for name in names if name not in whole]
    for name in damaged:
        for file in folder.glob(f"{name}.*"):
            file.rename(folder / f"damaged-{file.name}")
    left = f"the newest intact checkpoint is {whole[-1]}" if whole else "no checkpoint is left"
    return f"{folder}: set aside {', '.join(damaged)}, which cannot be read; {left}"


def _write_record(folder: Path, names: Sequence[str]) -> None:
    """Writes the index of ``names``, oldest first, as a CheckpointState in text. Removes the index if there are none.

    ``tf.train.CheckpointManager`` is not used, because it does not sync the file to the disk.
    """
    if not names:
        (folder / "checkpoint").unlink(missing_ok=True)
        return
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    write_whole(folder / "checkpoint", "\n".join([*lines, ""]))
