"""The embedded server: ``python -m nmt_keras_serve.server --model-dir saved_models --port 8501``.

It implements TensorFlow Serving's REST API for machines without Docker. It serves the newest version of every model in
a folder of NAME/VERSION/, or the models in a file in TensorFlow Serving's format. By default it listens on the loopback
interface. When the models are loaded, it prints ``Listening on http://HOST:PORT``. It looks for new versions every
second. On SIGTERM or SIGINT it finishes the running requests and exits with code 0. It does not wait for a model that
is being loaded.
"""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import tyro
import uvicorn
from starlette.types import ASGIApp

from nmt_keras.io.errors import remedy
from nmt_keras.io.files import version_folders
from nmt_keras.io.lines import message_stream
from nmt_keras.io.startup import ignore_settings_of_keras, native_messages_hidden
from nmt_keras.io.threads import abandonable
from nmt_keras.io.usage import orderly_end, read_options

from .access_log import AccessLog, JsonFormatter
from .core import Core
from .models.model_config import ServedModel, models_in, read_model_configs
from .models.repository import Repository, kept_up_to_date
from .options import Options
from .rest.app import create_app
from .rest.http_protocol import LimitedProtocol

logger = logging.getLogger(__name__)

PROGRAM = f"{__package__}.server"
WEB = Path(__file__).parent / "web"
HOW_TO_GET_A_MODEL = (
    "Clone the repository, which contains saved_models/spa-eng, or train and export a model: nmt train, nmt export."
)


ACCEPTED = 64
"""Maximum number of connections that are accepted in a turn of the event loop."""

BACKLOG = 1024
"""Maximum number of connections that wait until they are accepted."""

OTHER_FILES = 5 * ACCEPTED + 150
"""Number of open files, apart from ``--connections``, for which the limit of the process leaves room. A refused
connection is closed within five turns of the event loop."""


class RepeatFilter(logging.Filter):
    """Drops a warning or error that was logged in the last minute. Polls and clients could otherwise fill the disk.

    Each is identified by its message and its exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, str], float] = {}  # the latest last

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns `False` for a repeated warning or error."""
        if record.levelno < logging.WARNING:
            return True
        now, error = time.monotonic(), (record.getMessage(), repr(record.exc_info and record.exc_info[1]))
        logged = self._logged.pop(error, -math.inf)
        is_new = logged < now - 60.0
        self._logged[error] = now if is_new else logged
        if len(self._logged) > 100:
            del self._logged[next(iter(self._logged))]
        return is_new


class LogFormatter(logging.Formatter):
    """Escapes control characters, because names of models and folders could forge lines of the log.

    A record is one line. The lines of its traceback are indented.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Returns the record's line."""
        return _printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """Returns the record's traceback."""
        return "\n".join(f"    {_printable(line)}" for line in super().formatException(ei).split("\n"))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Server(uvicorn.Server):
    """Prints its address when it listens, and does not wait for graphs that run too long when it stops."""

    def __init__(self, config: uvicorn.Config, core: Core, url: str) -> None:
        super().__init__(config)
        self._core = core
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen. Then prints the address, because other programs wait for this line.

        Raises:
            ValueError: Another program listens. Linux lets two programs reserve a port until one of them listens.
        """
        try:
            await super().startup(sockets)
        except OSError as error:
            raise ValueError(f"--host, --port: cannot listen on {self._url}: {error}. Choose another port.") from error
        if signal.getsignal(signal.SIGHUP) is _leave:  # uvicorn handles the other signals
            signal.signal(signal.SIGHUP, self.handle_exit)
        for each in sockets or []:
            each.listen(BACKLOG)  # asyncio would accept as many connections at once
        if self.started:
            print(f"Listening on {self._url}", flush=True)

    async def on_tick(self, counter: int) -> bool:
        """Leaves Python's lock to the threads that run the models.

        A busy event loop gives up the lock only for microseconds, and takes it again before another thread wakes up.
        """
        time.sleep(0.001)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finishes the running requests, for at most ``--shutdown-seconds``."""
        logger.info("Stopping; running requests: %d", len(self.server_state.tasks))
        await super().shutdown(sockets)
        if tasks := {*self.server_state.tasks}:  # they answer, and write their lines of the access log
            for task in tasks:
                task.cancel()  # after a second Ctrl-C, uvicorn does not
            await asyncio.wait(tasks, timeout=0.1)
        if tasks or self._core.turns.borrowed_tokens:
            _exit_at_once(0)


