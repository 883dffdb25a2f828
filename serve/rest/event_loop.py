"""Event loop of the embedded server, which leaves Python's lock to the threads that run the models."""

from __future__ import annotations

import asyncio
import selectors
import time

BUSY = 0.005
"""Seconds of work without a wait after which the loop pauses."""

PAUSE = 0.0005
"""Seconds of a pause. A waiting thread needs about a tenth to wake up."""


class _Selector(selectors.DefaultSelector):
    """Pauses after :data:`BUSY` seconds without a wait for clients.

    A busy loop also gives up the lock for microseconds, whenever it reads, writes or looks for events. But it takes it
    again before another thread wakes up, and each of these moments starts the time after which Python would force it to
    give way. A thread then waits for seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waited = time.monotonic()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits for events, as in the base class."""
        began = time.monotonic()
        if began > self._waited + BUSY:
            time.sleep(PAUSE)
        events = super().select(timeout)
        if (ended := time.monotonic()) >= began + PAUSE:
            self._waited = ended
        return events


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Returns an event loop that does not starve other threads."""
    return asyncio.SelectorEventLoop(_Selector())
