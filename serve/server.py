"""The embedded server: ``python -m serve.server --model-dir saved_models --port 8501``.

It answers TensorFlow Serving's REST API where no container runs: the newest version of every model in a folder
NAME/VERSION/, on the loopback interface unless told otherwise. Once every model is loaded it prints one line,
``Listening on http://HOST:PORT``; SIGTERM and SIGINT let the requests under way finish and end it with exit code 0.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import tyro
import uvicorn

from serve.app import Limits, create_app
from serve.repository import Repository, versions_on_disk


@dataclass(frozen=True)
class Options:
    """Serves the newest version of every model in a folder over TensorFlow Serving's REST API."""

    model_dir: Path
    """Folder that holds NAME/VERSION/saved_model.pb for each model."""
    port: int = 8501
    """TCP port; 0 takes a free one, which the line on standard output names."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 opens the server, which knows neither passwords nor TLS, to the network."""
    shutdown_seconds: int = 30
    """Seconds that requests under way are given to finish once the server is told to stop."""
    limits: Annotated[Limits, tyro.conf.arg(name="")] = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ValueError(f"--port: expected 0 to 65535, received {self.port}.")
        if self.shutdown_seconds < 1:
            raise ValueError(f"--shutdown-seconds: expected 1 or more, received {self.shutdown_seconds}.")


class Server(uvicorn.Server):
    """Says on standard output where it listens, as soon as it does."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, then prints the one line that programs wait for."""
        await super().startup(sockets)
        if self.started:
            print(f"Listening on {self._url}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line, loads the models and serves them until a signal comes."""
    try:
        options = tyro.cli(Options, prog="python -m serve.server", args=arguments)
    except ValueError as error:
        _give_up(str(error))
    _require_models(options.model_dir)
    listener = _bind(options.host, options.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    repository = _load(options.model_dir)
    config = uvicorn.Config(
        create_app(repository, options.limits),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=options.shutdown_seconds,
    )
    try:
        Server(config, _url(listener)).run(sockets=[listener])
    finally:
        repository.close()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Ends the process while models load, and again after uvicorn has shut down and raises the signal it had caught."""
    raise SystemExit(0)


def _require_models(folder: Path) -> None:
    if not folder.is_dir():
        _give_up(f"--model-dir: expected a folder, received {folder}. Export a model into it first.")
    if not versions_on_disk(folder):
        _give_up(f"--model-dir: expected NAME/VERSION/saved_model.pb in {folder}, VERSION a number; found no version.")


def _bind(host: str, port: int) -> socket.socket:
    """A socket that holds the port before the models, which take seconds, are loaded; it does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            on_failure.pop_all()
    except OSError as error:
        _give_up(
            f"--host, --port: cannot listen on {host} port {port}: {error}. Choose another port, or 0 for a free one."
        )
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _load(folder: Path) -> Repository:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from serve.servable import load_servable  # imports TensorFlow, which takes seconds: not for --help or a busy port

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    repository = Repository(folder, load_servable)
    repository.load_latest()
    if not repository.available():
        _give_up(f"--model-dir: no model in {folder} could be loaded; the log above says why.")
    return repository


def _give_up(message: str) -> NoReturn:
    raise SystemExit(f"serve.server: {message}")


if __name__ == "__main__":
    main()
