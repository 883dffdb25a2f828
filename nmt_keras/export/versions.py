"""A model's folder: numbered versions, each of which appears whole and disappears whole."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt_keras.files import ABANDONED_AFTER, make_folder, require_format, settle, settle_below

EXTRA = "assets.extra"
"""What lies beside the model, and no loader but a server's warm-up reads."""

MANIFEST = Path(EXTRA) / "manifest.json"

FORMAT = 1
"""Format number of exported versions, stored in the manifest."""

PARTIAL, DELETED = "partial-", "deleted-"
"""How the names of folders begin that are being written or deleted: no server takes them for a version."""


def versions(model_folder: Path) -> list[int]:
    """The versions under ``saved_models/NAME``, ascending: each child whose name is a number."""
    return sorted(_numbered(model_folder))


def read_manifest(version_folder: Path) -> dict[str, Any]:
    """The manifest of an exported version; {} where it has none."""
    path = version_folder / MANIFEST
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def require_export_format(version_folder: Path) -> None:
    """Raises ValueError unless the manifest of an exported version has the format of this package."""
    found = read_manifest(version_folder).get("format")
    require_format(version_folder / MANIFEST, found, FORMAT, "Export the run again with this version of nmt_keras.")


def publish(model_folder: Path, write: Callable[[Path], None]) -> Path:
    """Makes the next version of a model.

    It is written into a sibling whose name is no number, flushed to the disk, and then renamed: a server that watches
    the model's folder sees the whole version or none, and an interrupted export leaves no numbered directory.

    Args:
        model_folder: ``saved_models/NAME``; made if need be.
        write: writes everything into the empty folder that it is given.

    Returns:
        ``saved_models/NAME/VERSION``.

    Raises:
        OSError: the folder cannot be written.
    """
    make_folder(model_folder)
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=model_folder))
    try:
        write(partial)
        partial.chmod(0o755)
        settle_below(partial)
        final = _numbered_next(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    settle([model_folder])
    return final


def prune(model_folder: Path, max_to_keep: int, labelled: Collection[int] = ()) -> list[Path]:
    """Deletes all versions but the newest ``max_to_keep``, and what killed exports and killed deletions left behind.

    A version gets a name that is no number before anything in it is deleted, so a server that watches the folder never
    finds half of one. A version that is being written is let be, unless nothing in it has changed for an hour.

    Args:
        model_folder: ``saved_models/NAME``.
        max_to_keep: how many stay; at least 1. With 2, a server can go back to the version before.
        labelled: versions that stay whatever their age: those that a server's labels point to.

    Returns:
        The folders of the deleted versions, oldest first, as they were called.

    Raises:
        ValueError: ``max_to_keep`` is not positive.
        OSError: a version cannot be renamed.
    """
    if max_to_keep < 1:
        raise ValueError(f"max_to_keep: expected at least 1 version to stay, received {max_to_keep}.")
    found = _numbered(model_folder)
    stay = {*sorted(found)[-max_to_keep:], *labelled}
    gone = []
    for folder in [folder for number in sorted(found.keys() - stay) for folder in found[number]]:
        with suppress(FileNotFoundError):  # another who prunes may be at it too
            os.rename(folder, folder.with_name(f"{DELETED}{folder.name}-{uuid.uuid4().hex}"))
            gone.append(folder)
    if gone:
        settle([model_folder])  # else a power cut may bring back the number of a version that has lost files
    for child in _left_behind(model_folder):
        shutil.rmtree(child, ignore_errors=True)
    return gone


def _numbered(model_folder: Path) -> dict[int, list[Path]]:
    """The folders of each version: "7" and "007" are the same to a server."""
    found: dict[int, list[Path]] = {}
    for child in sorted(model_folder.iterdir()) if model_folder.is_dir() else ():
        if child.name.isdecimal() and child.is_dir():
            found.setdefault(int(child.name), []).append(child)
    return found


def _numbered_next(partial: Path) -> Path:
    """Renames ``partial`` to the next number and answers its new path."""
    while True:
        taken = [int(child.name) for child in partial.parent.iterdir() if child.name.isdecimal()]
        final = partial.with_name(str(max(taken, default=0) + 1))
        try:
            os.rename(partial, final)
        except OSError:
            if not final.exists():  # else somebody else took the number meanwhile
                raise
        else:
            return final


def _left_behind(model_folder: Path) -> Iterator[Path]:
    """Children that nobody writes any more and nobody reads."""
    for child in list(model_folder.iterdir()) if model_folder.is_dir() else ():
        abandoned = child.name.startswith(PARTIAL) and time.time() - _last_change(child) > ABANDONED_AFTER
        if abandoned or child.name.startswith(DELETED):
            yield child


def _last_change(folder: Path) -> float:
    """When something in ``folder`` changed last, in seconds since the epoch."""
    latest = 0.0
    for path in (folder, *folder.rglob("*")):
        try:
            latest = max(latest, path.stat().st_mtime)
        except FileNotFoundError:  # renamed or deleted meanwhile: somebody is at it
            return time.time()
    return latest
