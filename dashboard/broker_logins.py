"""Logins to brokers, which users of the dashboard have given: kept in memory only, for each browser by itself."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, MutableMapping

import msgspec
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from amqproxy.dashboard.auth import LOGIN_SECONDS, MAX_LOGINS, cookie_name

SUFFIX = "-broker"
"""End of the name of the cookie, which begins with that of the dashboard's own login."""


_KEY = secrets.token_bytes(32)


class BrokerLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a broker. `address` is HOST:PORT for AMQP, `api` the URL of a RabbitMQ's management API, or ""."""

    user: str
    password: str
    address: str = ""
    is_tls: bool = False
    api: str = ""

    @property
    def owner(self) -> bytes:
        """Digest by which a run is known to be of this login, also where the broker checks the password only later."""
        text = "\0".join((self.user, self.password, self.address))
        return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), key=_KEY).digest()

    def __repr__(self) -> str:
        return f"BrokerLogin(user={self.user!r}, address={self.address!r})"  # without the password


class BrokerLogins:
    """The logins by cookie value and source."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._browsers: dict[str, tuple[float, MutableMapping[int, BrokerLogin]]] = {}

    def keep(self, cookie: str, source: int, login: BrokerLogin) -> str:
        """Keep a login; return the cookie value by which it is found, a new one unless the present one is known."""
        self._drop_expired()
        _, logins = self._browsers.pop(cookie, (0.0, {}))
        if not logins:
            cookie, logins = secrets.token_urlsafe(32), {}
        while len(self._browsers) >= MAX_LOGINS:
            del self._browsers[next(iter(self._browsers))]
        self._browsers[cookie] = (self._clock() + LOGIN_SECONDS, {**logins, source: login})
        return cookie

    def of(self, cookie: str, source: int) -> BrokerLogin | None:
        """Return the login for a source; None without one."""
        self._drop_expired()
        _, logins = self._browsers.get(cookie, (0.0, {}))
        return logins.get(source)

    def _drop_expired(self) -> None:
        """Drop the passwords that were given too long ago; the oldest come first."""
        now = self._clock()
        for cookie in list(self._browsers):
            if now < self._browsers[cookie][0]:
                break
            del self._browsers[cookie]

    def forget(self, cookie: str, source: int | None = None) -> None:
        """Forget the login for a source, or all logins of a browser."""
        found = self._browsers.get(cookie)
        if found is not None and source is not None:
            found[1].pop(source, None)
        if found is not None and (source is None or not found[1]):
            del self._browsers[cookie]


def broker_cookie_name(headers: Headers) -> str:
    """Return the name of the cookie for the host and port of the request."""
    return cookie_name(headers) + SUFFIX


def broker_cookie_of(headers: Headers) -> str:
    """Return the value of the cookie; "" if there is none."""
    return cookie_parser(headers.get("cookie", "")).get(broker_cookie_name(headers), "")
