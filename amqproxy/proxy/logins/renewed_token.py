"""The proxy's own token, which it renews before it expires."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from amqproxy.process.log import logger
from amqproxy.process.supervision import describe
from amqproxy.proxy.logins.credential import Credential, CredentialFailed
from amqproxy.proxy.logins.successors import Renewed, Successors
from amqproxy.rules.rewriting.secret import Secret

RENEWAL = 2 / 3
"""Part of its lifetime after which a token is renewed, at the latest."""

JITTER = 0.1
"""Part of that time by which a renewal may be earlier, so that many proxies do not ask at the same moment."""

MIN_PAUSE = 1.0
"""Shortest time between two requests, in seconds."""

MAX_BACKOFF = 15.0
"""Longest time between two requests after failures, in seconds."""

UNKNOWN_LIFETIME = 3600.0
"""Time after which a token is renewed that does not say when it expires, in seconds."""

PATIENCE = 15.0
"""Time for which a login waits for the first token, in seconds."""


class NewToken(NamedTuple):
    """A token, and when it expires, in seconds since 1970: infinity if that is not known."""

    token: Secret
    expires_at: float


class RenewedToken:
    """`CredentialSource` of tokens that `fetch` returns, which raises `CredentialFailed`, one call at a time.

    `count` is called with the outcome of each. After a failure, the current token stays in force until it expires.
    """

    def __init__(
        self,
        upstream: str,
        user: str,
        fetch: Callable[[], Awaitable[NewToken]],
        count: Callable[[str], None],
        *,
        now: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._upstream = upstream
        self._user = user
        self._fetch = fetch
        self._count = count
        self._now = now
        self._draw = draw
        self._successors = Successors()
        self._credential: Credential | None = None
        self.fault = ""
        """The reason why the last request failed, or ""."""
        self._attempted = trio.Event()
        self._wanted = trio.Event()

    async def current(self) -> Credential:
        found = self._valid()
        if found is None and not self.fault:  # the first one is being fetched, or the clock has leapt
            self._wanted.set()
            with trio.move_on_after(PATIENCE):
                await self._attempted.wait()
            found = self._valid()
        if found is None:
            raise CredentialFailed(self.fault or f"there is no token after {PATIENCE:g} s")
        return found

    def subscribe(self, renewed: Renewed) -> Callable[[], None]:
        return self._successors.subscribe(renewed)

    async def run(self) -> None:
        """Fetch a token and its successors, forever."""
        failures = 0
        while True:
            pause = await self._renew()
            failures = 0 if pause is not None else failures + 1
            if pause is None:
                pause = min(MIN_PAUSE * 2.0 ** min(failures - 1, 10), MAX_BACKOFF) * (1 + self._draw() / 2)
            self._attempted.set()
            self._attempted, self._wanted = trio.Event(), trio.Event()
            await trio.sleep(min(pause, MIN_PAUSE))
            with trio.move_on_after(max(0.0, pause - MIN_PAUSE)):
                await self._wanted.wait()

    def _valid(self) -> Credential | None:
        found = self._credential
        return found if found is not None and self._now() < found.expires_at else None

    async def _renew(self) -> float | None:
        """Fetch a token; return how long to wait for the next one, in seconds, or `None` after a failure."""
        try:
            token, expires_at = await self._fetch()
            lifetime = expires_at - self._now()
            if lifetime <= 0:
                raise CredentialFailed("the issuer's token has expired already: compare its clock with this machine's")
        except Exception as error:  # noqa: BLE001 - an addon's code may raise anything, and is asked again
            fault = str(error) if isinstance(error, CredentialFailed) else describe(error)
            self._fail(fault)
            return None
        credential = Credential(self._user, token, is_token=True, expires_at=expires_at)
        is_first, self._credential, self.fault = self._credential is None, credential, ""
        self._count("renewed")
        logger().info("token fetched", upstream=self._upstream, seconds=round(min(lifetime, 1e9)))
        if not is_first:
            self._successors.publish(credential)
        if lifetime == math.inf:
            lifetime = UNKNOWN_LIFETIME
        return max(MIN_PAUSE, lifetime * RENEWAL * (1 - JITTER * self._draw()))

    def _fail(self, fault: str) -> None:
        self._count("failed")
        self.fault = fault
        found = self._valid()
        left = 0 if found is None else round(min(found.expires_at - self._now(), 1e9))
        logger().error("token not renewed", upstream=self._upstream, reason=fault, seconds_left=left)
