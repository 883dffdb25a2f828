"""The checked server, and comparisons of its answers."""

import json
import re
from typing import Any

import httpx

from ..client.answers import expected


class Mismatch(Exception):
    """An answer differs from TensorFlow Serving's."""


def require(ok: bool, what: str, expected: object, received: object) -> None:
    """Raises Mismatch unless ``ok``. The message names ``what``."""
    if not ok:
        raise Mismatch(f"{what}: expected {expected}, received {received}".rstrip())


def expect(what: str, expected: object, received: object, beside: str = "") -> None:
    """Raises Mismatch unless ``received`` equals ``expected``. The message appends ``beside``."""
    require(received == expected, what, repr(expected), f"{received!r} {beside}")


def expect_text(what: str, expected: str, received: object) -> None:
    """Raises Mismatch unless ``received`` matches the text ``expected``, in which ``...`` matches any text."""
    parts = [re.escape(part) for part in expected.split("...")]
    is_alike = isinstance(received, str) and re.fullmatch(".*".join(parts), received, re.DOTALL) is not None
    require(is_alike, what, repr(expected), repr(received))


def to_json(document: object) -> bytes:
    """Returns ``document`` as a body."""
    return json.dumps(document, ensure_ascii=False).encode()


class Server:
    """The checked server over REST.

    Args:
        http: Connections to the server.
        model: Name of the model.
        version: Newest available version.
        label: Label of a version. `None` if labels are not checked.
    """

    def __init__(self, http: httpx.Client, model: str, version: int, label: str | None = None) -> None:
        self.http = http
        self.model = model
        self.version = version
        self.label = label
        self.path = f"/v1/models/{model}"

    def answer(self, document: object, path: str | None = None) -> dict[str, Any]:
        """Returns the answer to a predict request, which must succeed."""
        return self.read(self.http.post(path or f"{self.path}:predict", content=to_json(document)))

    def read(self, response: httpx.Response) -> dict[str, Any]:
        """Returns the JSON document of an answer, which must be a success."""
        expect("status", 200, response.status_code, response.text)
        expect("Content-Type", "application/json", response.headers.get("content-type"))
        return response.json()


def connect(http: httpx.Client, model: str, label: str | None = None) -> Server:
    """Returns the server of a model, which must be AVAILABLE. ``http`` has the URL of the server.

    Raises:
        ValueError: The model is not AVAILABLE.
        ClientError: The answer has another form.
        httpx.HTTPError: The server does not answer.
    """
    response = http.get(f"/v1/models/{model}")
    with expected("The answer about the model's status"):
        statuses = response.json()["model_version_status"] if response.is_success else []
        available = [int(each["version"]) for each in statuses if each["state"] == "AVAILABLE"]
    if not available:
        raise ValueError(f"--model: expected an AVAILABLE model, received {model!r}: {response.text}")
    return Server(http, model, max(available), label)
