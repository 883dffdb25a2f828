"""Calls that can be abandoned: a thread of their own waits for them, and does not keep the process alive."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def abandonable(call: Callable[[], Result]) -> Future[Result]:
    """Starts ``call`` in a thread, and returns its future result. A wait for it can end before the call does."""
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # raised again in the waiting thread, by outcome.result
            outcome.set_exception(error)

    threading.Thread(target=run, name="abandonable", daemon=True).start()
    return outcome
