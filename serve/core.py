"""What REST and gRPC share: the models, a place in the queue, a turn to compute, a deadline, and the counts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import anyio
import anyio.to_thread

from .limits import Limits
from .metrics import Entrypoint, Metrics
from .models.repository import Repository
from .models.status import Code, StatusError

Result = TypeVar("Result")


class Core:
    """The server without a protocol; all of it runs on one event loop, and graphs in worker threads.

    Args:
        repository: the models.
        limits: what a request may take.
    """

    def __init__(self, repository: Repository, limits: Limits) -> None:
        self.repository = repository
        self.limits = limits
        self.metrics = Metrics()
        self.turns = anyio.CapacityLimiter(limits.concurrency)
        self._admitted = 0
        self._held = 0

    @contextlib.asynccontextmanager
    async def admit(self, entrypoint: Entrypoint, seconds: float) -> AsyncIterator[Ticket]:
        """Counts a request in and out; while the queue is full, it is turned away before its body is read.

        It has no place in the queue until it takes its turn: a client that is slow to send keeps nobody else waiting.

        Args:
            entrypoint: Protocol of the request.
            seconds: Time limit.

        Raises:
            StatusError: UNAVAILABLE if the queue is full.
        """
        ticket = Ticket(seconds, self)
        code = Code.INTERNAL
        try:
            self._require_place()
            yield ticket
            code = Code.OK
        except StatusError as error:
            code = error.code
            raise
        except anyio.get_cancelled_exc_class():
            code = Code.CANCELLED
            raise
        finally:
            self._held -= ticket.held
            self.metrics.record_request(entrypoint, ticket.model_name, code, ticket.seconds_taken)

    def _require_place(self) -> None:
        if self._admitted >= self.limits.concurrency + self.limits.queue:
            raise StatusError(Code.UNAVAILABLE, f"{self._admitted} requests are waiting already: try again later")

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """A place among those that wait or are computed.

        Raises:
            StatusError: UNAVAILABLE if there is none.
        """
        self._require_place()
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1

    def hold(self, count: int) -> None:
        """Counts bytes of bodies, which all together may be as many as those of a full queue.

        Raises:
            StatusError: UNAVAILABLE for more.
        """
        self._held += count
        if self._held > self.limits.max_body_bytes * (self.limits.concurrency + self.limits.queue):
            raise StatusError(Code.UNAVAILABLE, "Too many large bodies come at the same time: try again later")


class Ticket:
    """A request that was admitted: its deadline, its model, and the size of its body."""

    def __init__(self, seconds: float, core: Core) -> None:
        self._seconds = seconds
        self._core = core
        self._began = time.monotonic()
        self.model_name = ""
        """Name of the model, once it is known to exist."""
        self.held = 0
        """Bytes of its body that have come."""

    def hold(self, count: int) -> None:
        """Notes that so many more bytes of its body have come; see ``Core.hold``."""
        self.held += count
        self._core.hold(count)

    @property
    def seconds_left(self) -> float:
        """Until the deadline; never less than a millisecond, as 0 often means no deadline at all."""
        return max(0.001, self._seconds - self.seconds_taken)

    @property
    def seconds_taken(self) -> float:
        """Time since the request was admitted."""
        return time.monotonic() - self._began

    async def take_turn(self, work: Callable[[], Result]) -> Result:
        """What ``work`` returns; it runs in a worker thread once a turn is free, and has to end by itself in time.

        A caller that is cancelled, because its client has left, gives up its place in the queue. Work that has begun
        keeps place and turn until it ends: a thread cannot be stopped, and others would be computed beside it.

        Raises:
            StatusError: UNAVAILABLE if the queue is full; DEADLINE_EXCEEDED; and what ``work`` raises.
        """
        scope = anyio.CancelScope()

        async def wait_and_work() -> Result | StatusError:
            with scope, self._core.place(), anyio.fail_after(self.seconds_left):
                return await anyio.to_thread.run_sync(_settled, work, limiter=self._core.turns)
            return StatusError(Code.CANCELLED, "Client closed request")

        try:
            outcome = await asyncio.shield(asyncio.ensure_future(wait_and_work()))
        except asyncio.CancelledError:
            scope.cancel()
            raise
        except TimeoutError as error:
            raise StatusError(Code.DEADLINE_EXCEEDED, f"Timed out after {self._seconds:g} seconds") from error
        if isinstance(outcome, StatusError):
            raise outcome
        return outcome

    @contextlib.contextmanager
    def running(self) -> Iterator[float]:
        """Times the graph. Yields the seconds that it may take."""
        began = time.monotonic()
        yield self.seconds_left
        self._core.metrics.record_run(self.model_name, time.monotonic() - began)


def _settled(work: Callable[[], Result]) -> Result | StatusError:
    """What ``work`` returns or raises.

    A thread that raises makes a cycle of the error, its traceback and the future it is handed over in. The frames of
    the traceback hold bodies and documents, up to hundreds of megabytes, until the garbage collector happens to come.
    """
    try:
        return work()
    except StatusError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
