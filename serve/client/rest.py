"""Requests over TensorFlow Serving's REST API, in column format."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from serve.client.answers import ClientError, Columns, ModelSpec, Unavailable, VersionStatus

BUSY = (429, 502, 503)
"""Too many requests, a proxy that finds no server (it restarts), unavailable."""


class RestConnection:
    """Connections to one model over HTTP; threads may share it.

    Args:
        url: where the server listens, without a path.
        model: whom to ask.
        timeout: seconds to wait for an answer.
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
            response = self._http.request(method, f"{self._url}{_path(self._model)}{suffix}", json=document)
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ClientError(
                    f"{self._url} shows a certificate that is not trusted: name a file with its signer's (ca_file)."
                ) from error
            start = "python -m serve.server --model-dir saved_models"
            raise Unavailable(
                f"No server answers at {self._url}: start one with `{start}`, or name it: --url."
            ) from error
        except httpx.TimeoutException as error:
            raise ClientError(f"{self._url} gave no answer in time: send less at a time or wait longer.") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise Unavailable(f"{self._url} broke the connection off: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ClientError(f"{self._url} could not be asked: {error}") from error
        return self._read(response)

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.is_success and isinstance(answer, dict):
            return answer
        reason = answer.get("error") if isinstance(answer, dict) else None
        if response.status_code == 404 and reason:
            hint = "Name a folder under the server's --model-dir that holds a version; its log says what it loaded."
            raise ClientError(f"{self._url} does not serve model {self._model.name!r} ({reason}). {hint}")
        said = " ".join(str(reason or response.text[:300]).split())
        message = f"{self._url} answered HTTP {response.status_code}: {said}"
        if response.status_code in BUSY:
            raise Unavailable(message, _seconds(response.headers.get("retry-after", "")))
        raise ClientError(message)


def _path(model: ModelSpec) -> str:
    path = f"/v1/models/{quote(model.name, safe='')}"
    if model.version is not None:
        return f"{path}/versions/{model.version}"
    return path if model.label is None else f"{path}/labels/{quote(model.label, safe='')}"


def _seconds(retry_after: str) -> float:
    """The header's seconds; 0 where it is missing or holds a date."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
