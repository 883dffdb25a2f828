"""The server that is examined, and what counts as a mismatch."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx


class Mismatch(Exception):
    """An answer that TensorFlow Serving would not give; says what was expected and what came."""


def expect(what: str, expected: object, received: object, beside: str = "") -> None:
    """Raises Mismatch unless ``received`` is what was ``expected`` of ``what``; ``beside`` is shown with it."""
    if received != expected:
        raise Mismatch(f"{what}: expected {expected!r}, received {received!r} {beside}".rstrip())


ANY = "..."
"""Stands in an expected text for any text."""


def expect_text(what: str, expected: str, received: object) -> None:
    """Raises Mismatch unless ``received`` is the text ``expected``, in which ANY stands for anything."""
    parts = [re.escape(part) for part in expected.split(ANY)]
    if not isinstance(received, str) or not re.fullmatch(".*".join(parts), received, re.DOTALL):
        raise Mismatch(f"{what}: expected {expected!r}, received {received!r}")


def to_json(document: object) -> bytes:
    """A request's body."""
    return json.dumps(document, ensure_ascii=False).encode()


class Server:
    """The server that is checked: sends requests and compares answers.

    Args:
        http: connections to it.
        model: the model's name.
        version: the number of the version that answers.
    """

    def __init__(self, http: httpx.Client, model: str, version: int) -> None:
        self.http = http
        self.model = model
        self.version = version
        self.path = f"/v1/models/{model}"

    def answer(self, document: object, path: str | None = None) -> dict[str, Any]:
        """The answer to a predict request, which must succeed."""
        return self.read(self.http.post(path or f"{self.path}:predict", content=to_json(document)))

    def read(self, response: httpx.Response) -> dict[str, Any]:
        """The document of an answer, which must be a success in JSON."""
        expect("status", 200, response.status_code, response.text)
        expect("Content-Type", "application/json", response.headers.get("content-type"))
        return response.json()


def connect(url: str, model: str, timeout: float, ca_file: Path | None = None) -> Server:
    """The server at ``url``, whose model must be AVAILABLE.

    Raises:
        ValueError: the model is not there, and hence nothing to be checked.
        httpx.HTTPError: no server is there.
    """
    local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    verify = True if ca_file is None else ssl.create_default_context(cafile=ca_file)
    http = httpx.Client(base_url=url, timeout=timeout, trust_env=not local, verify=verify)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(http.close)
        response = http.get(f"/v1/models/{model}")
        statuses = response.json().get("model_version_status", []) if response.is_success else []
        available = [int(each["version"]) for each in statuses if each["state"] == "AVAILABLE"]
        if not available:
            said = " ".join(response.text.split())
            raise ValueError(f"--model: expected a model that is AVAILABLE, received {model!r}: {said}")
        on_failure.pop_all()
    return Server(http, model, max(available))
