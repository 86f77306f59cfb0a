"""Channels of connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import not_authorised, not_found
from amqproxy.management.listing import Rows
from amqproxy.management.resources.connections import ends, found_connection
from amqproxy.management.resources.consumers import channel_name, consumer_details
from amqproxy.management.statistics.figures import Figures


async def channels(call: Call) -> Rows:
    """Return the channels of the user's connections in a virtual host, or in all; monitoring users see all."""
    return Rows(_rows(call), ("vhost", "name"), has_pages=True)


async def of_connection(call: Call) -> Rows:
    """Return the channels of one connection."""
    connection = await found_connection(call)

    async def rows() -> AsyncIterator[Entry]:
        async for each in _rows(call):
            if each["connection_details"]["name"] == connection["connection"]:
                yield each

    return Rows(rows(), ("vhost", "name"))


async def channel(call: Call) -> Entry:
    """Return one channel, with its consumers."""
    entry = await call.broker.first("channels", lambda each: channel_name(each) == call.values["channel"])
    if entry is None:
        raise not_found()
    if not (call.user.is_monitor or entry["user"] == call.user.name):
        raise not_authorised("User not authorised to access object")
    row = channel_row(call, call.figures, entry)
    details = await consumer_details(call, row["vhost"], connection=entry["connection"], channel=entry["channel"])
    return row | {"consumer_details": details, "deliveries": [], "publishes": []}


async def _rows(call: Call) -> AsyncIterator[Entry]:
    figures = call.figures
    async for each in call.broker.objects("channels", call.values.get("vhost")):
        if call.user.is_monitor or each["user"] == call.user.name:
            yield channel_row(call, figures, each)


def channel_row(call: Call, figures: Figures, entry: Entry) -> Entry:
    """Return the row of a channel."""
    addresses = ends(entry["connection"])
    row: Entry = {
        "name": channel_name(entry),
        "number": entry["channel"],
        "node": call.facts.node,
        "state": "running",
        "user": entry["user"],
        "user_who_performed_action": entry["user"],
        "vhost": entry["vhost"],
        "confirm": entry["mode"] == "confirm",
        "transactional": entry["mode"] == "tx",
        "prefetch_count": entry["prefetch"] or 0,
        "consumer_count": entry["consumers"],
        "messages_unacknowledged": entry["unacked"] or 0,
        "messages_unconfirmed": entry["unconfirmed"] or 0,
        "connection_details": {
            "name": entry["connection"],
            "peer_host": addresses["peer_host"],
            "peer_port": addresses["peer_port"],
        },
    }
    if not call.facts.is_4:
        row["global_prefetch_count"] = entry["global_prefetch"] or 0
    return row | figures.of_channel(row["name"], entry["counts"])
