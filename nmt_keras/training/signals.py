"""SIGINT and SIGTERM while training: the first is noted and asked for after each update, a second acts at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop by a signal; the last checkpoint holds everything up to this step."""

    def __init__(self, step: int, signal_number: int):
        super().__init__(f"stopped at step {step} by {signal.Signals(signal_number).name}")
        self.step, self.signal_number = step, signal_number


@contextmanager
def stop_signals() -> Iterator[Callable[[], int | None]]:
    """Turns the first SIGINT or SIGTERM into a number that the yielded function returns; a second one acts at once."""
    received: list[int] = []

    def note(number: int, _frame: Any) -> None:
        received.append(number)
        for each, handler in previous.items():
            signal.signal(each, handler)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
