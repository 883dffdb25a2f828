"""Requests over TensorFlow Serving's REST API, in column format."""

import contextlib
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

import httpx

from nmt_keras.io.errors import require
from nmt_keras.io.lines import read_within
from nmt_keras.io.threads import abandonable

from ..models.status import Code, ModelSpec, State, VersionStatus
from .answers import ClientError, Columns, Unavailable, expected, without_password

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine. Requests to them do not use the settings of the environment."""

MAX_TIMEOUT = 24 * 60 * 60

BUSY = (429, 502, 503)
"""HTTP statuses of a busy server: too many requests (429), overload (503), and a proxy without its server (502)."""

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Maximum bytes of an answer, unpacked. The 2 million numbers that the embedded server sends at most take 40 MB."""


class LimitedClient(httpx.Client):
    """An HTTP client that reads each answer within ``seconds``, and at most ``MAX_ANSWER_BYTES`` of it.

    A larger answer raises ValueError. HTTPX's own timeouts restart with every byte of headers and body, so a server
    that sends one byte at a time could block the client for hours. The limit of a connection is shorter, so that an
    unreachable server is reported as such.
    """

    def __init__(self, seconds: float, **settings: Any) -> None:
        timeout = httpx.Timeout(seconds, connect=min(seconds / 3, 5.0))
        super().__init__(timeout=timeout, headers={"Accept-Encoding": "gzip"}, **settings)
        self._seconds = seconds

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Sends a request and returns the whole answer.

        It runs in a thread. After the time limit, the thread ends when the server sends a byte or is silent for HTTPX's
        timeout, or when the client is closed.
        """
        try:
            return abandonable(lambda: self._received(request, **options)).result(self._seconds)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer within {self._seconds:g} s", request=request) from error

    def _received(self, request: httpx.Request, **options: Any) -> httpx.Response:
        deadline = time.monotonic() + self._seconds

        def chunks(response: httpx.Response) -> Iterator[bytes]:
            for chunk in response.iter_bytes():
                if time.monotonic() > deadline:
                    raise TimeoutError
                yield chunk

        with contextlib.closing(super().send(request, **{**options, "stream": True})) as response:
            packed = response.headers.get("content-encoding", "identity")
            if packed.strip().lower() not in ("identity", "gzip"):  # HTTPX would unpack several layers at once
                raise ValueError(f"the answer is packed with {packed}, not gzip")
            body = read_within(chunks(response), MAX_ANSWER_BYTES)
        headers = [each for each in response.headers.multi_items() if each[0] != "content-encoding"]
        return httpx.Response(response.status_code, headers=headers, content=body, request=request)


class RestConnection:
    """HTTP connections to a model. Threads may share it.

    Args:
        url: URL of the server, without a path.
        model: The model.
        timeout: Time limit of a whole answer in seconds.
        ca_file: PEM file of the certificates that signed the server's certificate. See ``http_client``.
        transport: HTTPX transport for tests. `None` uses the network.
    """

    def __init__(
        self,
        url: str,
        model: ModelSpec,
        timeout: float,
        ca_file: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = without_password(url)
        self._endpoint = f"{url}{_path(model)}"
        self._model = model
        self._http = http_client(url, timeout, ca_file, transport)

    def predict(self, signature: str, inputs: Mapping[str, list[str]]) -> Columns:
        """Returns the outputs of ``signature``. ``inputs`` maps each input to its list of values."""
        outputs = self._request("POST", ":predict", {"signature_name": signature, "inputs": inputs}).get("outputs")
        if not isinstance(outputs, dict):
            raise ClientError(
                f"Signature {signature} of model {self._model.name} returned one unnamed output instead of several."
            )
        return outputs

    def status(self) -> list[VersionStatus]:
        """Returns the states of the model's versions, newest first."""
        answer = self._request("GET", "")
        with expected("The answer about the model's status"):
            return [
                VersionStatus(
                    int(status["version"]),
                    State(status["state"]),
                    Code[status["status"]["error_code"]],
                    str(status["status"]["error_message"]),
                )
                for status in answer["model_version_status"]
            ]

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _request(self, method: str, suffix: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = self._http.request(method, f"{self._endpoint}{suffix}", json=document)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if "[SSL: " in str(error):
                raise ClientError(
                    f"{self._url} has no HTTPS (write http://), or an untrusted certificate: {error}. "
                    "If its signer is unknown here, pass the signer's certificate (ca_file)."
                ) from error
            advice = "Start one with `nmt serve`, or pass another --url."
            proxies = [without_password(proxy) for scheme, proxy in getproxies().items() if scheme != "no"]
            if self._http.trust_env and proxies:
                advice += f" The environment has a proxy ({', '.join(proxies)}), which may not answer."
            raise Unavailable(f"No server answers at {self._url}. {advice}") from error
        except httpx.TimeoutException as error:
            raise ClientError(f"{self._url} did not answer in time. Send less text, or raise the timeout.") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise Unavailable(f"{self._url} closed the connection: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ClientError(f"{self._url}: {error}. Send less text, or pass another --url.") from error
        return self._read(answer)

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            document = json.loads(answer.content)
        except (ValueError, RecursionError):
            document = None
        if 200 <= answer.status_code < 300 and isinstance(document, dict):
            return document
        reason = document.get("error") if isinstance(document, dict) else None
        if answer.status_code == 404 and reason:
            hint = "Pass the name of a folder in the server's --model-dir. The server's log lists loaded models."
            if self._model.label is not None:
                hint = "The version of this label is not loaded. The server's log has the reason."
            elif self._model.version is not None:
                hint = "Pass the number of another version, or none for the newest."
            raise ClientError(f"{self._url} does not serve model {self._model.name!r} ({reason}). {hint}")
        said = reason or answer.content[:300].decode("utf-8", "replace")
        message = f"{self._url} answered HTTP {answer.status_code}: {said}"
        if answer.status_code in BUSY:
            after = answer.headers.get("retry-after", "")  # seconds, or a date, which counts as 0
            raise Unavailable(message, float(after) if after.isascii() and after.isdigit() else 0.0)
        raise ClientError(message)


def http_client(
    url: str, timeout: float, ca_file: Path | None = None, transport: httpx.BaseTransport | None = None
) -> LimitedClient:
    """Returns an HTTP client of a server. Proxies of the environment are used, except on this machine.

    Args:
        url: URL of the server.
        timeout: Time limit of a whole answer in seconds.
        ca_file: PEM file of the certificates that signed the server's certificate. `None` uses those of the environment
            (SSL_CERT_FILE, SSL_CERT_DIR; not for this machine), or else those of the package certifi.
        transport: HTTPX transport for tests. `None` uses the network.

    Raises:
        ValueError: An argument is wrong, ``ca_file`` holds no certificates, or the settings of the environment are
            wrong.
    """
    parts = urlsplit(url)
    is_http = parts.scheme in ("http", "https") and bool(parts.hostname)
    require(is_http, "url", "http://HOST:PORT or https://HOST:PORT", without_password(url))
    require(0 < timeout <= MAX_TIMEOUT, "timeout", f"more than 0 and at most {MAX_TIMEOUT} seconds", timeout)
    try:
        verify = True if ca_file is None else ssl.create_default_context(cafile=ca_file)
        return LimitedClient(timeout, verify=verify, trust_env=parts.hostname not in LOOPBACK, transport=transport)
    except (httpx.InvalidURL, ImportError, OSError, ValueError) as error:
        raise ValueError(
            f"The ca_file, or the environment's proxies or certificates, are wrong: {error}; received ca_file "
            f"{ca_file and str(ca_file)!r}. Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and "
            "SSL_CERT_DIR."
        ) from error


def _path(model: ModelSpec) -> str:
    path = f"/v1/models/{quote(model.name, safe='')}"
    if model.version is not None:
        return f"{path}/versions/{model.version}"
    return path if model.label is None else f"{path}/labels/{quote(model.label, safe='')}"
