"""Handling of SIGINT, SIGTERM and SIGHUP during training.

The first signal is recorded. A second one takes effect at once, except SIGHUP: a closed terminal may send it twice.
"""

import signal
import threading
from types import FrameType
from typing import Self


class Interrupted(KeyboardInterrupt):
    """Raised when a signal has stopped training. The last checkpoint holds the state after ``step``."""

    def __init__(self, step: int, signal_number: int):
        super().__init__(f"stopped at step {step} by {signal.Signals(signal_number).name}")
        self.step, self.signal_number = step, signal_number


class StopSignals:
    """Context that records the first signal that ends training. The previous handlers then handle a second one.

    Under nohup, the process ignores SIGHUP. In a thread that is not the main thread, no signal is recorded: Python
    calls handlers in the main thread only.
    """

    received: int | None = None
    """Number of the received signal; ``None`` if none has arrived."""

    def __enter__(self) -> Self:
        ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        heeded = [signal.SIGINT, signal.SIGTERM, *[signal.SIGHUP] * (not ignores_hangup)]
        if threading.current_thread() is not threading.main_thread():
            heeded = []
        self._handlers = {number: signal.signal(number, self._record) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self.__exit__()
        if signal.SIGHUP in self._handlers:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.received = number
