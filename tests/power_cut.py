"""Simulates power cuts: computes what a folder can hold if the power fails at any point of a piece of work.

The work runs on the real file system. Before and after each call of the functions in ``WATCHED``, and when the work has
returned, the model reads the folder and computes what a disk may have kept at that point:

- Changed contents: a file that was not fsynced since it changed has lost the change, holds a part of it, or holds all
  of it. Either all such files are in the same one of these states, or one file holds a part and the others hold all.
- Changed names: in folders that were not fsynced since the change, all changes are lost, all are kept, only additions
  or only removals are kept, or any single change is lost or kept alone.

Only the calls in ``WATCHED`` are cut points. Calls that open or write a file are not; torn contents represent a cut
during such a call. The model reads contents and names from the disk. It therefore includes changes that TensorFlow's
C++ code makes between two watched calls, but only their final state before the next watched call.
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

Change = tuple[int, str]
"""An entry of a folder that was added, replaced or removed: the inode number of the folder, and the name."""

Tree = dict[str, bytes | None]
"""The contents of files by relative path; ``None`` for a folder."""


class Cut(NamedTuple):
    """A possible state of a folder after a power cut."""

    folder: Path
    done: bool  # if True, the work had returned, and nothing of it may be lost


class Disk:
    """The present content of a folder (``live``) and the content that has reached the disk (``kept``).

    Both map inode numbers to the content of a file, or to the inode numbers of a folder's entries by name.
    """

    def __init__(self, root: Path, stack: ExitStack):
        self.root, self._stack = root, stack
        self.live: dict[int, bytes | dict[str, int]] = {}
        self.read(root)
        self.kept = dict(self.live)

    def read(self, path: Path) -> int:
        """Reads a file or folder and returns its inode number."""
        number = path.stat().st_ino
        if number not in self.live:  # an open descriptor prevents the system from reusing the inode number
            self._stack.callback(os.close, os.open(path, os.O_RDONLY))
        if path.is_dir():
            self.live[number] = {child.name: self.read(child) for child in path.iterdir()}
        else:
            self.live[number] = path.read_bytes()
        return number

    def sync(self, descriptor: int) -> None:
        """Records an fsync."""
        number = os.fstat(descriptor).st_ino
        if number in self.live:
            self.kept[number] = self.live[number]

    def trees(self) -> Iterator[Tree]:
        """Yields all trees that a power cut may leave now."""
        changed = [number for number, live in self.live.items() if live != self.kept.get(number, b"")]
        one_torn = [{number: _torn} for number in changed if isinstance(self.live[number], bytes)]
        for names in self._kept_changes():
            for content in (
                dict.fromkeys(changed, lambda kept, live: kept),
                dict.fromkeys(changed, _torn),
                {},
                *one_torn,
            ):
                tree: Tree = {}
                self._build(self.root.stat().st_ino, "", tree, names, content)
                yield tree

    def _kept_changes(self) -> set[frozenset[Change]]:
        """Returns the sets of changed names that may have reached the disk."""
        added, removed = set[Change](), set[Change]()
        for number, live in self.live.items():
            if isinstance(live, dict):
                kept = self.kept.get(number, {})
                added |= {(number, name) for name in live if live[name] != kept.get(name)}
                removed |= {(number, name) for name in kept if name not in live}
        changes = frozenset(added | removed)
        single = [frozenset({change}) for change in changes]
        return {frozenset(), frozenset(added), frozenset(removed), *single, *(changes - one for one in single)}

    def _build(
        self, number: int, path: str, tree: Tree, names: frozenset[Change], content: dict[int, Callable]
    ) -> None:
        live = self.live[number]
        if isinstance(live, bytes):
            tree[path] = content[number](self.kept.get(number, b""), live) if number in content else live
            return
        tree[path] = None
        kept = self.kept.get(number, {})
        for name in {**kept, **live}:
            child = (live if (number, name) in names else kept).get(name)
            if child is not None:
                self._build(child, f"{path}/{name}", tree, names, content)


def _torn(kept: bytes, live: bytes) -> bytes:
    whole = len(kept) if live.startswith(kept) else 0  # a file that was appended to loses only new bytes
    return live[: (whole + len(live)) // 2]


def power_cuts(folder: Path, work: Callable[[], object], into: Path) -> Iterator[Cut]:
    """Runs ``work`` in ``folder`` and yields each distinct folder that a power cut during or after it can leave.

    Args:
        folder: An existing folder. Its present content has reached the disk.
        work: Function that changes files below ``folder``.
        into: New folder for the results.
    """
    found: dict[tuple[tuple[str, bytes | None], ...], bool] = {}
    with ExitStack() as stack:
        disk = Disk(folder, stack)

        def look(done: bool = False) -> None:
            disk.read(folder)
            for tree in disk.trees():
                key = tuple(sorted(tree.items()))
                found[key] = found.get(key, False) or done

        def watched(function: Callable) -> Callable:
            def call(*arguments, **options):
                look()
                answer = function(*arguments, **options)
                disk.read(folder)
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
