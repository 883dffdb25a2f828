"""The access log: a line for each request, as text or as JSON. Each answer has the id of its request."""

import json
import logging
import re
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

REQUEST_ID = "X-Request-Id"
_ID = re.compile(r"[!-~]{1,128}")


class AccessLog:
    """Logs each request of ``app`` when it has been answered.

    The id of a request is its header X-Request-Id, else a new one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        headers, began = Headers(scope=scope), time.monotonic()
        query = scope["query_string"].decode("latin-1")
        given = headers.get(REQUEST_ID, "")
        facts: dict[str, Any] = {
            "client": scope["client"][0] if scope.get("client") else None,
            "forwarded_for": headers.get("x-forwarded-for"),
            "request_id": given if _ID.fullmatch(given) else uuid.uuid4().hex,
            "method": scope["method"],
            "http_version": scope["http_version"],
            "path": scope["raw_path"].decode("latin-1") + ("?" + query if query else ""),
            "status": None,  # of a request without an answer, because the client has left
        }

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts["status"] = message["status"]
                MutableHeaders(scope=message).append(REQUEST_ID, facts["request_id"])
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            facts["milliseconds"] = round(1000 * (time.monotonic() - began), 1)
            logger.info(
                '%(client)s "%(method)s %(path)s HTTP/%(http_version)s" %(status)s %(milliseconds)s ms %(request_id)s',
                facts,
                extra={"request": facts},
            )


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON. A record of the access log has the facts of its request."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line."""
        time_ = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line: dict[str, Any] = {"time": time_, "level": record.levelname}
        line |= getattr(record, "request", None) or {"message": record.getMessage()}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
