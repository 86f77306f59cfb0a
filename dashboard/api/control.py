"""Requests to a proxy's control socket on behalf of a browser, with a log of those that change something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends, Request

from amqproxy.control import RequestError
from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.control.request import MANAGEMENT_REQUESTS
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.source import Source
from amqproxy.process.log import logger

_STATUS = {
    "unreachable": 503,
    "busy": 503,
    "malformed": 400,
    "too-long": 413,
    "no-session": 404,
    "no-channel": 404,
    "no-rule": 404,
    "no-upstream": 404,
    "no-switch": 404,
    "not-held": 404,
    "wrong-rules": 400,
    "too-slow": 400,
    "wrong-edit": 400,
    "wrong-filter": 400,
    "refused": 403,
    "denied": 403,
    "not-found": 404,
    "no-vhost": 404,
    "no-user": 404,
    "invalid": 400,
    "failed": 502,
    "not-kept": 502,
}
"""HTTP status by control socket error; all other errors are conflicts (409)."""


def can(source: Source, request: str) -> bool:
    """Whether the source is a proxy that understands this request."""
    return source.requests is not None and request in source.understood


def understanding(source: Source, request: str) -> ProxyRequests:
    """Return the client of a source that understands a request; `Problem` for any other source."""
    if source.requests is None:
        raise Problem(404, f"{source.name} is a capture: there is no proxy to ask")
    if source.understood and request not in source.understood:
        lacking = "it is a broker by itself, or of another version"
        if request in MANAGEMENT_REQUESTS:
            lacking = "it has no integrated broker, or is of another version"
        raise Problem(404, f"{source.name} does not know the request {request!r}: {lacking}")
    return source.requests


@contextmanager
def told_problems() -> Iterator[None]:
    """Raise a `Problem` for a request that is refused in the block."""
    try:
        yield
    except RequestError as error:
        raise Problem(_STATUS.get(error.name, 409), str(error), error=error.name) from None


async def asked(source: Source, request: str, **keys: Any) -> dict[str, Any]:
    """Return a proxy's response without `ok`; `Problem` if it refuses the request."""
    with told_problems():
        response = await understanding(source, request).ask(request, **keys)
    return {name: value for name, value in response.items() if name != "ok"}


def entries_of(response: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of objects under a name in a response; `Problem` if there is none."""
    found = response.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Problem(502, f"the proxy answered without {name}: it is of another version, or no proxy")
    return found


class Actor:
    """The user of actions, which are logged; a read-only dashboard has none."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def does(self, source: Source, request: str, **keys: Any) -> dict[str, Any]:
        """Send a request that changes something, and log the user, the request and its outcome."""
        fields = {name: value for name, value in keys.items() if isinstance(value, int | str) and name != "text"}
        outcome = "refused"
        try:
            response = await asked(source, request, **keys)
            outcome = "done"
        finally:
            self.log(request, source, outcome, **fields)
        return response

    def log(self, action: str, source: Source | None, outcome: str, **fields: Any) -> None:
        """Log an action, and its source if it has one."""
        if source is not None:
            fields = {"source": source.name, **fields}
        logger().info("dashboard action", action=action, by=self.name, outcome=outcome, **fields)


def actor_of(request: Request) -> Actor:
    """Return the user of a request that changes something; `Problem` if the dashboard is read-only."""
    if request.app.state.settings.read_only:
        raise Problem(403, "this dashboard only shows: it changes nothing")
    return Actor(who(request))


def who(request: Request) -> str:
    """Return the user's name for the log: the kind of login, and the client's address."""
    address = request.client.host if request.client else "?"
    name = getattr(request.state, "login", None)
    return f"{name} at {address}" if name else address


ActorOf = Annotated[Actor, Depends(actor_of)]
