"""Requests to an ASGI application without a network, for the tests of the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx
from starlette.types import ASGIApp


class Browser:
    """Sends requests to an application without a network, all on one event loop."""

    def __init__(self, app: ASGIApp, raise_app_exceptions: bool = True) -> None:
        self.app = app
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(app, raise_app_exceptions=raise_app_exceptions)
        self._http = httpx.AsyncClient(transport=transport, base_url="http://server")

    def send(self, method: str, path: str, **content: Any) -> Awaitable[httpx.Response]:
        return self._http.request(method, path, **content)

    def together(self, *requests: Awaitable[httpx.Response]) -> list[httpx.Response]:
        async def gather() -> list[httpx.Response]:
            return await asyncio.gather(*requests)

        return self._runner.run(gather())

    def request(self, method: str, path: str, **content: Any) -> httpx.Response:
        return self.together(self.send(method, path, **content))[0]

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def post(self, path: str, **content: Any) -> httpx.Response:
        return self.request("POST", path, **content)

    def close(self) -> None:
        self._runner.run(self._http.aclose())
        self._runner.close()
