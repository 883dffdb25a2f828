"""HTTP/1.1 for clients that may be slow or hostile: uvicorn's protocol with a clock wherever a client is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

RAW_TARGET = "raw_target"
"""Key of the request's target, byte for byte, in the scope's state: ASGI's own keys leave out a bare "?" at its end."""


class _Connection(h11.Connection):
    """Remembers the target of the request that it read last."""

    target = b""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.target = event.target
        return event


def timed_protocol(seconds: float, connections: int, refusal: ASGIApp) -> type[asyncio.Protocol]:
    """A protocol that cuts off a client after ``seconds`` of waiting for the rest of its headers, or for it to read.

    Bodies are the application's to wait for; uvicorn itself closes connections on which nothing comes after an answer.
    The application finds each request's target under RAW_TARGET in the scope's state.

    Args:
        seconds: see above.
        connections: how many may be open.
        refusal: what answers on further ones.
    """

    class TimedProtocol(H11Protocol):
        """Runs one clock at a time: from connection or answer to the next request, and while writing is stuck."""

        _clock: asyncio.TimerHandle | None = None

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.conn = self._recorder = _Connection(h11.SERVER)

        def handle_events(self) -> None:
            super().handle_events()
            if self.scope is not None:  # of the request that is answered now: h11 reads no further one before
                self.scope["state"][RAW_TARGET] = self._recorder.target

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections:
                self.app = refusal
            self._start_clock()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_clock()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self._awaits_request():
                self._stop_clock()
            elif self._clock is None:
                self._start_clock()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._awaits_request():
                self._start_clock()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_clock()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_clock()

        def _awaits_request(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _start_clock(self) -> None:
            self._stop_clock()
            self._clock = self.loop.call_later(seconds, self.transport.abort)

        def _stop_clock(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

    return TimedProtocol
