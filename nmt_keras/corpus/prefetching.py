"""An iterator that computes items ahead in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")


def prefetched(items: Iterator[Item], ahead: int) -> Iterator[Item]:
    """Yields the items in order. A thread computes up to ``ahead`` items in advance.

    An error of ``items`` is raised after the items that precede it. The thread ends with the returned iterator.
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
