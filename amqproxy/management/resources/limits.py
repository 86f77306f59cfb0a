"""Limits of virtual hosts and of users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from amqproxy.control import RequestError
from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import bad_request
from amqproxy.management.listing import Rows

VHOST_LIMITS = ("max-connections", "max-queues")
USER_LIMITS = ("max-connections", "max-channels")


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


async def put_vhost_limit(call: Call) -> Done:
    """Set a limit of a virtual host."""
    value = call.required("value")["value"]
    fault = limit_fault(call.values["name"], value)
    if fault is not None:
        raise bad_request(f"Validation failed\n\n{fault}\n")
    await call.change("put-vhost-limit", vhost=call.values["vhost"], name=call.values["name"], value=value)
    return Done()


async def delete_vhost_limit(call: Call) -> Done:
    await call.change("put-vhost-limit", vhost=call.values["vhost"], name=call.values["name"])
    return Done()


async def put_user_limit(call: Call) -> Done:
    """Set a limit of a user."""
    user, value = call.values["user"], call.required("value")["value"]
    fault = limit_fault(call.values["name"], value, USER_LIMITS, "user-limits")
    if fault is not None:
        raise bad_request(fault)
    try:
        await call.change("put-user-limit", user=user, name=call.values["name"], value=value)
    except RequestError as error:
        raise bad_request(["no_such_user", user]) if error.name == "no-user" else error from None
    return Done()


async def delete_user_limit(call: Call) -> Done:
    await call.one("users", call.values["user"])
    await call.change("put-user-limit", user=call.values["user"], name=call.values["name"])
    return Done()


def limit_fault(name: str, value: Any, known: tuple[str, ...] = VHOST_LIMITS, noun: str = "limits") -> str | None:
    """Return RabbitMQ's text about a limit that is not valid."""
    shown = f'<<"{value}">>' if isinstance(value, str) else value
    if name not in known:
        return f'Unrecognised terms [{{<<"{name}">>,{shown}}}] in {noun}'
    return None if type(value) is int else f"{name} should be a number, actually was {shown}"
