"""Shovels and their states, in the words of RabbitMQ's shovel plugin."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from amqproxy.management.call import Call, Done, Entry, deleted
from amqproxy.management.failure import not_found
from amqproxy.management.listing import Rows
from amqproxy.management.resources.federation_links import shown_uri

ENDS = tuple(f"{side}-{key}" for side in ("src", "dest") for key in ("queue", "exchange", "exchange-key"))
"""Keys of a parameter that name the ends of a shovel; RabbitMQ shows those of a running one."""

UNSTARTED = ("failed to connect to source", "failed to connect to destination")
"""Reasons of an end for which RabbitMQ 3.10 shows a shovel as starting for as long as it tries."""


async def shovels(call: Call) -> Rows:
    """Return the states of the shovels of a virtual host, or of all."""
    return Rows(_rows(call), ("vhost", "name"))


async def shovel(call: Call) -> Any:
    """Return a shovel's parameter, and in RabbitMQ 3.10 its state."""
    found = await _one(call)
    if not call.facts.is_4:
        return [_row(call, found)]
    shown = dict(found["value"]) if isinstance(found["value"], dict) else found["value"]
    for name in ("src-uri", "dest-uri"):
        if isinstance(shown, dict) and name in shown:
            uris = shown[name]
            shown[name] = [shown_uri(each) for each in uris] if isinstance(uris, list) else shown_uri(uris)
    return {"value": shown, "vhost": found["vhost"], "component": "shovel", "name": found["name"]}


async def delete_shovel(call: Call) -> Done:
    """Delete a shovel; RabbitMQ 4 answers the same if there is none.

    3.10 lets a monitoring user with permissions in the virtual host do so.
    """
    if not call.sees(call.values["vhost"]):
        raise not_found()
    answer = await call.change("delete-parameter", component="shovel", **_names(call))
    return Done() if call.facts.is_4 else deleted(answer)


async def restart_shovel(call: Call) -> Done:
    """Start a shovel again."""
    await _one(call)
    return deleted(await call.change("restart-shovel", **_names(call)))


def _names(call: Call) -> dict[str, str]:
    return {each: call.values[each] for each in ("vhost", "name")}


async def _one(call: Call) -> Entry:
    async for each in call.broker.objects("shovels", call.values["vhost"], call.values["name"]):
        if call.sees(each["vhost"]):
            return each
    raise not_found()


async def _rows(call: Call) -> AsyncIterator[Entry]:
    async for each in call.broker.objects("shovels", call.values.get("vhost")):
        if call.sees(each["vhost"]):
            yield _row(call, each)


def _row(call: Call, entry: Entry) -> Entry:
    row = {
        "node": call.facts.node,
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry["since"])),
        "name": entry["name"],
        "vhost": entry["vhost"],
        "type": "dynamic",
    }
    match entry["state"]:
        case "running":
            is_4 = call.facts.is_4
            blocked = {"blocked_status": "blocked" if entry["blocked"] else "running"} if is_4 else {}
            return row | (_counts(entry) if is_4 else {}) | {"state": "running"} | _ends(entry) | blocked
        case "terminated" if call.facts.is_4 or entry["reason"] not in UNSTARTED:
            # RabbitMQ prints its reason as an Erlang string.
            text = f"{entry['reason']}: {entry['cause']}".replace("\\", "\\\\").replace('"', '\\"')
            return row | {"state": "terminated", "reason": f'"{text}"'}
    return row | {"state": "starting"}


def _counts(entry: Entry) -> Entry:
    """Return the counts that RabbitMQ 4 shows; messages wait in the source here, so that none is pending."""
    return {
        "pending": 0,
        "remaining": "unlimited" if entry["remaining"] is None else entry["remaining"],
        "remaining_unacked": "unlimited" if entry["unpublished"] is None else entry["unpublished"],
        "forwarded": entry["forwarded"],
    }


def _ends(entry: Entry) -> Entry:
    value: Mapping[str, Any] = entry["value"]
    ends = {
        "src_uri": entry["source_uri"],
        "src_protocol": value.get("src-protocol", "amqp091"),
        "dest_protocol": value.get("dest-protocol", "amqp091"),
        "dest_uri": entry["destination_uri"],
    }
    if "src-exchange" in value:
        ends["src_exchange_key"] = ""
    return ends | {key.replace("-", "_"): value[key] for key in ENDS if key in value}
