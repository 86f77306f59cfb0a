"""Logins to brokers, which users of the dashboard have given: kept in memory only, for each browser by itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, MutableMapping

import msgspec
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from amqproxy.dashboard.auth import LOGIN_SECONDS, MAX_LOGINS, cookie_name

SUFFIX = "-broker"
"""End of the name of the cookie, which begins with that of the dashboard's own login."""


class BrokerLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A user of a broker. `address` is HOST:PORT for AMQP, `api` the URL of a RabbitMQ's management API, or ""."""

    user: str
    password: str
    address: str = ""
    is_tls: bool = False
    api: str = ""

    def __repr__(self) -> str:
        return f"BrokerLogin(user={self.user!r}, address={self.address!r})"  # without the password


class BrokerLogins:
    """The logins by cookie value and source."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._browsers: dict[str, tuple[float, MutableMapping[int, BrokerLogin]]] = {}

    def keep(self, cookie: str, source: int, login: BrokerLogin) -> str:
        """Keep a login; return the cookie value by which it is found, a new one unless the present one is known."""
        until, logins = self._browsers.pop(cookie, (0.0, {}))
        if not logins or self._clock() >= until:
            cookie, logins = secrets.token_urlsafe(32), {}
        while len(self._browsers) >= MAX_LOGINS:
            del self._browsers[next(iter(self._browsers))]
        self._browsers[cookie] = (self._clock() + LOGIN_SECONDS, {**logins, source: login})
        return cookie

    def of(self, cookie: str, source: int) -> BrokerLogin | None:
        """Return the login for a source; None without one."""
        until, logins = self._browsers.get(cookie, (0.0, {}))
        return logins.get(source) if self._clock() < until else None

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
