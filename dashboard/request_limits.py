"""Limits on requests: concurrent requests per address, and the size and duration of their bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from amqproxy.dashboard.problem import problem_response
from amqproxy.web.client_network import network_of

AT_ONCE = 8
"""Maximum number of requests of one address that are served concurrently; further ones wait."""

MAX_WAITING = 64
"""Maximum number of waiting requests of one address."""

MAX_BODY = 8 * 1024 * 1024
"""Maximum size of a request body, in bytes."""

OPEN_BODY = 64 * 1024
"""Maximum size of a request body on a path that needs no login, in bytes."""

BODY_SECONDS = 30.0
"""Seconds within which a request body has to arrive."""

OPEN_PATHS = frozenset({"/api/v1/session"})
"""Paths of the API that need no login."""


class _Address(msgspec.Struct):
    turns: asyncio.Semaphore
    count: int = 0


class _Busy(Exception):
    """Too many requests of one address are waiting."""


class RequestLimits:
    """Middleware that enforces the limits."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._addresses: dict[str, _Address] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = OPEN_BODY if scope["path"] in OPEN_PATHS else MAX_BODY
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > most:
            refusal = _too_long(most)
            await problem_response(refusal.status_code, refusal.detail)(scope, receive, send)
            return
        try:
            async with self._turn(scope):
                await self._app(scope, _Body(receive, most).receive, send)
        except _Busy:
            await problem_response(429, "too many requests at once")(scope, receive, send)

    @asynccontextmanager
    async def _turn(self, scope: Scope) -> AsyncIterator[None]:
        client = scope.get("client")
        network = network_of(client[0] if client else "")
        address = self._addresses.get(network)
        if address is None:
            address = self._addresses[network] = _Address(asyncio.Semaphore(AT_ONCE))
        if address.count >= AT_ONCE + MAX_WAITING:
            raise _Busy
        address.count += 1
        try:
            async with address.turns:
                yield
        finally:
            address.count -= 1
            if not address.count:
                self._addresses.pop(network, None)


class _Body:
    """The body of one request, within its limits; an `HTTPException` beyond them."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._size = 0
        self._is_whole = False
        self._stop_at = asyncio.get_running_loop().time() + BODY_SECONDS

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._stop_at):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"the body took more than {BODY_SECONDS:.0f} seconds") from None
        self._size += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if self._size > self._most:
            raise _too_long(self._most)
        return message


def _too_long(most: int) -> HTTPException:
    return HTTPException(413, f"a body has {most} bytes at most here")
