"""One trainer to a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import portalocker


@contextmanager
def sole_trainer(folder: Path) -> Iterator[None]:
    """Keeps other processes from training in the run directory ``folder``; the system lets go when this process ends.

    On a file system that knows no locks, such as some network drives, nobody is kept away.

    Raises:
        ValueError: another process is training there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked as error:
            raise ValueError(
                f"{folder}: expected a run that nobody trains, another process is training it. "
                "Wait for it, stop it, or train in a new run directory."
            ) from error
        except portalocker.LockException:
            pass
        yield
