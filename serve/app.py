"""The routes: TensorFlow Serving's REST API over a repository, with every resource a request can claim bounded."""

from __future__ import annotations

import contextlib
import json
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

import anyio
import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from serve import codec
from serve.json_text import quoted, to_bytes, to_text
from serve.repository import Repository, VersionStatus
from serve.status import Code, StatusError, invalid

_NAME = r"/v1/models/(?P<name>[^/:]+)"
_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION = re.compile(rf"(?i:{_NAME}{_VERSION}:(?P<method>predict|classify|regress))")
_STATUS = re.compile(rf"(?i:{_NAME}{_VERSION}(?P<metadata>/metadata)?)")
_NAMELESS = re.compile(r"(?i:/v1/models(?:/versions/[0-9]+|/labels/[^/:]+)?(?:/metadata)?)")


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take."""

    max_body_bytes: int = 16 * 1024 * 1024
    """Bytes of a request's body, as sent and again once unpacked from gzip; beyond them: 413."""
    max_batch_rows: int = 256
    """Rows (sentences) of one request; beyond them: 400."""
    max_text_bytes: int = 65536
    """UTF-8 bytes of one string; beyond them: 400."""
    request_seconds: float = 30.0
    """Seconds a request may take from its first byte to its answer, waiting included; beyond them: 504."""
    concurrency: int = 2
    """Requests that are computed at once."""
    queue: int = 128
    """Further requests that may wait for their turn; beyond them: 503."""

    def __post_init__(self) -> None:
        for name in ("max_body_bytes", "max_batch_rows", "max_text_bytes", "concurrency"):
            _require(getattr(self, name) >= 1, name, "1 or more", getattr(self, name))
        _require(self.queue >= 0, "queue", "0 or more", self.queue)
        _require(0 < self.request_seconds < 1e6, "request_seconds", "a positive number", self.request_seconds)


def _require(ok: bool, name: str, expected: str, received: float) -> None:
    if not ok:
        raise ValueError(f"--{name.replace('_', '-')}: expected {expected}, received {received}.")


class Target(NamedTuple):
    """The model a path names; neither version nor label means the newest."""

    name: str
    version: int | None
    label: str | None


def create_app(repository: Repository, limits: Limits) -> Starlette:
    """The ASGI application that serves ``repository`` within ``limits``."""
    return Starlette(
        routes=[Route("/{path:path}", RestApi(repository, limits))],
        exception_handlers={
            StatusError: _answer_status_error,
            HTTPException: _answer_http_exception,
            ClientDisconnect: _answer_nobody,
            Exception: _answer_defect,
        },
    )


class RestApi:
    """Answers everything under /v1/, whatever its method: TensorFlow Serving has a reply for each."""

    def __init__(self, repository: Repository, limits: Limits) -> None:
        self._repository = repository
        self._limits = limits
        self._turns = anyio.CapacityLimiter(limits.concurrency)
        self._admitted = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = _path_and_query(request)
        if not path.lower().startswith("/v1/"):
            raise HTTPException(404, "Not Found")
        if request.method == "POST" and (match := _PREDICTION.fullmatch(path)):
            if match["method"].lower() != "predict":
                raise StatusError(Code.UNIMPLEMENTED, f"{match['method'].lower()} is not served here, only predict")
            return await self._predict(request, _target(match))
        if request.method == "GET" and (match := _STATUS.fullmatch(path)):
            target = _target(match)
            return _json(self._metadata(target) if match["metadata"] else self._status(target))
        if request.method == "GET" and _NAMELESS.fullmatch(path):
            raise invalid("Missing model name in request.")
        if request.method == "OPTIONS" and request.headers.get("origin", "").startswith(("http://", "https://")):
            return _json(b"")
        raise invalid(f"Malformed request: {request.method} {path}")

    def _status(self, target: Target) -> bytes:
        statuses = [_status_document(status) for status in self._repository.status(*target)]
        return _indented({"model_version_status": statuses})

    def _metadata(self, target: Target) -> bytes:
        loaded = self._repository.find(*target)
        model_spec = {"name": loaded.name, "signature_name": "", "version": str(loaded.version)}
        definitions = {"signature_def": loaded.servable.signature_definitions()}
        return _indented({"model_spec": model_spec, "metadata": {"signature_def": definitions}})

    async def _predict(self, request: Request, target: Target) -> Response:
        deadline = time.monotonic() + self._limits.request_seconds
        with self._admission():
            try:
                with anyio.fail_after(self._limits.request_seconds):
                    body = await _read_body(request, self._limits.max_body_bytes)
                    is_packed = "gzip" in request.headers.get("content-encoding", "").lower()
                    work = (target, body, is_packed, deadline)
                    answer = await anyio.to_thread.run_sync(self._compute, *work, limiter=self._turns)
            except TimeoutError as error:
                seconds = self._limits.request_seconds
                raise StatusError(Code.DEADLINE_EXCEEDED, f"Timed out after {seconds:g} seconds") from error
        return _json(answer)

    @contextlib.contextmanager
    def _admission(self) -> Iterator[None]:
        """Counts a request in and out; one too many is turned away before its body is read."""
        if self._admitted >= self._limits.concurrency + self._limits.queue:
            raise StatusError(Code.UNAVAILABLE, f"{self._admitted} requests are waiting already: try again later")
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1

    def _compute(self, target: Target, body: bytes, is_packed: bool, deadline: float) -> bytes:
        """The answer to a predict request, from bytes to bytes; runs in a worker thread."""
        request = codec.read_request(_unpack(body, self._limits.max_body_bytes) if is_packed else body)
        servable = self._repository.find(*target).servable
        signature = servable.signature(request.signature_name)
        inputs = codec.read_inputs(request, signature.inputs)
        for name, tensor in inputs.tensors.items():
            _require_within(self._limits, name, tensor)
        outputs = servable.run(signature, inputs.tensors, deadline - time.monotonic())
        return codec.write_outputs(outputs, inputs.layout)


