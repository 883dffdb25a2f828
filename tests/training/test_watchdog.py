"""Watchdogs: they end processes that wait in a call of TensorFlow."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nmt_keras
from nmt_keras.training.watchdog import watching_sigterm

ROOT = Path(nmt_keras.__file__).parents[1]

WAITING = """
import signal, sys
import tensorflow as tf
from nmt_keras.training.watchdog import time_limit, watching_sigterm
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with {watchdog}:
    print("waiting", flush=True)
    {wait}
"""

IN_TENSORFLOW = "tf.queue.FIFOQueue(1, tf.int32).dequeue()"
IN_PYTHON = "while True: pass"


def waiting(watchdog, wait):
    """Runs a process that waits forever. Sends SIGTERM if the watchdog watches it. Returns exit code and errors."""
    program = WAITING.format(watchdog=watchdog, wait=wait)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        if "sigterm" in watchdog:
            time.sleep(1.0)  # until the process waits
            process.terminate()
        _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.long
@pytest.mark.parametrize(
    ("watchdog", "wait", "code", "message"),
    [
        ("watching_sigterm(1.0)", IN_TENSORFLOW, 128 + signal.SIGTERM, "SIGTERM"),
        ("watching_sigterm(1.0)", IN_PYTHON, 7, ""),
        ("time_limit(1.0, 'a test')", IN_TENSORFLOW, 1, "a test"),
    ],
)
def test_a_process_that_waits_for_ever_is_ended(watchdog, wait, code, message):
    found, errors = waiting(watchdog, wait)
    assert (found, message in errors) == (code, True)


def test_a_process_that_notes_sigterm_goes_on_and_all_is_as_before():
    noted = []
    handler = signal.signal(signal.SIGTERM, lambda number, _: noted.append(number))
    threads = threading.active_count()
    try:
        with watching_sigterm(0.3):
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(8):
                time.sleep(0.1)
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert noted == [signal.SIGTERM]
    assert signal.set_wakeup_fd(-1) == -1
    deadline = time.monotonic() + 10.0
    while threading.active_count() > threads:
        assert time.monotonic() < deadline
        time.sleep(0.01)
