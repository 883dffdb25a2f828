"""uvicorn's HTTP/1.1 protocol with a time limit wherever it waits for the client, and with a limit of work.

All connections share one event loop. In each of its turns, a connection may only parse a few parts of requests, such as
chunks of a body. A client that sends many small parts therefore delays itself, but not others.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 60\r\n"
    b'Connection: close\r\n\r\n{"error": "Too many connections are open. Try again later."}'
)


MAX_EVENTS = 32
"""Maximum number of parts of requests, such as a chunk of a body, that a connection parses in a turn of the event loop.
A part takes about 10 microseconds."""

MAX_HEADERS = 16384
"""Maximum bytes of a request's headers, or of the trailers of its body. Each kilobyte takes up to 0.5 ms."""

PIECE = 4096
"""Maximum bytes that the parser gets at once. It accepts headers of any size if they arrive at once."""


_TWO_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Headers that must not occur together: a proxy in front of the server could find the end of the body elsewhere."""


class _Parser(h11.Connection):
    """h11's parser of a server. It returns at most ``events_left`` events."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEADERS)
        self.events_left = MAX_EVENTS

    def next_event(self) -> Any:
        """Returns the next event, or NEED_DATA if there is none in this turn."""
        if not self.events_left:
            return h11.NEED_DATA
        self.events_left -= 1
        event = super().next_event()
        if isinstance(event, h11.Request) and _TWO_LENGTHS <= {name for name, _ in event.headers}:
            raise h11.RemoteProtocolError("A request must not have both Content-Length and Transfer-Encoding")
        return event

    @property
    def is_receptive(self) -> bool:
        """If `True`, the client's next bytes belong to the current request."""
        return self.their_state in (h11.IDLE, h11.SEND_BODY)


class _Timer:
    """Calls a function when ``seconds`` have passed since ``start``. ``stop`` prevents the call.

    A timer that does not run holds no reference to the function. A stored method would form a reference
    cycle with its connection, which would keep the connection and its buffers until the garbage collector runs.
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

    Headers and answers have separate timers, because a client may send its next request before it has read the previous
    answer. The application limits the time for bodies.

    Args:
        seconds: Time limit in seconds. The headers of a request must arrive within this time after the connection opens
            or the previous answer ends. If an answer fills the send buffer, the client must read it to its end within
            this time.
        connections: Maximum number of open connections. At the limit, a new connection replaces one that waits for its
            client and has no unsent data. The server searches these groups in order, and closes the connection that has
            waited longest: open for over a second without a request; between two requests; open for less than a second
            without a request; with an incomplete body. If none can be replaced, the new connection gets 503 and is
            closed at once.
    """
    # Each maps connections to the time when they began to wait, oldest first.
    silent: dict[TimedProtocol, float] = {}  # no request yet
    idle: dict[TimedProtocol, float] = {}  # between two requests
    incomplete: dict[TimedProtocol, float] = {}  # headers received, body incomplete

    class TimedProtocol(H11Protocol):
        """One connection."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._headers_timer = _Timer(seconds)
            self._reading_timer = _Timer(seconds)
            self._waits_in: dict[TimedProtocol, float] | None = None
            self.conn: _Parser = _Parser()
            self._unparsed = bytearray()
            self._has_turn = False  # scheduled

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections and not self._replaces_another():
                transport.write(_REFUSAL)
                transport.close()
            else:
                self._follow()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._wait_in(None)
            self._headers_timer.stop()
            self._reading_timer.stop()
            if self.timeout_keep_alive_task is not None:  # uvicorn stops it only if the connection closed normally
                self.timeout_keep_alive_task.cancel()
                self.timeout_keep_alive_task = None

        def data_received(self, data: bytes) -> None:
            self._unparsed += data
            if not self._has_turn:
                self._parse()
            self._control_reading()

        def _parse(self) -> None:
            """Parses received bytes for one turn of the event loop. The next turn continues."""
            self._has_turn = False
            if self.transport.is_closing():
                return
            self.conn.events_left = MAX_EVENTS
            self.handle_events()  # what the last turn left
            while self._unparsed and self.conn.events_left and self.conn.is_receptive:
                if self.transport.is_closing():  # the request was refused
                    return
                piece = bytes(self._unparsed[:PIECE])
                del self._unparsed[:PIECE]
                super().data_received(piece)
            self._follow()
            self._continue()

        def _continue(self) -> None:
            """Takes another turn if there is something to parse. A request waits until the one before is answered."""
            is_unfinished = not self.conn.events_left or (self._unparsed and self.conn.is_receptive)
            if is_unfinished and not self._has_turn:
                self._has_turn = True
                self.loop.call_soon(self._parse)
            self._control_reading()

        def _control_reading(self) -> None:
            """Reads from the client only if everything received is parsed."""
            if self._has_turn or self._unparsed or self.flow.read_paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

        def send_400_response(self, msg: str) -> None:
            if (error := sys.exception()) is not None:
                # h11 raises the error again in one of the error's own methods, so its traceback refers back to it. This
                # reference cycle would keep the error and this connection until the garbage collector runs.
                error.__traceback__ = None
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                super().send_400_response(msg)
            else:
                self.transport.close()
            if self.cycle is not None:
                self.cycle.disconnected = True  # otherwise the application would send a second answer

        def on_response_complete(self) -> None:
            self._stop_reading_timer()
            super().on_response_complete()
            self._follow()
            self._continue()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading_timer.start(self._abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_reading_timer()

        def _stop_reading_timer(self) -> None:
            """Stops the timer for answers if the client has read enough of the last one."""
            if not self.flow.write_paused and self.cycle is not None and self.cycle.response_complete:
                self._reading_timer.stop()

        def _follow(self) -> None:
            """Runs the timer for headers while no request is being answered. Records what the connection waits for."""
            if self.cycle is None or self.cycle.response_complete:
                self._headers_timer.start(self._abort)
            else:
                self._headers_timer.stop()
            if self.transport.is_closing():
                self._wait_in(None)
            elif self.cycle is None:
                self._wait_in(silent)
            elif self.cycle.response_complete:
                self._wait_in(idle)
            else:
                self._wait_in(incomplete if self.cycle.more_body else None)

        def _wait_in(self, kind: dict[TimedProtocol, float] | None) -> None:
            """Moves the connection to the end of ``kind``. If ``kind`` is ``None``, the connection does not wait."""
            if kind is not self._waits_in:
                if self._waits_in is not None:
                    del self._waits_in[self]
                if kind is not None:
                    kind[self] = time.monotonic()
                self._waits_in = kind

        def _replaces_another(self) -> bool:
            """Closes a connection that waits for its client. Returns ``False`` if there is none."""
            now = time.monotonic()
            long_silent = itertools.takewhile(lambda other: silent[other] < now - 1.0, silent)
            for other in itertools.chain(long_silent, idle, silent, incomplete):
                if other.transport.get_write_buffer_size() == 0:  # otherwise its answer would be lost
                    other._wait_in(None)
                    other._abort()
                    return True
            return False

        def _abort(self) -> None:
            self.transport.abort()

    return TimedProtocol
