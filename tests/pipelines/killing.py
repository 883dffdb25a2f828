"""Dask workers load this file. One of them kills itself when a function has been called a number of times.

The environment variable ``KILL_AFTER`` holds the function, the number of calls in one process, and a file that marks
that a worker has died: MODULE:FUNCTION,CALLS,FILE. Only one worker dies.
"""

import functools
import importlib
import os
import signal


def dask_setup(worker):
    """Wraps the function. Dask calls it when a worker process starts."""
    function, calls, mark = os.environ["KILL_AFTER"].split(",")
    module_name, name = function.split(":")
    module = importlib.import_module(module_name)
    original, done = getattr(module, name), []

    @functools.wraps(original)
    def wrapped(*arguments, **named):
        result = original(*arguments, **named)
        done.append(None)
        if len(done) >= int(calls):
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return result
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, name, wrapped)
