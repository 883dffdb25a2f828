"""The server without a protocol: models, queue, deadlines and counts of requests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TypeVar

import anyio
import anyio.to_thread

from .limits import Limits
from .metrics import Metrics
from .models.repository import Repository
from .models.status import Code, StatusError, client_left

Result = TypeVar("Result")

SMALL_BODY = 4096
"""Maximum bytes of the body of a small request. By beam search, it takes up to a second, even if its text is many short
sentences. A compressed body is never small, because its bytes do not bound its text."""


class Core:
    """The server without a protocol. It runs on one event loop, and graphs run in worker threads.

    Args:
        repository: The models.
        limits: Limits of requests.
    """

    def __init__(self, repository: Repository, limits: Limits) -> None:
        self.repository = repository
        self.limits = limits
        self.turns = anyio.CapacityLimiter(limits.concurrency)
        self.turns_of_large = anyio.CapacityLimiter(max(1, limits.concurrency - 1))
        self._admitted = {"small": 0, "large": 0}
        self.metrics = Metrics(
            lambda: self.turns.borrowed_tokens,
            lambda: max(0, sum(self._admitted.values()) - self.turns.borrowed_tokens),
            repository.available,
            repository.failed,
        )

    @contextlib.asynccontextmanager
    async def admit(self, model_name: str) -> AsyncIterator[Ticket]:
        """Counts a request. If the queue is full, refuses the request before its body is read.

        A request occupies a place in the queue only after its body has arrived. A slow client therefore does not delay
        other clients.

        Args:
            model_name: Name in the request. The metrics count it only if such a model is served.

        Raises:
            StatusError: UNAVAILABLE if the queue is full.
        """
        is_served = model_name in dict(self.repository.available())
        ticket = Ticket(model_name if is_served else "", self)
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
            self.metrics.record_request(ticket.model_name, code, ticket.seconds_taken)

    def _require_place(self, *, is_small: bool = True) -> None:
        most, waiting = self.limits.concurrency + self.limits.queue, sum(self._admitted.values())
        is_full_of_large = self._admitted["large"] >= self.limits.concurrency + self.limits.queue // 2
        if waiting >= most or (is_full_of_large and not is_small):
            raise StatusError(Code.UNAVAILABLE, f"The queue is full: {waiting} requests. Try again later.")

    @contextlib.contextmanager
    def place(self, *, is_small: bool = True) -> Iterator[None]:
        """Holds a place in the queue. Large requests leave half of it to small ones.

        Raises:
            StatusError: UNAVAILABLE if the queue is full.
        """
        self._require_place(is_small=is_small)
        size = "small" if is_small else "large"
        self._admitted[size] += 1
        try:
            yield
        finally:
            self._admitted[size] -= 1


class Ticket:
    """An admitted request: its deadline and its model."""

    def __init__(self, model_name: str, core: Core) -> None:
        self._seconds = core.limits.seconds
        self._core = core
        self._began = time.monotonic()
        self.model_name = model_name
        """Name of the model. Empty if it is not served."""

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 0.001, because 0 often means no deadline."""
        return max(0.001, self._seconds - self.seconds_taken)

    @property
    def seconds_taken(self) -> float:
        """Seconds since the request was admitted."""
        return time.monotonic() - self._began

    def require_time(self) -> None:
        """Raises DEADLINE_EXCEEDED after the deadline."""
        if self.seconds_taken > self._seconds:
            raise self._late()

    def _late(self) -> StatusError:
        return StatusError(Code.DEADLINE_EXCEEDED, f"Timed out after {self._seconds:g} seconds")

    async def take_turn(
        self, work: Callable[[], Result], left: Coroutine[object, object, None], *, is_small: bool
    ) -> Result:
        """Runs ``work`` in a worker thread when a turn is free, and returns its result.

        One turn is kept for small requests, so that they do not wait for large ones, unless there is only one.

        After the deadline, or if the client leaves, a request that waits gives up its place in the queue. Work that has
        begun keeps its place and its turn until it ends, because a thread cannot be stopped.

        Args:
            work: Function that computes the answer.
            left: Returns when the client has left.
            is_small: If `True`, the request may take the turn that is kept.

        Raises:
            StatusError: UNAVAILABLE if the queue is full; DEADLINE_EXCEEDED after the deadline; CANCELLED if the client
                left; an error of ``work``.
        """
        scope = anyio.CancelScope()

        async def wait_and_work() -> Result | StatusError:
            with scope, self._core.place(is_small=is_small):
                async with contextlib.nullcontext() if is_small else self._core.turns_of_large:
                    return await anyio.to_thread.run_sync(_settled, work, limiter=self._core.turns)
            return client_left()

        working, leaving = asyncio.create_task(wait_and_work()), asyncio.create_task(left)
        try:
            await asyncio.wait((working, leaving), timeout=self.seconds_left, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise client_left() if leaving.done() else self._late()
            outcome = working.result()
        finally:
            scope.cancel()  # has no effect on work that has begun
            leaving.cancel()
            del working  # it may hold an error, whose traceback holds this frame
        if isinstance(outcome, StatusError):
            try:
                raise outcome
            finally:
                del outcome  # the traceback holds this frame: together they would be a reference cycle
        return outcome


def _settled(work: Callable[[], Result]) -> Result | StatusError:
    """Returns the result of ``work``, or its StatusError without a traceback.

    An error raised in a thread forms a reference cycle with its traceback and its future. The traceback's frames would
    keep bodies and documents, up to hundreds of megabytes, in memory until the garbage collector runs.
    """
    try:
        return work()
    except StatusError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
