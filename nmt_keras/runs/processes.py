"""Runs functions in separate processes, a limited number at a time."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Self

import tensorflow as tf

from nmt_keras.cores import available_cores, use_cores
from nmt_keras.io.lines import print_utf8
from nmt_keras.io.modules import IMPORTED, import_modules
from nmt_keras.training import Interrupted


class Processes:
    """Threads that start processes: at most ``jobs`` at a time, each with its share of the cores.

    Ctrl-C does not reach the processes. If an error or a signal stops this process, it sends them SIGTERM, and training
    saves its state.
    """

    def __init__(self, jobs: int):
        cores = available_cores()
        self._shares: SimpleQueue[list[int]] = SimpleQueue()
        for job in range(jobs):
            self._shares.put(cores[job::jobs] or [cores[job % len(cores)]])
        self.threads = ThreadPoolExecutor(jobs, initializer=self._set_up_thread)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._stopped = threading.Lock(), False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with self._lock:
                self._stopped = True
                for process in self._running:
                    process.terminate()
        self.threads.shutdown(cancel_futures=kind is not None)

    def run(self, target: Callable[..., None], *arguments: Any) -> None:
        """Calls ``target`` in a new process and waits until the process ends. Raises ChildProcessError if it fails."""
        # ``multiprocessing`` starts a resource tracker, which may outlive this process and keep standard error open
        command = [sys.executable, "-c", f"from {__name__} import _called; _called()"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        request = pickle.dumps((IMPORTED, target, arguments))
        with self._lock:
            if self._stopped:
                raise ChildProcessError("stopped")
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            self._running.add(process)
        process.communicate(request)
        with self._lock:
            self._running.remove(process)
        if process.returncode:
            raise ChildProcessError(f"its process ended with exit code {process.returncode}")

    def _set_up_thread(self) -> None:
        """Assigns cores to a thread and blocks SIGINT in it. Processes that the thread starts inherit both."""
        use_cores(self._shares.get())
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _called() -> None:
    """Reads modules to import, a pickled function and its arguments from standard input, and calls the function.

    For an expected error, prints a line instead of a traceback.
    """
    modules, target, arguments = pickle.load(sys.stdin.buffer)
    print_utf8()
    try:
        import_modules(modules)
        target(*arguments)
    except Interrupted as stop:
        sys.exit(128 + stop.signal_number)
    except (OSError, ValueError, FloatingPointError, MemoryError, tf.errors.OpError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
