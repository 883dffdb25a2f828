"""The embedded server as a process, and the browser that opens its page."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
"""The browser that opens the page; ``None`` if none is installed."""


class Served(NamedTuple):
    """Addresses of a running server."""

    rest: str
    rpc: str


@contextmanager
def running_server(models: Path, *options: str) -> Iterator[Served]:
    """Runs an embedded server of the models in a folder. Writes its log there. Ends it with SIGTERM."""
    command = [sys.executable, "-m", "serve.server", "--model-dir", str(models), "--port", "0", "--grpc-port", "0"]
    command += ["--enable-monitoring", "--enable-cors-support", *options]
    with (
        (models / "server.log").open("w+") as log,
        subprocess.Popen(
            command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, stderr=log, text=True
        ) as server,
    ):
        try:
            lines = [server.stdout.readline() for _ in range(2)]
            assert all(line.startswith("Listening on ") for line in lines), (models / "server.log").read_text()
            yield Served(*(line.split()[-1] for line in lines))
        finally:
            server.terminate()
            assert server.wait(30) == 0, (models / "server.log").read_text()


def predict_request(*texts: str, model: str = "", signature: str = "") -> PredictRequest:
    """Returns a gRPC request for translations."""
    request = PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(list(texts), tf.string))
    return request


class Certificate(NamedTuple):
    """PEM files of a certificate for localhost and of its private key."""

    certificate: Path
    key: Path
