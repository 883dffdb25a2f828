"""uvicorn's HTTP/1.1 protocol, with time limits for clients and a maximum number of connections."""

import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..limits import Limits
from ..metrics import Metrics

logger = logging.getLogger(__name__)

MAX_READ = 4096
"""Maximum bytes that are read from a connection in a turn of the event loop."""

SLOW = 0.001
"""Seconds of parsing after which a connection is not read for ten times as long. A client that sends many chunks of a
byte, each of which takes about 10 microseconds, therefore delays itself more than others."""


class LimitedProtocol(H11Protocol):
    """One connection.

    The headers of a request must arrive within the time limit after the connection opens or the previous answer is
    sent. The client must have read enough of an answer within twice the limit after the headers, and the rest of it
    within the limit. The application limits the time for bodies. Connections beyond the maximum are closed at once.
    """

    limits: Limits
    """Set in a subclass, as is ``metrics``, because uvicorn creates the connections."""
    metrics: Metrics

    def connection_made(self, transport: Any) -> None:
        """Starts to wait for headers."""
        super().connection_made(transport)
        transport.max_size = MAX_READ
        self._timer = self.loop.call_later(self.limits.seconds, transport.abort)
        if len(self.connections) > self.limits.connections:
            self.metrics.record_refusal("connection")
            logger.warning("Connections are refused: more than --connections %d", self.limits.connections)
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the wait."""
        super().connection_lost(exc)
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parses a part of a request."""
        began = time.thread_time()
        super().data_received(data)
        if (seconds := time.thread_time() - began) > SLOW:
            self.transport.pause_reading()
            self.loop.call_later(10 * seconds, self._read_again)

    def _read_again(self) -> None:
        if not self.flow.read_paused:
            self.transport.resume_reading()

    def handle_events(self) -> None:
        """Passes requests to the application."""
        previous = self.cycle
        super().handle_events()
        if self.cycle is not previous:
            self._allow(2 * self.limits.seconds)

    def on_response_complete(self) -> None:
        """Waits for the headers of the next request."""
        self._allow(self.limits.seconds)
        super().on_response_complete()

    def _allow(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Refuses a malformed request."""
        self.metrics.record_refusal("request")
        logger.warning("Malformed HTTP requests are refused")
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # uvicorn would raise an error, because an answer has begun
            self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True  # otherwise the application would send a second answer
