"""Authentication by the token, or by a login with the token or the password."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from amqproxy.dashboard.problem import problem_response
from amqproxy.dashboard.request_limits import OPEN_PATHS
from amqproxy.dashboard.settings import Settings
from amqproxy.web.wrong_passwords import WrongPasswords

COOKIE = "amqproxy-dashboard"
"""Name of the login cookie; the port follows, since a host shares one set of cookies among all its ports."""

LOGIN_SECONDS = 12 * 3600
"""Lifetime of a login in seconds."""

MAX_LOGINS = 1000
"""Maximum number of concurrent logins; another one ends the oldest."""

_PORT = re.compile(r":(\d{1,5})$", re.ASCII)


class Logins:
    """The logins of one dashboard, by the values of their cookies."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._names: dict[str, tuple[str, float]] = {}
        self._wrong_passwords = WrongPasswords()

    @property
    def is_needed(self) -> bool:
        return self._settings.needs_login

    async def log_in(self, secret: str, address: str) -> str | None:
        """Return the cookie value for the right token or password; `None`, after a delay, for a wrong one.

        Wrong passwords of one address do not keep other addresses from logging in. `TooManyFailures` beyond the bounds.
        """

        async def check() -> str | None:
            return self._name_of(secret)

        name = await self._wrong_passwords.checked(address, check)
        if name is None:
            return None
        key = secrets.token_urlsafe(32)
        while len(self._names) >= MAX_LOGINS:
            del self._names[next(iter(self._names))]
        self._names[key] = (name, self._clock() + LOGIN_SECONDS)
        return key

    def log_out(self, cookie: str) -> None:
        """End the login that this cookie value identifies."""
        self._names.pop(cookie, None)

    def login_of(self, headers: Headers) -> str | None:
        """Return the name of the secret that these headers' sender logged in with; `None` without a login."""
        if not self.is_needed:
            return ""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._settings.token is not None and _is_same(token, self._settings.token):
            return "token"
        name, until = self._names.get(cookie_of(headers), ("", 0.0))
        return name if name and self._clock() < until else None

    def _name_of(self, secret: str) -> str | None:
        for name, wanted in (("token", self._settings.token), ("password", self._settings.password)):
            if wanted is not None and _is_same(secret, wanted):
                return name
        return None


def cookie_name(headers: Headers) -> str:
    """Return the login cookie's name for the host and port of the request."""
    found = _PORT.search(headers.get("host", ""))
    return COOKIE if found is None else f"{COOKIE}-{found[1]}"


def cookie_of(headers: Headers) -> str:
    """Return the value of the login cookie; "" if there is none."""
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(headers), "")


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


class LoginCheck:
    """Middleware that refuses the API and its WebSocket to clients without a login."""

    def __init__(self, app: ASGIApp, logins: Logins) -> None:
        self._app = app
        self._logins = logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not _is_guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        login = self._logins.login_of(Headers(scope=scope))
        if login is not None:
            scope.setdefault("state", {})["login"] = login
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "log in first"})
        else:
            headers = {"www-authenticate": "Bearer"}
            await problem_response(401, "log in with the token or the password", headers=headers)(scope, receive, send)


def _is_guarded(path: str) -> bool:
    return path.startswith("/api") and path not in OPEN_PATHS
