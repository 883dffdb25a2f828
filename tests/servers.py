"""The embedded server as a process, the browser that opens its page, and the folder of the project."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
"""The folder of the project."""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
"""The browser that opens the page; ``None`` if none is installed."""
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


def free_port() -> int:
    """Returns the number of a TCP port without a server."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextmanager
def running_server(models: Path, *options: str, with_cors: bool = True) -> Iterator[str]:
    """Runs an embedded server of the models in a folder, and yields its URL. Its log is in the folder."""
    command = [sys.executable, "-m", "serve.server", "--model-dir", str(models), "--port", "0"]
    command += ["--enable-monitoring", *["--enable-cors-support"] * with_cors, *options]
    with (
        (models / "server.log").open("w+") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            line = server.stdout.readline()
            assert line.startswith("Listening on "), (models / "server.log").read_text()
            yield line.split()[-1]
        finally:
            server.terminate()
            assert server.wait(30) == 0, (models / "server.log").read_text()


class Certificate(NamedTuple):
    """PEM files of a certificate for localhost and of its private key."""

    certificate: Path
    key: Path