# Paths


def _path_and_query(request: Request) -> str:
    path, query = request.scope["raw_path"], request.scope["query_string"]
    return to_text(path + b"?" + query if query else path)


def _target(match: re.Match[str]) -> Target:
    label = match["label"]
    return Target(
        unquote(match["name"], errors="surrogateescape"),
        None if match["version"] is None else _version(match["version"]),
        None if label is None else unquote(label, errors="surrogateescape"),
    )


def _version(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > 19 or int(significant) >= 2**63:
        raise invalid(f"Failed to convert version: {digits} to numeric.")
    return int(significant)


# Bodies


async def _read_body(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _unpack(body: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = stream.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise invalid(f"Failed to uncompress the gzipped body: {error}") from error
    if len(unpacked) > max_bytes:
        raise _too_large(max_bytes)
    if not stream.eof:
        raise invalid("Failed to uncompress the gzipped body: it is cut short")
    return unpacked


def _too_large(max_bytes: int) -> HTTPException:
    return HTTPException(
        413, f"The body is larger than {max_bytes} bytes (--max-body-bytes): send fewer rows at a time"
    )


def _require_within(limits: Limits, name: str, tensor: np.ndarray) -> None:
    if tensor.ndim and len(tensor) > limits.max_batch_rows:
        rows = f"{len(tensor)} rows, more than {limits.max_batch_rows}"
        raise invalid(f"Input {name} has {rows} (--max-batch-rows): send fewer at a time")
    if tensor.dtype == object:
        longest = max(map(len, tensor.flat), default=0)
        if longest > limits.max_text_bytes:
            size = f"{longest} bytes, more than {limits.max_text_bytes}"
            raise invalid(f"Input {name} has a string of {size} (--max-text-bytes): split it into sentences")


# Answers


def _json(document: bytes, status: int = 200) -> Response:
    return Response(document, status, media_type="application/json")


def _indented(document: dict[str, Any]) -> bytes:
    """Protocol buffers' own JSON, which indents by one."""
    return to_bytes(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _status_document(status: VersionStatus) -> dict[str, Any]:
    return {
        "version": str(status.version),
        "state": status.state.value,
        "status": {"error_code": status.code.name, "error_message": status.message},
    }


def _error(message: str, status: int) -> Response:
    return _json(to_bytes(f'{{\n    "error": {quoted(message)}\n}}'), status)


async def _answer_status_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, StatusError):
        raise error
    return _error(error.message, error.code.http)


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _error(error.detail, error.status_code)


async def _answer_nobody(request: Request, error: Exception) -> Response:
    return _error("Client closed request", Code.CANCELLED.http)


async def _answer_defect(request: Request, error: Exception) -> Response:
    return _error("Internal error", Code.INTERNAL.http)
