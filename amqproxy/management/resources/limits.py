"""Limits of virtual hosts and of users."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Entry
from amqproxy.management.listing import Rows


async def vhost_limits(call: Call) -> Rows:
    """Return the limits of a virtual host, or of all that the user may see."""

    async def rows() -> AsyncIterator[Entry]:
        async for each in call.broker.objects("vhosts", call.values.get("vhost")):
            if each["limits"] and (call.user.is_monitor or call.sees(each["name"])):
                yield {"vhost": each["name"], "value": dict(each["limits"])}

    return Rows(rows(), ("vhost",))


async def user_limits(call: Call) -> Rows:
    """Return the limits of a user, or of all."""
    name = call.values.get("user")
    if name is not None:
        await call.one("users", name)

    async def rows() -> AsyncIterator[Entry]:
        async for each in call.broker.objects("users", name=name):
            if each["limits"]:
                yield {"user": each["name"], "value": each["limits"]}

    return Rows(rows(), ("user",))
