"""Requests over TensorFlow Serving's REST API, in column format."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpx

from .answers import ClientError, Columns, ModelSpec, Unavailable, VersionStatus

BUSY = (429, 502, 503)
"""Too many requests, a proxy that finds no server (it restarts), unavailable."""


class _Answer(NamedTuple):
    """What came back over HTTP."""

    status: int
    headers: httpx.Headers
    body: bytes


class RestConnection:
    """Connections to one model over HTTP; threads may share it.

    Args:
        url: where the server listens, without a path.
        model: whom to ask.
        timeout: seconds until an answer must be there, whole.
        ca_file: certificates, in PEM, of whoever signed the server's; None trusts those that are commonly trusted.
        transport: how requests travel; for tests.
    """

    def __init__(
        self,
        url: str,
        model: ModelSpec,
        timeout: float,
        ca_file: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = url
        self._model = model
        self._timeout = timeout
        through_proxy = urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")
        verify = True if ca_file is None else ssl.create_default_context(cafile=ca_file)
        self._http = httpx.Client(timeout=timeout, transport=transport, trust_env=through_proxy, verify=verify)

    def predict(self, signature: str, inputs: Mapping[str, list[str]]) -> Columns:
        """The outputs of ``signature`` for ``inputs``, which are columns: one list of values for each input."""
        answer = self._request("POST", ":predict", {"signature_name": signature, "inputs": inputs})
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict):
            raise ClientError(
                f"Signature {signature} of model {self._model.name} answered one unnamed output, not several."
            )
        return outputs

    def status(self) -> list[VersionStatus]:
        """The state of each of the model's versions, newest first."""
        return [
            VersionStatus(
                int(status["version"]),
                status["state"],
                status["status"]["error_code"],
                status["status"]["error_message"],
            )
            for status in self._request("GET", "").get("model_version_status", [])
        ]

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _request(self, method: str, suffix: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            request = self._http.build_request(method, f"{self._url}{_path(self._model)}{suffix}", json=document)
            answer = _within(self._timeout, lambda: self._fetch(request))
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ClientError(
                    f"{self._url} shows a certificate that is not trusted: name a file with its signer's (ca_file)."
                ) from error
            advice = "Start one with `nmt serve`, or pass another --url"
            raise Unavailable(f"No server answers at {self._url}. {advice}.") from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ClientError(f"{self._url} gave no answer in time: send less at a time or wait longer.") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise Unavailable(f"{self._url} broke the connection off: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ClientError(f"{self._url} could not be asked: {error}") from error
        return self._read(answer)

    def _fetch(self, request: httpx.Request) -> _Answer:
        """What is answered; read no longer than the timeout, whatever the server goes on to send."""
        deadline = time.monotonic() + self._timeout
        with contextlib.closing(self._http.send(request, stream=True)) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError
        return _Answer(response.status_code, response.headers, bytes(body))

    def _read(self, answer: _Answer) -> dict[str, Any]:
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            document = None
        if 200 <= answer.status < 300 and isinstance(document, dict):
            return document
        reason = document.get("error") if isinstance(document, dict) else None
        if answer.status == 404 and reason:
            hint = "Name a folder under the server's --model-dir that holds a version; its log says what it loaded."
            raise ClientError(f"{self._url} does not serve model {self._model.name!r} ({reason}). {hint}")
        said = " ".join(str(reason or answer.body.decode("utf-8", "replace")[:300]).split())
        message = f"{self._url} answered HTTP {answer.status}: {said}"
        if answer.status in BUSY:
            raise Unavailable(message, _seconds(answer.headers.get("retry-after", "")))
        raise ClientError(message)


def _within(seconds: float, fetch: Callable[[], _Answer]) -> _Answer:
    """What ``fetch`` returns or raises, if it does so in time.

    It runs in a thread of its own: HTTPX's timeouts begin anew with every byte of a name's resolution, of headers, of
    a body, so that a server which drips could keep its client for hours.

    Raises:
        TimeoutError: it does not. The thread is left alone, and ends once the server is silent or the client closed.
    """
    outcome: Future[_Answer] = Future()

    def run() -> None:
        try:
            outcome.set_result(fetch())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="request", daemon=True).start()
    return outcome.result(seconds)


def _path(model: ModelSpec) -> str:
    path = f"/v1/models/{quote(model.name, safe='')}"
    if model.version is not None:
        return f"{path}/versions/{model.version}"
    return path if model.label is None else f"{path}/labels/{quote(model.label, safe='')}"


def _seconds(retry_after: str) -> float:
    """The header's seconds; 0 where it is missing or holds a date."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
