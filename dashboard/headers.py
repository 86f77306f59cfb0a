"""Checks of request headers, and security headers of responses: pages may load nothing from other servers."""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from amqproxy.dashboard.problem import problem_response
from amqproxy.dashboard.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Content security policy: scripts and styles only from this server, and none inline."""

_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

OTHER_SITE = "this was asked by a page of another site"

_PORT = re.compile(r":\d{1,5}$")


class HeaderChecks:
    """Middleware that answers only requests for this server's own names, from its own pages.

    A page of another site may make a browser send requests here, or point its own name here (DNS rebinding). A name
    therefore has to be an address, this machine's, or one that is configured, and `Origin` has to equal `Host`.
    Requests without an `Origin`, such as those for images, are judged by their `Sec-Fetch-Site`.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._names = {
            "localhost",
            settings.host.lower(),
            socket.gethostname().lower(),
            *map(str.lower, settings.hosts),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope), scope["path"])
        if scope["type"] == "websocket":
            if refusal is not None:
                await send({"type": "websocket.close", "code": 1008, "reason": refusal})
                return
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        if refusal is not None:
            await problem_response(403, refusal)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers, path: str) -> str | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return "the dashboard is not called by this name here (`hosts` names others)"
        origin = headers.get("origin")
        if origin is not None and _host_of(origin) != host.lower():
            return OTHER_SITE
        if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site"):
            # Links from other sites may lead to pages, but not to the API.
            is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            if not is_link or path.startswith("/api"):
                return OTHER_SITE
        return None

    def _is_ours(self, host: str) -> bool:
        name = _PORT.sub("", host).lower()
        if name in self._names:
            return True
        try:
            ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


def _host_of(origin: str) -> str:
    """Return the host and port of an `Origin`; "" if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
