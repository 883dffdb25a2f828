"""Slots for messages that are being received."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

import anyio

from ..models.status import Code, StatusError

PATIENCE = 0.25
"""Seconds after which a call without a message gives up its slot, if another call waits for one. A short message comes
together with its call."""


class Slots:
    """Limits the number of messages that are received at once.

    If calls wait for a slot, as many of the oldest receiving calls lose theirs, each ``PATIENCE`` seconds after it got
    the slot. A waiting call has sent at most a window of 64 KiB.

    Args:
        count: Number of slots.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._waiting = 0
        self._receiving: dict[anyio.CancelScope, float] = {}  # beginning of each, oldest first

    @contextlib.asynccontextmanager
    async def occupied(self) -> AsyncIterator[None]:
        """Waits for a slot and occupies it.

        Raises:
            StatusError: UNAVAILABLE if the message did not arrive in ``PATIENCE``, and another call needed the slot.
        """
        is_waiting = self._free.locked()
        self._change_waiting(+is_waiting)
        try:
            await self._free.acquire()
        finally:
            self._change_waiting(-is_waiting)
        try:
            with anyio.CancelScope() as scope:
                self._receiving[scope] = anyio.current_time()
                self._change_waiting(0)
                yield
        finally:
            del self._receiving[scope]
            self._free.release()
        if scope.cancelled_caught:
            reason = "The message had not arrived when another call needed its slot"
            raise StatusError(Code.UNAVAILABLE, f"{reason}. Try again later.")

    def _change_waiting(self, change: int) -> None:
        """Changes the number of waiting calls, and limits the time of as many receiving calls, the oldest first."""
        self._waiting += change
        for number, (scope, began) in enumerate(self._receiving.items()):
            scope.deadline = began + PATIENCE if number < self._waiting else math.inf
