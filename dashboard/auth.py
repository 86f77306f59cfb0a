"""Who may ask: those who show the token, or have logged in with it or with the password."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.problem import problem_response
from dashboard.settings import Settings

COOKIE = "amqproxy-dashboard"

LOGIN_SECONDS = 12 * 3600
"""How long a login lasts."""

MAX_LOGINS = 1000
"""Logins at a time; the oldest ends."""

FAILURE_PAUSE = 0.5
"""Seconds until a wrong password is answered, one after the other: so that trying many takes long."""

MAX_FAILURES = 20
"""Wrong passwords that wait for their answer; of more, none is looked at."""

OPEN_PATHS = frozenset({"/api/v1/session"})
"""What is answered without a login."""


class TooManyFailures(Exception):
    """Others are trying passwords."""


class Logins:
    """The logins of one dashboard, by what their cookies hold."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._names: dict[str, tuple[str, float]] = {}
        self._turn = asyncio.Lock()
        self._failures = 0

    @property
    def is_needed(self) -> bool:
        return self._settings.needs_login

    async def log_in(self, secret: str) -> str | None:
        """What the cookie is to hold, for the right token or password; None, after a while, for a wrong one."""
        if self._failures >= MAX_FAILURES:
            raise TooManyFailures("too many wrong passwords: try again later")
        name = self._name_of(secret)
        if name is None:
            self._failures += 1
            try:
                async with self._turn:
                    await asyncio.sleep(FAILURE_PAUSE)
            finally:
                self._failures -= 1
            return None
        key = secrets.token_urlsafe(32)
        while len(self._names) >= MAX_LOGINS:
            del self._names[next(iter(self._names))]
        self._names[key] = (name, self._clock() + LOGIN_SECONDS)
        return key

    def log_out(self, cookie: str) -> None:
        """End a login."""
        self._names.pop(cookie, None)

    def login_of(self, headers: Headers) -> str | None:
        """With which secret the sender of these headers has logged in; None without a login."""
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


def cookie_of(headers: Headers) -> str:
    """What our cookie holds; "" if there is none."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


class LoginCheck:
    """Answers what is asked of the API, and its WebSocket, only for those who have logged in."""

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
