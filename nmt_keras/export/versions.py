"""Folder of the numbered versions of a model. Each version appears and disappears atomically."""

import os
import re
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nmt_keras.config import require
from nmt_keras.io.files import is_abandoned, locked, make_folder, sync, sync_folder, writing
from nmt_keras.manifest import versions

_LEFTOVER = re.compile(r"(partial|deleted-[0-9]+)-[0-9a-f]{32}")
"""Name of a folder that is being written or deleted. Servers ignore it, because it is not a number."""

_NUMBER = re.compile(r"(?:(?!partial)[a-z]+-)?([0-9]+)")
"""Name of a version, or of one that was set aside, such as rejected-2: a server may still serve this number."""

FOLDER_MODE, FILE_MODE = 0o755, 0o644
"""Modes of a published version."""


def publish(model_folder: Path, write: Callable[[Path], None]) -> Path:
    """Writes the next version of a model.

    The version is written into a folder whose name is not a number, flushed to disk, and then renamed. A server
    therefore never sees an incomplete version, and an interrupted export leaves no numbered folder. All users can read
    the version, whatever the umask, because a server often runs as another user. Leftovers of killed exports are
    removed; see ``prune``.

    Args:
        model_folder: ``saved_models/NAME``; created if missing.
        write: Function that writes all files into an empty folder.

    Returns:
        ``saved_models/NAME/VERSION``.

    Raises:
        OSError: the folder cannot be written. The message names it and states the reason.
    """
    with writing(model_folder, "No version was written."):
        new = [each for each in (model_folder, *model_folder.parents) if not each.exists()]
        make_folder(model_folder)
        for each in new:
            each.chmod(FOLDER_MODE)
        _remove_leftovers(model_folder)
        partial = model_folder / f"partial-{uuid.uuid4().hex}"
        partial.mkdir(0o700)
        try:
            write(partial)
            for path in (partial, *partial.rglob("*")):
                path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
            sync_folder(partial)
            with locked(partial):  # two exports take different numbers
                taken = [int(found[1]) for child in model_folder.iterdir() if (found := _NUMBER.fullmatch(child.name))]
                final = partial.with_name(str(max(taken, default=0) + 1))
                os.rename(partial, final)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        sync([model_folder])
        return final


def prune(model_folder: Path, max_to_keep: int) -> None:
    """Deletes old versions and the leftovers of killed exports and deletions.

    A version is renamed before its files are deleted, so a server never sees an incomplete version. A partial folder is
    deleted if it has not changed for an hour.

    Args:
        model_folder: ``saved_models/NAME``.
        max_to_keep: Number of newest versions to keep, at least 1. With 2, a server can return to the previous version.

    Raises:
        ValueError: ``max_to_keep`` is not positive.
        OSError: a version cannot be renamed.
    """
    require(max_to_keep >= 1, "max_to_keep", "at least 1 version to keep", max_to_keep)
    found = versions(model_folder)
    for number in [*found][:-max_to_keep]:
        with suppress(FileNotFoundError):  # another process may have renamed it
            os.rename(found[number], model_folder / f"deleted-{number}-{uuid.uuid4().hex}")
    if found:
        sync([model_folder])  # before files are removed: a power cut must not undo the renaming
    _remove_leftovers(model_folder)


def _remove_leftovers(model_folder: Path) -> None:
    for left in model_folder.glob("*-*"):
        found = _LEFTOVER.fullmatch(left.name)
        with suppress(FileNotFoundError):  # its writer may rename it at this moment
            if found and (found[1] != "partial" or is_abandoned(left)):
                shutil.rmtree(left, ignore_errors=True)
