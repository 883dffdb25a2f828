"""Kills one Dask worker after a number of calls of a function. Dask workers load this file.

The environment variable ``KILL_AFTER`` has the form MODULE:FUNCTION,CALLS,FILE. A worker that has called the function
CALLS times creates FILE and kills itself. If FILE exists already, no worker kills itself.
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