@orderly_end(PROGRAM)
def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and serves."""
    options = read_options(Options, f"python -m {PROGRAM}", arguments, config=(tyro.conf.FlagCreatePairsOff,))
    try:
        serve(options)
    except ValueError as error:
        raise SystemExit(f"{PROGRAM}: {error}") from error


def serve(options: Options) -> None:
    """Loads the models and serves them until a signal stops the process.

    Raises:
        ValueError: There are no models, or the address is not available.
    """
    configs = _configs(options)
    _make_room_for(options.limits.connections)
    listener = _bind(options.host, options.port)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _leave)
    handler = logging.StreamHandler(message_stream(os.dup(2)))  # is never hidden
    handler.addFilter(RepeatFilter())
    text = LogFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter() if options.log_format == "json" else text)
    logging.basicConfig(level=options.log_level.upper(), handlers=[handler])
    uvicorn_logger = logging.getLogger("uvicorn.error")
    uvicorn_logger.setLevel(logging.ERROR)  # otherwise each malformed request writes a line
    uvicorn_logger.addFilter(_is_no_cancellation)
    with native_messages_hidden():
        repository = _repository(configs, options)
    try:
        with native_messages_hidden():
            _start(repository)
        core = Core(repository, options.limits)
        app = create_app(
            core,
            with_cors=options.enable_cors_support,
            with_monitoring=options.enable_monitoring,
            web=WEB if WEB.is_dir() else None,
            hosts=_hosts(listener, options),
        )
        app = AccessLog(app) if options.access_log else app
        with kept_up_to_date(repository, options.poll_seconds):
            Server(http_config(app, core, options.shutdown_seconds), core, _url(listener)).run(sockets=[listener])
            raise SystemExit(0)  # after SIGHUP, which uvicorn does not repeat
    except SystemExit as stop:
        if not repository.close():
            _exit_at_once(int(stop.code or 0))
        raise


def http_config(app: ASGIApp, core: Core, shutdown_seconds: int) -> uvicorn.Config:
    """Returns the HTTP settings of uvicorn for ``app``, with the limits and metrics of ``core``."""
    return uvicorn.Config(
        app,
        http=type("HttpProtocol", (LimitedProtocol,), {"limits": core.limits, "metrics": core.metrics}),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        backlog=ACCEPTED,
        server_header=False,
        timeout_keep_alive=max(1, round(core.limits.seconds)),
        timeout_graceful_shutdown=shutdown_seconds,
    )


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Returns `False` for the error of a request that a stop cut off."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _exit_at_once(code: int) -> NoReturn:
    """Ends the process. The interpreter would wait for threads that run or load a graph and cannot be stopped."""
    logging.shutdown()
    os._exit(code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Exits. Called for a signal while models load, and again after shutdown, when uvicorn repeats the signal."""
    raise SystemExit(0)


def _configs(options: Options) -> Callable[[], list[ServedModel]]:
    """Returns a function that lists the models.

    Raises:
        ValueError: There are no models, or the file cannot be read.
    """
    if options.model_config_file is not None:
        configs = read_model_configs(options.model_config_file)
        return lambda: configs
    folder = options.model_dir or Path("saved_models")
    try:
        found = models_in(folder)
    except OSError as error:
        advice = HOW_TO_GET_A_MODEL if isinstance(error, FileNotFoundError) else f"{remedy(error.strerror or '')}."
        raise ValueError(f"--model-dir: cannot be read: {error}. {advice}") from error
    if not any(map(_has_versions, found)):
        raise ValueError(
            f"--model-dir: {folder} contains no model NAME/VERSION/saved_model.pb, where VERSION is a number. "
            f"For a model itself, pass the folder above it. {HOW_TO_GET_A_MODEL}"
        )
    return lambda: models_in(folder)


def _has_versions(model: ServedModel) -> bool:
    try:
        return bool(version_folders(model.base_path))
    except OSError:  # the other models are served; polls warn of this one
        return False


def _bind(host: str, port: int) -> socket.socket:
    """Returns a socket with the port, which it does not listen to before the models are loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            on_failure.pop_all()
    except OSError as error:
        is_taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        remedy = (
            "Choose another port, or 0 for a free one." if is_taken else "Pass an address of this machine as --host."
        )
        raise ValueError(f"--host, --port: cannot listen on {host} port {port}: {error}. {remedy}") from error
    return listener


def _make_room_for(connections: int) -> None:
    """Raises the limit of open files of this process as far as ``connections`` need it.

    Raises:
        ValueError: The system does not permit it.
    """
    needed = connections + OTHER_FILES
    soft, most = (
        sys.maxsize if each == resource.RLIM_INFINITY else each for each in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    if needed > most:
        raise ValueError(
            f"--connections must be at most {most - OTHER_FILES}, because this process may open {most} files. "
            f"Received: {connections}. Pass a smaller number, or raise the hard limit (ulimit -Hn)."
        )
    if needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _hosts(listener: socket.socket, options: Options) -> set[str]:
    """Returns the accepted values of the header Host. If empty, all values are accepted.

    A web page could give its own host name the address of this machine, and so read the answers of a server on the
    loopback interface. With CORS, every page may read the answers anyway.
    """
    if options.enable_cors_support or not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        return set()
    return {"localhost", "127.0.0.1", "[::1]", options.host.lower()}


def _repository(configs: Callable[[], list[ServedModel]], options: Options) -> Repository:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    ignore_settings_of_keras()
    from .models.warmup import load_warm  # imports TensorFlow, which takes seconds; --help and errors do not need it

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    return Repository(configs, load_warm, options.load_retry_interval_micros / 1e6)


def _start(repository: Repository) -> None:
    """Loads the models in a thread. In the main thread, TensorFlow's loader would delay the handling of signals."""
    abandonable(repository.start).result()
    if not repository.available():
        raise ValueError(
            "--model-dir, --model-config-file: no model could be loaded. The log above gives the reasons, unless no "
            "chosen version exists: NAME/VERSION/saved_model.pb."
        )


if __name__ == "__main__":
    main()
