"""Consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Entry
from amqproxy.management.listing import Rows
from amqproxy.management.resources.connections import ends


async def consumers(call: Call) -> Rows:
    """Return the user's own consumers in a virtual host, or in all; monitoring users see all."""

    async def rows() -> AsyncIterator[Entry]:
        async for each in call.broker.objects("consumers", call.values.get("vhost")):
            if call.user.is_monitor or each["user"] == call.user.name:
                yield consumer_row(call, each)

    return Rows(rows(), ("channel_details.name", "consumer_tag"))


async def consumer_details(call: Call, vhost: str, queue: str | None = None, **chosen: object) -> list[Entry]:
    """Return the rows of the consumers of a queue, or in a virtual host, whose entries have these values."""
    return [
        consumer_row(call, each)
        async for each in call.broker.objects("consumers", vhost, queue)
        if all(each[name] == value for name, value in chosen.items())
    ]


def channel_name(entry: Entry) -> str:
    """Return RabbitMQ's name of a channel."""
    return f"{entry['connection']} ({entry['channel']})"


def consumer_row(call: Call, entry: Entry) -> Entry:
    """Return the row of a consumer."""
    addresses = ends(entry["connection"])
    row: Entry = {
        "arguments": entry["arguments"] or {},
        "ack_required": not entry["no_ack"],
        "active": entry["active"],
        "activity_status": "up" if entry["active"] else "waiting",
        "channel_details": {
            "connection_name": entry["connection"],
            "name": channel_name(entry),
            "node": call.facts.node,
            "number": entry["channel"],
            "peer_host": addresses["peer_host"],
            "peer_port": addresses["peer_port"],
            "user": entry["user"],
        },
        "consumer_tag": entry["consumer_tag"],
        "exclusive": entry["exclusive"],
        "prefetch_count": entry["prefetch"] or 0,
        "queue": {"name": entry["queue"], "vhost": entry["vhost"]},
    }
    if call.facts.is_4:
        timeout = call.facts["consumer_timeout"]
        row["consumer_timeout"] = "undefined" if timeout is None else int(timeout * 1000)
    return row
