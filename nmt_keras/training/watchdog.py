"""Watchdogs, which end a process whose main thread hangs in native code.

Python raises exceptions and calls signal handlers between two bytecodes of the main thread. While TensorFlow waits for
other workers or compiles, the main thread executes no bytecode. Only another thread can end the process then.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

SECONDS_TO_REACT = 60.0
"""Seconds that a process may take to react to SIGTERM. After that, it is ended."""


@contextmanager
def time_limit(seconds: float, waits_for: str) -> Iterator[None]:
    """Ends the process with exit code 1 and a traceback if the block takes longer than ``seconds``.

    TensorFlow holds Python's global interpreter lock (GIL) while it waits for other workers. faulthandler ends the
    process from a thread that does not need the GIL.

    Args:
        seconds: Time limit in seconds.
        waits_for: Description of what the block waits for, such as "the workers". It is printed.
    """
    print(f"nmt: waiting at most {seconds:.0f} s for {waits_for}", file=sys.stderr, flush=True)
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def watching_sigterm(seconds: float = SECONDS_TO_REACT) -> Iterator[None]:
    """Ends the process if its main thread executes no bytecode within ``seconds`` after SIGTERM.

    Without a Python handler for SIGTERM, the signal ends the process at once, as usual. Call this in the main thread.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # with several workers, TensorFlow has installed its own handler: install Python's handler again
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, seconds), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # ends the thread


def _watch(reader: int, seconds: float) -> None:
    """Reads the numbers of received signals until the pipe is closed. Ends the process if it does not react."""
    with open(reader, "rb", buffering=0) as numbers:
        while number := numbers.read(1):
            if number[0] in (signal.SIGTERM, signal.SIGHUP) and not _reacts(seconds):
                _end(
                    f"{signal.Signals(number[0]).name}: ending the process, because a TensorFlow call did not return "
                    f"within {seconds:.0f} s. The last checkpoint is complete. Run the same command again to resume "
                    "training.",
                    128 + number[0],
                )


def _reacts(seconds: float) -> bool:
    """Returns ``True`` if the main thread executes bytecode within ``seconds``."""
    _REACTED.clear()
    ctypes.pythonapi.Py_AddPendingCall(_react, None)
    return _REACTED.wait(seconds)


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def _react(_: None) -> int:
    """Called by the interpreter between two bytecodes of the main thread."""
    _REACTED.set()
    return 0


_REACTED = threading.Event()


def _end(message: str, code: int) -> NoReturn:
    print(f"nmt: {message}", file=sys.stderr, flush=True)
    os._exit(code)
