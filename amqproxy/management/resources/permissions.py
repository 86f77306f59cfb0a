"""Permissions of users in virtual hosts, and for the routing keys of topic exchanges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import not_found
from amqproxy.management.listing import Rows


def everywhere(kind: str) -> Callable[[Call], Awaitable[Rows]]:
    """Return the handler that lists all permissions of a kind."""

    async def handler(call: Call) -> Rows:
        return Rows(call.broker.objects(kind), ("vhost", "user"))

    return handler


def of_user(kind: str) -> Callable[[Call], Awaitable[Rows]]:
    """Return the handler that lists a user's permissions."""

    async def handler(call: Call) -> Rows:
        await call.one("users", call.values["user"])
        return Rows(call.broker.objects(kind, name=call.values["user"]), ("vhost", "user"))

    return handler


def of_vhost(kind: str) -> Callable[[Call], Awaitable[Rows]]:
    """Return the handler that lists the permissions in a virtual host."""

    async def handler(call: Call) -> Rows:
        return Rows(call.broker.objects(kind, call.values["vhost"]), ("vhost", "user"))

    return handler


async def permission(call: Call) -> Entry:
    return await call.one("permissions", call.values["user"], call.values["vhost"])


async def topic_permissions(call: Call) -> Any:
    """Return a user's permissions for topic exchanges in a virtual host."""
    found = [each async for each in call.broker.objects("topic-permissions", call.values["vhost"], call.values["user"])]
    if not found:
        raise not_found()
    return found
