"""uvicorn's HTTP/1.1 protocol with a time limit wherever it waits for the client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 60\r\n"
    b'Connection: close\r\n\r\n{"error": "Too many connections are open. Try again later."}'
)


class _Timer:
    """Calls a function when ``seconds`` have passed since ``start``. ``stop`` prevents the call.

    A timer that does not run holds no reference to the function. A method of a connection would otherwise form a
    reference cycle, and the connection with its buffers would stay in memory until the garbage collector runs.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    def start(self, callback: Callable[[], None]) -> None:
        """Starts the timer unless it is running."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, callback)

    def stop(self) -> None:
        """Stops the timer if it is running."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


def timed_protocol(seconds: float, connections: int) -> type[asyncio.Protocol]:
    """Returns a protocol that closes connections of slow clients, and connections beyond a limit.

    There is one timer for headers and one for answers, because a client may send its next request before it reads the
    last answer. The application limits the time for bodies.

    Args:
        seconds: Time limit in seconds. The headers of a request must arrive within this time after the last answer.
            If an answer fills the send buffer, the client must drain it within this time.
        connections: Maximum number of open connections. A further connection replaces the oldest one that has not sent
            the headers of a request. If there is none, it gets 503 and is closed at once.
    """
    silent: dict[TimedProtocol, None] = {}  # connections that have not sent the headers of a request, oldest first

    class TimedProtocol(H11Protocol):
        """One connection."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._headers_timer = _Timer(seconds)
            self._reading_timer = _Timer(seconds)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections and not self._replaces_silent_connection():
                transport.write(_REFUSAL)
                transport.close()
            else:
                silent[self] = None
                self._headers_timer.start(self._abort)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            silent.pop(self, None)
            self._headers_timer.stop()
            self._reading_timer.stop()
            if self.timeout_keep_alive_task is not None:  # uvicorn stops it only if the connection ended in order
                self.timeout_keep_alive_task.cancel()
                self.timeout_keep_alive_task = None

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None:
                silent.pop(self, None)
            self._time_headers()

        def send_400_response(self, msg: str) -> None:
            if (error := sys.exception()) is not None:
                error.__traceback__ = None  # h11 raises it in a method of its own: a cycle with this connection
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.close()
            if self.cycle is not None:
                self.cycle.disconnected = True  # otherwise the application would send a second answer

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._time_headers()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading_timer.start(self._abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._reading_timer.stop()

        def _time_headers(self) -> None:
            """Runs the timer for headers while no request is being answered."""
            if self.cycle is None or self.cycle.response_complete:
                self._headers_timer.start(self._abort)
            else:
                self._headers_timer.stop()

        def _replaces_silent_connection(self) -> bool:
            """Closes the oldest silent connection. Returns ``False`` if there is none."""
            oldest = next(iter(silent), None)
            if oldest is None:
                return False
            del silent[oldest]
            oldest._abort()
            return True

        def _abort(self) -> None:
            self.transport.abort()

    return TimedProtocol
