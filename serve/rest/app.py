"""The HTTP routes: TensorFlow Serving's REST API, its metrics, and the page in ``serve/web``."""

import asyncio
import re
import time
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import unquote

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import SMALL_BODY, Core, Ticket
from ..limits import Limits, require_few_sentences, require_few_values
from ..metrics import METRICS_PATH
from ..models.status import Code, ModelSpec, StatusError, client_left, invalid
from . import codec, json_text
from .json_text import to_text
from .page import PageFiles

_NAME = r"/v1/models/(?P<name>[^/:]+)"
_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_INFERENCE = re.compile(rf"(?i:{_NAME}{_VERSION}:(?P<method>predict|classify|regress))")
_STATUS = re.compile(rf"(?i:{_NAME}{_VERSION}(?P<metadata>/metadata)?)")
_AUTHORITY = re.compile(rb"\A(?i:https?://[^/]*)")

HEALTH_PATH = "/healthz"
"""Path that answers 200 if a model is available, else 503."""

_TWO_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Headers that must not occur together: a proxy in front of the server could find the end of the body elsewhere."""

_CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST, GET",
    "Access-Control-Allow-Headers": "Content-Type, Authorization, X-Request-Id",
    "Access-Control-Expose-Headers": "X-Request-Id, Retry-After",
}


def create_app(
    core: Core,
    *,
    with_cors: bool = False,
    with_monitoring: bool = False,
    web: Path | None = None,
    hosts: Collection[str] = (),
) -> ASGIApp:
    """Returns the ASGI application that serves ``core``.

    Args:
        core: Models and limits.
        with_cors: If `True`, web pages of other origins may send requests, read the answers, and show the page in a
            frame.
        with_monitoring: If `True`, serves Prometheus metrics.
        web: Folder of the page, whose files are served outside /v1/; see ``PageFiles``. `None` serves no page.
        hosts: Accepted values of the header Host, without port. Empty accepts any.
    """
    api = RestApi(core)
    files = None if web is None else PageFiles(web, core.repository, in_frames=with_cors)

    async def front(scope: Scope, receive: Receive, send: Send) -> None:
        raw = _AUTHORITY.sub(b"", scope["raw_path"]) or b"/"
        scope = {**scope, "raw_path": raw, "path": unquote(to_text(raw))}
        path = _path_and_query(scope)
        if with_cors:
            send = _sender_with(_CORS, send)
        answer: ASGIApp = _error(StatusError(Code.NOT_FOUND, "Not Found"))
        reason = ""
        if _TWO_LENGTHS <= {name for name, _ in scope["headers"]}:
            reason = "A request must not have both Content-Length and Transfer-Encoding. Send one of them."
            answer = _error(invalid(reason), {"Connection": "close"})
        elif hosts and (host := re.sub(r":\d*$", "", Headers(scope=scope).get("host", "").lower())) not in hosts:
            reason = f"Host {host!r} is not served. Use {' or '.join(sorted(hosts))}."
            answer = _error(StatusError(Code.PERMISSION_DENIED, reason))
        elif not with_cors and _is_from_another_page(scope):
            reason = (
                "Web pages of other origins are refused. If a proxy serves the page over plain HTTP, let it pass the "
                "header Host on. To accept all pages, start the server with --enable-cors-support."
            )
            answer = _error(StatusError(Code.PERMISSION_DENIED, reason))
        elif path.lower().startswith("/v1/"):
            answer = api
        elif scope["method"] == "CONNECT":
            pass  # a success could not have a body
        elif with_cors and scope["method"] == "OPTIONS":  # a browser asks before it sends headers of its own
            answer = _json(b"")
        elif scope["path"] == HEALTH_PATH:
            body, status = ("ok", 200) if core.repository.available() else ("no model is available", 503)
            answer = Response(body, status, media_type="text/plain")
        elif with_monitoring and path == METRICS_PATH:
            answer = Response(core.metrics.page(), media_type="text/plain")
        elif with_monitoring and scope["path"] == METRICS_PATH:
            error = invalid(f"Unexpected path: {path}. Should be {METRICS_PATH}")
            answer = Response(error.message, error.http, media_type="text/plain")
        elif files and scope["method"] in ("GET", "HEAD"):
            answer = files
        if reason:
            core.metrics.record_refusal("request")
        try:
            await answer(scope, receive, send)
        except HTTPException as raised:  # from files
            await _error(StatusError(Code.UNKNOWN, raised.detail, raised.status_code))(scope, receive, send)

    return ServerErrorMiddleware(front, handler=_answer_defect)


class RestApi:
    """The routes under /v1/, for all HTTP methods."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._limits = core.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            response = await self._answer(Request(scope, receive))
        except StatusError as error:
            response = _error(error, {"Connection": "close"} if error.http == 408 else None)
        except asyncio.CancelledError:  # only a stop of the server cancels a request
            response = _error(StatusError(Code.UNAVAILABLE, "The server is stopping. Try again."))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = _path_and_query(request.scope)
        if request.method == "POST" and (match := _INFERENCE.fullmatch(path)):
            return _json(await self._infer(request, _target(match), match["method"].lower()))
        if request.method == "GET" and (match := _STATUS.fullmatch(path)):
            answer = self._metadata if match["metadata"] else self._status
            return _json(answer(_target(match)))
        if request.method == "OPTIONS" and request.headers.get("origin", "").startswith(("http://", "https://")):
            return _json(b"")
        raise invalid(f"Malformed request: {request.method} {path}")

    def _status(self, target: ModelSpec) -> bytes:
        # TensorFlow Serving ignores the label here and returns all versions
        statuses = [
            {
                "version": str(status.version),
                "state": status.state.value,
                "status": {"error_code": status.code.name, "error_message": status.message},
            }
            for status in self._core.repository.status(target.name, target.version)
        ]
        return json_text.write({"model_version_status": statuses})

    def _metadata(self, target: ModelSpec) -> bytes:
        loaded = self._core.repository.find(*target)
        model_spec = {"name": loaded.name, "signature_name": "", "version": str(loaded.version)}
        definitions = {"signature_def": loaded.servable.signature_definitions}
        return json_text.write({"model_spec": model_spec, "metadata": {"signature_def": definitions}})

    async def _infer(self, request: Request, target: ModelSpec, method: str) -> bytes:
        """Returns the answer to a predict request."""
        if method != "predict":
            self._core.repository.find(*target)  # raises the error for a model that is not served
            raise invalid(f"Method :{method} is not supported. Use :predict.")
        async with self._core.admit(target.name) as ticket:
            body = await _read_body(request, self._limits, ticket)
            encoding = request.headers.get("content-encoding", "").lower() or "identity"
            is_packed = "gzip" in encoding
            if not is_packed and encoding != "identity":
                raise invalid(f"Content-Encoding {encoding} is not supported. Use gzip.")

            def work() -> bytes:
                return self._predict(_unpacked(body, self._limits, is_packed), target, ticket)

            return await ticket.take_turn(work, _left(request), is_small=not is_packed and len(body) <= SMALL_BODY)

    def _predict(self, body: bytes, target: ModelSpec, ticket: Ticket) -> bytes:
        document = codec.read_request(body, self._limits.max_values)
        with self._core.repository.using(*target) as loaded:
            signature = loaded.servable.signature(document.get("signature_name", ""))
            inputs = codec.read_inputs(document, signature.inputs, self._limits)
            if signature.splits_texts:
                require_few_sentences(self._limits, inputs.tensors, ticket.require_time)
            began = time.monotonic()
            outputs = loaded.servable.run(signature, inputs.tensors, ticket.seconds_left)
            self._core.metrics.record_run(ticket.model_name, time.monotonic() - began)
        require_few_values(self._limits, outputs)
        return codec.write_outputs(outputs, inputs.layout)


