"""Handling of SIGINT, SIGTERM and SIGHUP during training.

The first signal is recorded. A second one takes effect at once, except SIGHUP: a closed terminal may send it twice.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Self, TypeVar

Result = TypeVar("Result")


class Interrupted(KeyboardInterrupt):
    """Raised when a signal has stopped training. The last checkpoint holds the state after ``step``."""

    def __init__(self, step: int, signal_number: int):
        super().__init__(f"stopped at step {step} by {signal.Signals(signal_number).name}")
        self.step, self.signal_number = step, signal_number


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end training after a checkpoint."""


def hangs_up() -> bool:
    """Returns ``True`` if SIGHUP ends the process. Under nohup, the process ignores it."""
    return signal.getsignal(signal.SIGHUP) != signal.SIG_IGN


class StopSignals:
    """Context that records the first of the ``STOPPING`` signals. The previous handlers then handle a second one."""

    received: int | None = None
    """Number of the received signal; ``None`` if none has arrived."""
    _interrupts = False

    def __enter__(self) -> Self:
        heeded = [number for number in STOPPING if number != signal.SIGHUP or hangs_up()]
        self._handlers = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._restore_handlers()
        if signal.SIGHUP in self._handlers:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.received = number
        if self._interrupts:
            raise _Interruption

    def unless_received(self, work: Callable[[], Result]) -> Result | None:
        """Returns the result of ``work``, or ``None`` if a signal has arrived.

        A signal that arrives during ``work`` interrupts it. ``work`` must have no side effects, because it may be
        repeated.
        """
        try:
            try:
                self._interrupts = True
                return work() if self.received is None else None
            finally:
                self._interrupts = False
        except _Interruption:
            return None


class _Interruption(BaseException):
    """Raised by the signal handler to interrupt ``unless_received``."""
