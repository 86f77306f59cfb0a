"""Shovels, which this broker keeps as parameters and never runs: their state is always `terminated`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from amqproxy.management.call import Call, Done, Entry, deleted
from amqproxy.management.failure import not_found
from amqproxy.management.listing import Rows
from amqproxy.management.resources.federation_links import shown_uri

REASON = '"amqproxy keeps shovels and does not run them"'
"""The reason of the state, which RabbitMQ prints as an Erlang term."""

ENDS = tuple(f"{side}-{key}" for side in ("src", "dest") for key in ("queue", "exchange", "exchange-key", "address"))
"""Keys of a parameter that name the ends of a shovel; RabbitMQ shows those of a running one."""


async def shovels(call: Call) -> Rows:
    """Return the state of the shovels of a virtual host, or of all."""

    async def rows() -> AsyncIterator[Entry]:
        async for each in _parameters(call):
            yield _row(call, each)

    return Rows(rows(), ("vhost", "name"))


async def shovel(call: Call) -> Any:
    """Return a shovel's parameter, and in RabbitMQ 3.10 its state."""
    found = await _one(call)
    return found if call.facts.is_4 else [_row(call, found)]


async def delete_shovel(call: Call) -> Done:
    """Delete a shovel; RabbitMQ 4 answers the same if there is none.

    3.10 lets a monitoring user with permissions in the virtual host do so.
    """
    if not call.sees(call.values["vhost"]):
        raise not_found()
    keys = {each: call.values[each] for each in ("vhost", "name")}
    answer = await call.change("delete-parameter", component="shovel", **keys)
    return Done() if call.facts.is_4 else deleted(answer)


async def restart_shovel(call: Call) -> Done:
    """Accept the restart of a shovel, which stays stopped."""
    await _one(call)
    return Done()


async def _one(call: Call) -> Entry:
    async for each in _parameters(call):
        if each["name"] == call.values["name"]:
            return each
    raise not_found()


async def _parameters(call: Call) -> AsyncIterator[Entry]:
    async for each in call.broker.objects("parameters", call.values.get("vhost")):
        if each["component"] == "shovel" and call.sees(each["vhost"]):
            yield each


def _row(call: Call, entry: Entry) -> Entry:
    value = entry["value"] if isinstance(entry["value"], dict) else {}
    ends = {f"{side}_protocol": value.get(f"{side}-protocol", "amqp091") for side in ("src", "dest")}
    ends |= {f"{side}_uri": shown_uri(value.get(f"{side}-uri")) for side in ("src", "dest")}
    ends |= {key.replace("-", "_"): value[key] for key in ENDS if key in value}
    return ends | {
        "node": call.facts.node,
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
        "name": entry["name"],
        "vhost": entry["vhost"],
        "type": "dynamic",
        "state": "terminated",
        "reason": REASON,
    }
