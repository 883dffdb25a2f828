"""One trainer to a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import portalocker

from nmt_keras.files import make_run_folder


@contextmanager
def sole_trainer(folder: Path) -> Iterator[None]:
    """Keeps other processes from training in the run directory ``folder``; the system lets go when this process ends.

    On a file system that knows no locks, such as some network drives, nobody is kept away.

    Raises:
        OSError: the run directory cannot be made or written.
        ValueError: another process is training there.
    """
    make_run_folder(folder)
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
