"""Simulates power cuts: computes what a folder can hold if the power fails at any point of a piece of work.

The work runs on the real file system. Before and after each watched call the folder is read, and what a disk may have
kept at that point is computed:

- Files that were not fsynced since they changed have lost the change, hold a part of it, or hold all of it; or one of
  them holds a part and the others hold all.
- Changes to the names in a folder that was not fsynced since are all lost, all kept, or only additions or only removals
  are kept.

The contents are read from the disk, so changes that TensorFlow's C++ code made between two watched calls count too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from unittest import mock

WATCHED = ("fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir")
"""Functions of ``os`` before and after which the power may fail."""

Names = dict[str, int]
"""The entries of a folder: inode numbers by name."""

Tree = dict[str, bytes | None]
"""The contents of files by relative path; ``None`` for a folder."""


class Cut(NamedTuple):
    """A folder as it may be after a power cut."""

    folder: Path
    done: bool  # whether the work had returned: then nothing of it may be lost


class Disk:
    """What lies in a folder now (``live``) and what has reached the disk (``kept``), by inode number."""

    def __init__(self, root: Path, stack: ExitStack):
        self.root, self._stack = root, stack
        self.live: dict[int, bytes | Names] = {}
        self.read()
        self.kept = dict(self.live)

    def read(self) -> None:
        """Reads the folder."""
        self._read(self.root)

    def _read(self, path: Path) -> int:
        number = path.stat().st_ino
        if number not in self.live:  # an open descriptor keeps the system from using the inode number again
            self._stack.callback(os.close, os.open(path, os.O_RDONLY))
        if path.is_dir():
            self.live[number] = {child.name: self._read(child) for child in path.iterdir()}
        else:
            self.live[number] = path.read_bytes()
        return number

    def sync(self, descriptor: int) -> None:
        """Takes note of an fsync."""
        number = os.fstat(descriptor).st_ino
        if number in self.live:
            self.kept[number] = self.live[number]

    def trees(self) -> Iterator[Tree]:
        """All trees that a power cut may leave now."""
        changed = [number for number, live in self.live.items() if live != self.kept.get(number, b"")]
        one_torn = [{number: _torn} for number in changed if isinstance(self.live[number], bytes)]
        for names in (_lost_names, _kept_names, _only_added, _only_removed):
            for content in (dict.fromkeys(changed, _lost), dict.fromkeys(changed, _torn), {}, *one_torn):
                tree: Tree = {}
                self._build(self.root.stat().st_ino, "", tree, names, content)
                yield tree

    def _build(self, number: int, path: str, tree: Tree, names: Callable, content: dict[int, Callable]) -> None:
        live = self.live[number]
        if isinstance(live, bytes):
            tree[path] = content[number](self.kept.get(number, b""), live) if number in content else live
            return
        tree[path] = None
        for name, child in names(self.kept.get(number, {}), live).items():
            self._build(child, f"{path}/{name}", tree, names, content)


def _lost_names(kept: Names, live: Names) -> Names:
    return kept


def _kept_names(kept: Names, live: Names) -> Names:
    return live


def _only_added(kept: Names, live: Names) -> Names:
    return {**kept, **live}


def _only_removed(kept: Names, live: Names) -> Names:
    return {name: kept[name] for name in kept if name in live}


def _lost(kept: bytes, live: bytes) -> bytes:
    return kept


def _torn(kept: bytes, live: bytes) -> bytes:
    whole = len(kept) if live.startswith(kept) else 0  # what was appended is torn, what was rewritten is, too
    return live[: (whole + len(live)) // 2]


def power_cuts(folder: Path, work: Callable[[], object], into: Path) -> Iterator[Cut]:
    """Does ``work`` in ``folder`` and yields every different folder that a power cut during or after it may leave.

    Args:
        folder: exists; what it holds before is on the disk.
        work: changes files below ``folder``.
        into: a new folder for the results.
    """
    found: dict[tuple[tuple[str, bytes | None], ...], bool] = {}
    with ExitStack() as stack:
        disk = Disk(folder, stack)

        def look(done: bool = False) -> None:
            disk.read()
            for tree in disk.trees():
                key = tuple(sorted(tree.items()))
                found[key] = found.get(key, False) or done

        def watched(function: Callable) -> Callable:
            def call(*arguments, **options):
                look()
                answer = function(*arguments, **options)
                disk.read()
                if function is fsync:
                    disk.sync(arguments[0])
                look()
                return answer

            return call

        fsync = os.fsync
        for name in WATCHED:
            stack.enter_context(mock.patch.object(os, name, watched(getattr(os, name))))
        work()
        look(done=True)
    for number, (tree, done) in enumerate(found.items()):
        made = into / str(number)
        for path, content in tree:
            place = made / path.lstrip("/")
            if content is None:
                place.mkdir(parents=True)
            else:
                place.write_bytes(content)
        yield Cut(made, done)
