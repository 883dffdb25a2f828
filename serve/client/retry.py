"""When a request is sent again: exponential backoff with jitter, for servers that say that they are busy."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from .answers import Unavailable

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Retry:
    """How often and how patiently. Attempt n is followed by a wait of about ``first_seconds`` 2^(n-1).

    Each wait is drawn from the upper half of its range, so that clients that were turned away together do not come
    back together. A server's own ``Retry-After`` is honoured up to ``longest_seconds``. Translating twice does no harm,
    so requests whose connection broke are sent again as well; one that ran out of time is not: it would again.
    """

    attempts: int = 5
    """Requests at the most, the first included."""
    first_seconds: float = 0.2
    longest_seconds: float = 10.0
    """No wait is longer."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry.attempts: expected 1 or more, received {self.attempts}.")
        if not 0 <= self.first_seconds <= self.longest_seconds:
            raise ValueError(
                "Retry.first_seconds: expected 0 to longest_seconds, "
                f"received {self.first_seconds} and {self.longest_seconds}."
            )

    def run(self, request: Callable[[], Answer]) -> Answer:
        """The answer of ``request``, called again while it raises Unavailable and attempts are left."""
        for attempt in range(1, self.attempts):
            try:
                return request()
            except Unavailable as error:
                time.sleep(self._wait(attempt, error.after_seconds))
        return request()

    def _wait(self, attempt: int, asked_seconds: float) -> float:
        """Seconds to wait after failed attempt number ``attempt``."""
        growing = self.first_seconds * 2.0 ** min(attempt - 1, 60)
        return min(self.longest_seconds, max(asked_seconds, growing * random.uniform(0.5, 1.0)))
