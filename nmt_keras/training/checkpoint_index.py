"""Which checkpoints of a folder count: TensorFlow keeps a record of them, a file called ``checkpoint``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from nmt_keras.files import write_whole

UNFIT = (AssertionError, IndexError, RuntimeError, ValueError, tf.errors.OpError)
"""What TensorFlow raises when a checkpoint is damaged or belongs to another model."""


def recorded(folder: Path) -> list[str]:
    """The names of the checkpoints that the record in ``folder`` has, the newest last."""
    try:
        state = tf.train.get_checkpoint_state(str(folder))
    except ValueError:  # it is there, but empty
        return []
    return [Path(path).name for path in state.all_model_checkpoint_paths] if state else []


def newest(folder: Path) -> Path | None:
    """The checkpoint in ``folder`` that counts, without a suffix; None if there is none."""
    names = recorded(folder)
    return folder / names[-1] if names and (folder / f"{names[-1]}.index").exists() else None


def is_whole(path: Path) -> bool:
    """Whether every tensor of a checkpoint can be read; each has a checksum."""
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
        folder: holds the checkpoints.
        name: of the checkpoint. An earlier one of the same step is removed.
        max_to_keep: how many checkpoints stay, this one included.
    """
    before = recorded(folder)
    others = [known for known in before if _step_of(known) != _step_of(name)]
    kept = [*others, name][-max_to_keep:]
    _write_record(folder, kept)
    present = {file.name.partition(".")[0] for file in folder.glob("ckpt-*.*")}
    passed = {known for known in present if 0 <= _step_of(known) <= _step_of(name)}
    for old in passed.union(before).difference(kept):
        for file in folder.glob(f"{old}.*"):
            file.unlink(missing_ok=True)


def mend_records(folder: Path, previous: bool, report: Callable[[str], None]) -> None:
    """Mends the records of ``last`` and ``best`` in a run's ``checkpoints``, and reports what was done.

    Training can go on without a best one: with ``previous``, one that cannot be read is set aside. See ``mend_record``.
    """
    for name in ("last", "best"):
        if mended := mend_record(folder / name, previous, needed=name == "last"):
            report(mended)


def mend_record(folder: Path, previous: bool = False, needed: bool = True) -> str | None:
    """Makes the record of the checkpoints in ``folder`` name what training can go on from.

    If there is no record, all whole checkpoints are recorded. If none is whole, a lone checkpoint is set aside only if
    ``_is_first`` finds no other trace of training. With ``previous``, recorded checkpoints that cannot be read are set
    aside if an older one is whole: otherwise the next save would remove the whole one and keep them. If none is whole,
    they are set aside where no checkpoint is ``needed``.

    Returns:
        What was done, in a sentence; None if there was nothing to do.

    Raises:
        ValueError: there is no record, none of the checkpoints is whole, and they are not set aside.
        OSError: the folder cannot be written.
    """
    if not folder.is_dir():
        return None
    names, record = recorded(folder), folder / "checkpoint"
    if names:
        if not previous or is_whole(folder / names[-1]):
            return None
        whole = [name for name in names if is_whole(folder / name)]
        if needed and not whole:
            return None  # restoring one says what is wrong with it
        return _set_aside(folder, names, whole)
    there = sorted((each.stem for each in folder.glob("ckpt-*.index")), key=_step_of)
    if not there:
        record.unlink(missing_ok=True)  # empty, of nothing
        return None
    whole = [name for name in there if is_whole(folder / name)]
    if not whole and ((len(there) == 1 and _is_first(folder)) or (previous and not needed)):
        return _set_aside(folder, there, whole)
    if not whole:
        way = "or remove it to begin anew" if needed else "or ask for the previous checkpoint to set them aside"
        raise ValueError(
            f"{record}: expected the record of the checkpoints {', '.join(there)}, found none that can be read, nor is "
            f"any of them whole. Restore the folder from a copy, {way}."
        )
    _write_record(folder, whole)
    return f"{record}: the record was lost and is made anew; the newest checkpoint that is whole is {whole[-1]}"


def _is_first(folder: Path) -> bool:
    """Returns ``True`` if the run has no trace of training beside the checkpoint in ``folder``.

    A power cut during the first save leaves this state: no record, no other checkpoint, and a log without rows. A
    missing log is no evidence, because a copy of the run may be incomplete.
    """
    log = folder.parent.parent / "log.jsonl"
    others = [each for each in folder.parent.glob("*/ckpt-*") if each.parent != folder]
    return log.exists() and not log.stat().st_size and not others and not (folder / "checkpoint").exists()


def _step_of(name: str) -> int:
    """The step in a checkpoint's name."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _set_aside(folder: Path, names: Sequence[str], whole: Sequence[str]) -> str:
    """Keeps those of ``names`` that are ``whole`` on record and renames the others; answers what was done."""
    _write_record(folder, whole)
    damaged = [name for name in names if name not in whole]
    for name in damaged:
        for file in folder.glob(f"{name}.*"):
            file.rename(folder / f"damaged-{file.name}")
    told = f"the newest that is whole is {whole[-1]}" if whole else "none is left"
    return f"{folder}: {', '.join(damaged)} cannot be read, set aside; {told}"


def _write_record(folder: Path, names: Sequence[str]) -> None:
    """Writes the record of the checkpoints ``names``, oldest first, as TensorFlow does: a CheckpointState, as text.

    Without names there is none any more.
    """
    if not names:
        (folder / "checkpoint").unlink(missing_ok=True)
        return
    lines = [f'model_checkpoint_path: "{names[-1]}"', *(f'all_model_checkpoint_paths: "{name}"' for name in names)]
    write_whole(folder / "checkpoint", "\n".join([*lines, ""]))
