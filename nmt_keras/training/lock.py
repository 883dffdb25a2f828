"""Lock on the run directory during training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import portalocker

from nmt_keras.files import make_run_folder


@contextmanager
def sole_trainer(folder: Path) -> Iterator[None]:
    """Creates the run directory ``folder`` and locks it until the context or the process ends.

    The lock has no effect on file systems without locks, such as some network drives.

    Raises:
        OSError: The run directory cannot be created or written.
        ValueError: Another process is training in it.
    """
    make_run_folder(folder)
    with (folder / "lock").open("a") as file:
        try:
            portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked as error:
            raise ValueError(
                f"{folder}: another process is training in this run directory. "
                "Wait for that process, stop it, or train in a new run directory."
            ) from error
        except portalocker.LockException:
            pass  # the file system has no locks
        yield
