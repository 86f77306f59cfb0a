"""The ASGI application: finds the route, the login and the access of a request, and sends the handler's answer.

Paths are matched before they are decoded: a virtual host is often named `/`, which is `%2F` in a path. That is why
this is not FastAPI's router, which decodes first.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from amqproxy.configuration.values import is_loopback
from amqproxy.control import RequestError
from amqproxy.management.access import Access, User, check_access
from amqproxy.management.body import MAX_FORM, check_announced, read_body
from amqproxy.management.broker_source import BrokerFacts, BrokerSource
from amqproxy.management.call import Call, Done
from amqproxy.management.failure import Challenge, Failure, WrongPassword, not_found, refusal
from amqproxy.management.listing import Chunks, Rows, list_query, listed, name_matcher, selected
from amqproxy.management.login import Logins, form_credentials
from amqproxy.management.response_headers import ResponseHeaders
from amqproxy.management.route import Found, Routes
from amqproxy.management.routes import ROUTES
from amqproxy.management.settings import Settings
from amqproxy.management.statistics.sampler import Sampler
from amqproxy.process.supervision import contained
from amqproxy.web.browser_requests import is_own, own_names

MAX_REASON = 200
"""Maximum number of characters of a reply text."""

NOBODY = User("", (), frozenset())

CHALLENGE = (b"www-authenticate", b'Basic realm="RabbitMQ Management"')

JSON = (b"content-type", b"application/json")

GZIP = (b"content-encoding", b"gzip")

GZIP_FORMAT = 31
"""`wbits` of gzip's format for zlib."""

LEAST_COMPRESSED = 300
"""Bytes up to which a response is not compressed, as in RabbitMQ."""

COMPRESSION = 1
"""Level of compression: the fastest, since others wait meanwhile."""


