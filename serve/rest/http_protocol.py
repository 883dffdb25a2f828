"""HTTP/1.1 for slow or hostile clients: uvicorn's protocol, with a time limit wherever it waits for the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol


class _Timer:
    """Calls ``callback`` once ``seconds`` have passed since ``start``, unless it is stopped before."""

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self._seconds = seconds
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts the timer; one that is running goes on."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, self._callback)

    def stop(self) -> None:
        """Stops the timer if it is running."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def timed_protocol(seconds: float, connections: int, refusal: ASGIApp) -> type[asyncio.Protocol]:
    """A protocol that closes the connection of a client that takes too long to send headers or to read an answer.

    The two have a timer each, because both can happen at once: a client may send its next request while it does not
    read the answer to the last one. The application limits the time for bodies.

    Args:
        seconds: Time for the headers of a request, from the end of the last answer; and for reading an answer, from
            when it no longer fits the buffers.
        connections: Number of connections open at once.
        refusal: Application that answers on further connections.
    """

    class TimedProtocol(H11Protocol):
        """One connection."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._headers_timer = _Timer(seconds, self._abort)
            self._reading_timer = _Timer(seconds, self._abort)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections:
                self.app = refusal
            self._headers_timer.start()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._headers_timer.stop()
            self._reading_timer.stop()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._time_headers()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._time_headers()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading_timer.start()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reading_timer.stop()

        def _time_headers(self) -> None:
            """Runs the timer for headers while no request is being answered."""
            if self.cycle is None or self.cycle.response_complete:
                self._headers_timer.start()
            else:
                self._headers_timer.stop()

        def _abort(self) -> None:
            self.transport.abort()

    return TimedProtocol
