"""Policies and operator policies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from amqproxy.management.call import Call, Entry
from amqproxy.management.listing import Rows


def listing(kind: str) -> Callable[[Call], Awaitable[Rows]]:
    """Return the handler that lists policies of a kind, of a virtual host or of all that the user may use."""

    async def handler(call: Call) -> Rows:
        async def rows() -> AsyncIterator[Entry]:
            async for each in call.broker.objects(kind, call.values.get("vhost")):
                if call.sees(each["vhost"]):
                    yield each

        return Rows(rows(), ("priority",))

    return handler


def one(kind: str) -> Callable[[Call], Awaitable[Entry]]:
    """Return the handler of one policy of a kind."""

    async def handler(call: Call) -> Entry:
        return await call.one(kind, call.values["name"], call.values["vhost"])

    return handler
