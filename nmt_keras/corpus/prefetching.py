"""An iterator whose items a thread makes ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """The items, in order; up to ``ahead`` of them are made before they are asked for.

    What ``items`` raises is raised here, in its turn. The thread ends with the iterator that is returned.
    """
    end: Any = object()
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = deque(worker.submit(next, items, end) for _ in range(ahead))
        try:
            while (item := waiting.popleft().result()) is not end:
                waiting.append(worker.submit(next, items, end))
                yield item
        finally:
            for future in waiting:
                future.cancel()
