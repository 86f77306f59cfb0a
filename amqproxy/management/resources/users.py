"""Users, and their limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Entry
from amqproxy.management.listing import Rows


async def users(call: Call) -> Rows:
    return Rows(call.broker.objects("users"), ("name",), has_pages=call.facts.is_4)


async def user(call: Call) -> Entry:
    return await call.one("users", call.values["user"])


async def without_permissions(call: Call) -> Rows:
    """Return the users without permissions in any virtual host."""

    async def rows() -> AsyncIterator[Entry]:
        permitted = {each["user"] async for each in call.broker.objects("permissions")}
        async for each in call.broker.objects("users"):
            if each["name"] not in permitted:
                yield each

    return Rows(rows(), ("name",))
