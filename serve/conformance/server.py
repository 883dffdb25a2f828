"""The checked server, and comparisons of its answers."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import httpx

from ..client.rest import http_client


class Mismatch(Exception):
    """An answer differs from TensorFlow Serving's."""


def expect(what: str, expected: object, received: object, beside: str = "") -> None:
    """Raises Mismatch unless ``received`` equals ``expected``. The message names ``what`` and appends ``beside``."""
    if received != expected:
        raise Mismatch(f"{what}: expected {expected!r}, received {received!r} {beside}".rstrip())


ANY = "..."
"""Matches any text in an expected text."""


def expect_text(what: str, expected: str, received: object) -> None:
    """Raises Mismatch unless ``received`` matches the text ``expected``, in which ANY matches any text."""
    parts = [re.escape(part) for part in expected.split(ANY)]
    if not isinstance(received, str) or not re.fullmatch(".*".join(parts), received, re.DOTALL):
        raise Mismatch(f"{what}: expected {expected!r}, received {received!r}")


def to_json(document: object) -> bytes:
    """Returns ``document`` as a body."""
    return json.dumps(document, ensure_ascii=False).encode()


class Server:
    """The checked server over REST.

    Args:
        http: Connections to the server.
        model: Name of the model.
        version: Newest available version.
    """

    def __init__(self, http: httpx.Client, model: str, version: int) -> None:
        self.http = http
        self.model = model
        self.version = version
        self.path = f"/v1/models/{model}"

    def answer(self, document: object, path: str | None = None) -> dict[str, Any]:
        """Returns the answer to a predict request, which must succeed."""
        return self.read(self.http.post(path or f"{self.path}:predict", content=to_json(document)))

    def read(self, response: httpx.Response) -> dict[str, Any]:
        """Returns the JSON document of an answer, which must be a success."""
        expect("status", 200, response.status_code, response.text)
        expect("Content-Type", "application/json", response.headers.get("content-type"))
        return response.json()


def connect(url: str, model: str, timeout: float, ca_file: Path | None = None) -> Server:
    """Connects to the server at ``url``.

    Raises:
        ValueError: The model is not AVAILABLE, ``ca_file`` holds no certificates, or the environment is wrong.
        httpx.HTTPError: The server does not answer.
    """
    http = http_client(url, timeout, ca_file)
    http.base_url = httpx.URL(url)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(http.close)
        response = http.get(f"/v1/models/{model}")
        statuses = response.json().get("model_version_status", []) if response.is_success else []
        available = [int(each["version"]) for each in statuses if each["state"] == "AVAILABLE"]
        if not available:
            received = f"{model!r}. The server answered: {response.text}"
            raise ValueError(f"--model must be an AVAILABLE model. Received: {received}")
        on_failure.pop_all()
    return Server(http, model, max(available))