# Hosts and paths


def _is_from_another_page(scope: Scope) -> bool:
    """Returns `True` if a web page of another origin sent a request that can make the server compute.

    Pages may send such requests to any address without permission; only the answers are hidden from them. Browsers
    state the origin of the page, and whether it is the server's own. A proxy may change Host, but not Sec-Fetch-Site.
    """
    headers = Headers(scope=scope)
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return False
    if (site := headers.get("sec-fetch-site")) is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower()


def _path_and_query(scope: Scope) -> str:
    """Returns the path with the query string, because TensorFlow Serving matches both."""
    path, query = scope["raw_path"], scope["query_string"]
    return to_text(path + b"?" + query if query else path)


def _target(match: re.Match[str]) -> ModelSpec:
    return ModelSpec(
        unquote(match["name"]),
        None if match["version"] is None else _version(match["version"]),
        None if match["label"] is None else unquote(match["label"]),
    )


def _version(digits: str) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > 19 or int(significant) >= 2**63:
        raise invalid(f"Failed to convert version: {digits} to numeric.")
    return int(significant)


# Bodies


async def _left(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, limits: Limits, ticket: Ticket) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(ticket.seconds_left):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.max_body_bytes:
                    raise _too_large(limits)
    except TimeoutError as error:
        raise StatusError(
            Code.CANCELLED,
            f"The body did not arrive within {limits.seconds:g} seconds (--rest-api-timeout-in-ms)",
            http=408,
        ) from error
    except ClientDisconnect as error:
        raise client_left() from error
    return bytes(body)


def _unpacked(body: bytes, limits: Limits, is_packed: bool) -> bytes:
    if not is_packed or not body:
        return body
    member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = member.decompress(body, limits.max_body_bytes + 1)
    except zlib.error as error:
        raise invalid(f"Failed to uncompress the gzipped body: {error}") from error
    if len(unpacked) > limits.max_body_bytes:
        raise _too_large(limits)
    if not member.eof or member.unused_data:
        raise invalid("Failed to uncompress the gzipped body: expected one whole gzip member")
    return unpacked


def _too_large(limits: Limits) -> StatusError:
    return StatusError(
        Code.RESOURCE_EXHAUSTED,
        f"The body is larger than {limits.max_body_bytes} bytes (--max-body-bytes). Send fewer rows at a time.",
        http=413,
    )


# Answers


def _sender_with(headers: Mapping[str, str], send: Send) -> Send:
    """Returns ``send`` with more headers on each answer."""

    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return send_with


def _json(document: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(document, status, headers, media_type="application/json")


def _error(error: StatusError, headers: Mapping[str, str] | None = None) -> Response:
    return _json(json_text.write({"error": error.message}), error.http, headers)


async def _answer_defect(request: Request, error: Exception) -> Response:
    return _error(StatusError(Code.INTERNAL, "Internal error"))
