"""Handling of SIGINT and SIGTERM during training. The first signal is recorded. A second one takes effect at once."""

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


class StopSignals:
    """Context that records the first SIGINT or SIGTERM. The previous handlers then handle any second signal."""

    received: int | None = None
    """Number of the received signal; ``None`` if none has arrived."""
    _interrupts = False

    def __enter__(self) -> Self:
        self._handlers = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._restore_handlers()
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
