"""Retries with exponential backoff and jitter, for busy servers."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nmt_keras.io.errors import require

from .answers import Unavailable

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Retry:
    """Number of attempts, and the pauses between them.

    The pause after attempt n is ``first_seconds`` 2^(n-1) times a random number from 0.5 to 1. Without the random
    number, clients that were refused together would return together. ``Retry-After`` of the server is respected up to
    ``longest_seconds``. A request whose connection broke is sent again as well, because translating twice does no harm.
    A request that timed out is not sent again, because it would time out again.
    """

    attempts: int = 5
    """Maximum number of requests, including the first."""
    first_seconds: float = 0.2
    longest_seconds: float = 10.0
    """Maximum pause in seconds."""

    def __post_init__(self) -> None:
        require(self.attempts >= 1, "Retry.attempts", "1 or more", self.attempts)
        seconds = (self.first_seconds, self.longest_seconds)
        require(0 <= seconds[0] <= seconds[1], "Retry.first_seconds", "0 to longest_seconds", seconds)

    def run(self, request: Callable[[], Answer]) -> Answer:
        """Returns the answer of ``request``. Repeats the request while it raises Unavailable."""
        for attempt in range(1, self.attempts):
            try:
                return request()
            except Unavailable as error:
                growing = self.first_seconds * 2.0 ** min(attempt - 1, 60) * random.uniform(0.5, 1.0)
                time.sleep(min(self.longest_seconds, max(error.after_seconds, growing)))
        return request()
