"""Permissions of users in virtual hosts, and for the routing keys of topic exchanges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from amqproxy.control import RequestError
from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import bad_request, not_found
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


async def put_permission(call: Call) -> Done:
    """Set a user's permissions in a virtual host."""
    body = call.required("configure", "write", "read")
    patterns = {name: body[name] for name in ("configure", "write", "read")}
    return await _put(call, "put-permission", patterns)


async def put_topic_permission(call: Call) -> Done:
    """Set a user's permissions for the routing keys of one topic exchange."""
    body = call.required("exchange", "write", "read")
    return await _put(call, "put-topic-permission", {name: body[name] for name in ("exchange", "write", "read")})


async def _put(call: Call, change: str, patterns: Entry) -> Done:
    try:
        return put(await call.change(change, vhost=call.values["vhost"], user=call.values["user"], **patterns))
    except RequestError as error:
        if error.name in ("no-user", "no-vhost"):
            raise bad_request("vhost_or_user_not_found") from None
        raise


async def delete_permission(call: Call) -> Done:
    return deleted(await call.change("delete-permission", vhost=call.values["vhost"], user=call.values["user"]))


async def delete_topic_permissions(call: Call) -> Done:
    """Remove a user's permissions for all topic exchanges of a virtual host, or for one of them."""
    names = {name: call.values.get(name) for name in ("vhost", "user", "exchange")}
    return deleted(await call.change("delete-topic-permissions", **names))
