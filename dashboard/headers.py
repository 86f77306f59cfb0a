"""Checks of request headers, and security headers of responses: pages may load nothing from other servers."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from amqproxy.dashboard.problem import problem_response
from amqproxy.dashboard.settings import Settings
from amqproxy.web.browser_requests import has_other_origin, is_of_other_site, is_own, own_names

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


class HeaderChecks:
    """Middleware that answers only requests for this server's own names, from its own pages.

    A page of another site may make a browser send requests here, or point its own name here (DNS rebinding). A name
    therefore has to be an address, this machine's, or one that is configured, and `Origin` has to equal `Host`.
    Requests without an `Origin`, such as those for images, are judged by their `Sec-Fetch-Site`.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._names = own_names(settings.host, *settings.hosts)

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
        if not is_own(headers.get("host", ""), self._names):
            return "the dashboard is not called by this name here (`hosts` names others)"
        if has_other_origin(headers):
            return OTHER_SITE
        if is_of_other_site(headers):
            # Links from other sites may lead to pages, but not to the API.
            is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            if not is_link or path.startswith("/api"):
                return OTHER_SITE
        return None