class ManagementApp:
    """The application of one broker's API."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names = own_names(settings.host)
        self._headers = ResponseHeaders(settings)
        self._broker = BrokerSource(settings.control)
        self._logins = Logins(self._broker)
        self._sampler = Sampler(self._broker)
        self._routes = Routes(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        response = _Response(scope, send, self._headers)
        with contained("management request failed", path=scope["path"]):
            try:
                await self._answer(scope, receive, response)
            except Failure as failure:
                await response.fail(failure)
            except RequestError as error:
                await response.fail(refusal(error))
        if not response.has_begun:
            await response.fail(Failure(500, "internal_error", "this failed; the log of the broker has the reason"))

    async def sample(self) -> None:
        """Sample the broker's counts, for rates and history, until cancelled."""
        await self._sampler.run()

    async def aclose(self) -> None:
        """Close the connections to the broker's control socket."""
        await self._broker.aclose()

    async def _answer(self, scope: Scope, receive: Receive, response: _Response) -> None:
        headers = Headers(scope=scope)
        check_announced(headers)
        facts = await self._broker.facts()
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = self._routes.find(scope["raw_path"], facts.version)
        response.allow = "HEAD, GET, OPTIONS" if found is None else found.route.allowed
        response.shows_allow = facts.is_4 and found is not None
        if method == "OPTIONS":
            await response.options()
            return
        if found is None:
            raise not_found()
        if method not in found.route.methods:
            await response.refuse_method()
            return
        if method != "GET" and not self._headers.allows_change(headers):
            raise Failure(403, "forbidden", "this was asked by a page of another site")
        body = b""
        if found.route.access is Access.FORM:
            check_announced(headers, MAX_FORM)
            self._logins.check_may_try(self._origin(scope, headers)[0])
            body = await read_body(receive, MAX_FORM)
            user = await self._user_of_form(scope, headers, body, facts)
        else:
            user = await self._user(scope, headers, found, method, facts)
            body = b"" if method == "GET" else await read_body(receive)
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        call = Call(
            found.values,
            dict(asked),
            body,
            (headers.get("x-reason") or "Closed via management plugin")[:MAX_REASON],
            user,
            self._broker,
            facts,
            self._settings,
            self._sampler.history,
            self._logins.attempts,
            asked,
        )
        answer = await found.route.methods[method](call)
        if isinstance(answer, Rows):
            query = list_query(call.query, has_pages=answer.has_pages)
            is_chosen = name_matcher(query, refuses_patterns=not facts.is_4)
            async with aclosing(listed(answer, query, is_chosen)) as chunks:
                await response.stream(chunks)
        elif isinstance(answer, Chunks):
            async with aclosing(answer.chunks) as chunks:
                await response.stream(chunks, (b"content-type", answer.content_type.encode()))
        elif isinstance(answer, Done):
            await response.done(answer)
        else:
            await response.json(selected(answer, call.query) if isinstance(answer, dict) else answer)

    async def _user(self, scope: Scope, headers: Headers, found: Found, method: str, facts: BrokerFacts) -> User:
        """Return the user of a request that it may make; a `Failure` otherwise."""
        access, vhost = found.route.access_of(method), found.values.get("vhost")
        if access is Access.ANYONE or (access is Access.METRICS and self._settings.metrics_without_login):
            return NOBODY
        address, is_local = self._origin(scope, headers)
        authorization = headers.get("authorization", "")
        login = await self._logins.log_in(authorization, address, vhost, is_local=is_local, is_4=facts.is_4)
        # As in RabbitMQ: the user's tags first, then whether the virtual host exists, then permissions in it.
        values = {name: found.values[name] for name in found.values if login.has_vhost or name != "vhost"}
        check_access(access, login.user, values, hides_vhosts=facts.is_4)
        if not login.has_vhost and not found.route.makes_vhost(method):
            raise Failure(404, "not_found", "vhost_not_found") if method in ("PUT", "POST") else not_found()
        return login.user

    async def _user_of_form(self, scope: Scope, headers: Headers, body: bytes, facts: BrokerFacts) -> User:
        """Return the user that a form in the body names with its password, and that may use the API."""
        credentials = form_credentials(body)
        if credentials is None:
            raise WrongPassword(is_4=facts.is_4)
        address, is_local = self._origin(scope, headers)
        login = await self._logins.checked(credentials, address, is_local=is_local, is_4=facts.is_4)
        check_access(Access.MANAGEMENT, login.user, {}, hides_vhosts=facts.is_4)
        return login.user

    def _origin(self, scope: Scope, headers: Headers) -> tuple[str, bool]:
        """Return the address that a request comes from, and whether guest may log in from there."""
        address = scope["client"][0] if scope.get("client") else ""
        # A page under another name of this machine may guess guest's password.
        return address, is_loopback(address) and is_own(headers.get("host", ""), self._names)


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding header allows gzip."""
    for each in header.split(","):
        name, _, quality = each.partition(";")
        if name.strip().lower() == "gzip":
            return re.fullmatch(r"\s*q=0(\.0*)?\s*", quality) is None
    return False


class _Response:
    """The response to one request."""

    def __init__(self, scope: Scope, send: Send, headers: ResponseHeaders) -> None:
        self._request = Headers(scope=scope)
        self._headers = headers
        self._takes_gzip = accepts_gzip(self._request.get("accept-encoding", ""))
        self._is_head = scope["method"] == "HEAD"
        self._send = send
        self.has_begun = False
        self.allow = ""
        self.shows_allow = False

    async def _begin(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        self.has_begun = True
        found = [*self._headers.of(self._request), *headers]
        if self.shows_allow or status == HTTPStatus.METHOD_NOT_ALLOWED:
            found.append((b"allow", self.allow.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": found})

    async def _whole(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        await self._begin(status, (b"content-length", str(len(body)).encode()), *headers)
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else body})

    async def json(self, answer: Any, status: int = 200) -> None:
        await self._packed(msgspec.json.encode(answer), status)

    async def _packed(self, body: bytes, status: int = 200, kind: tuple[bytes, bytes] = JSON) -> None:
        if self._takes_gzip and len(body) > LEAST_COMPRESSED:
            await self._whole(status, gzip.compress(body, COMPRESSION), kind, GZIP)
        else:
            await self._whole(status, body, kind)

    async def done(self, done: Done) -> None:
        headers = [] if done.location is None else [(b"location", done.location.encode())]
        if done.status == HTTPStatus.NO_CONTENT:
            await self._begin(done.status, *headers)
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await self._whole(done.status, b"", *headers)

    async def stream(self, chunks: AsyncIterator[bytes], kind: tuple[bytes, bytes] = JSON) -> None:
        """Send a list, of this content type; a short one with its length."""
        first = await anext(chunks)
        second = await anext(chunks, None)
        if second is None:
            await self._packed(first, kind=kind)
            return
        packer = zlib.compressobj(COMPRESSION, wbits=GZIP_FORMAT) if self._takes_gzip else None
        await self._begin(200, kind, *([] if packer is None else [GZIP]))
        for each in (first, second):
            await self._part(each if packer is None else packer.compress(each))
        async for each in chunks:
            await self._part(each if packer is None else packer.compress(each))
        if packer is not None:
            await self._part(packer.flush())
        await self._send({"type": "http.response.body", "body": b""})

    async def _part(self, chunk: bytes) -> None:
        if chunk and not self._is_head:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def options(self) -> None:
        self.shows_allow = True
        await self._whole(200, b"", *self._headers.of_preflight(self._request, self.allow))

    async def refuse_method(self) -> None:
        await self._whole(405, b"")

    async def fail(self, failure: Failure) -> None:
        if self.has_begun:
            return
        if isinstance(failure, Challenge):
            await self._whole(401, b"", CHALLENGE)
        elif isinstance(failure, WrongPassword) and failure.is_challenged:
            await self._whole(401, msgspec.json.encode(failure.body), JSON, CHALLENGE)
        else:
            await self.json(failure.body, failure.status)
