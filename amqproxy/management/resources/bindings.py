"""Bindings, in lists by either end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

from amqproxy.management.call import Call, Done, Entry, deleted
from amqproxy.management.failure import not_found
from amqproxy.management.listing import Rows
from amqproxy.management.resources.exchanges import exchange_name

ORDER = ("vhost", "source", "destination", "routing_key")

DESTINATIONS = {"q": "queue", "e": "exchange"}
"""The kinds of destinations in paths."""


async def bindings(call: Call) -> Rows:
    """Return the bindings in a virtual host, or in all that the user may use."""
    return Rows(_rows(call, "bindings"), ORDER)


async def of_queue(call: Call) -> Rows | list[Entry]:
    """Return the bindings to a queue; as in RabbitMQ, that of the default exchange even if it does not exist."""
    vhost, name = call.values["vhost"], call.values["name"]
    if await call.broker.object("queues", vhost, name) is None:
        keys = {"routing_key": name, "arguments": {}, "properties_key": name}
        return [{"source": "", "vhost": vhost, "destination": name, "destination_type": "queue", **keys}]
    return Rows(_rows(call, "queue-bindings", call.values["name"]), ORDER)


async def from_exchange(call: Call) -> Rows:
    """Return the bindings from an exchange; as in RabbitMQ, none if it does not exist."""
    return Rows(_rows(call, "source-bindings", exchange_name(call.values["name"])), ORDER)


async def to_exchange(call: Call) -> Rows:
    """Return the bindings to an exchange; none if it does not exist."""
    return Rows(_rows(call, "exchange-bindings", exchange_name(call.values["name"])), ORDER)


async def between(call: Call) -> Rows:
    """Return the bindings from one exchange to one destination."""
    source, kind, destination = await _ends(call)

    async def rows() -> AsyncIterator[Entry]:
        listed = "queue-bindings" if kind == "queue" else "exchange-bindings"
        async for each in _rows(call, listed, destination):
            if each["source"] == source:
                yield each

    return Rows(rows(), ORDER)


async def binding(call: Call) -> Entry:
    """Return one binding, by its `properties_key`."""
    found = await between(call)
    async for each in found.rows:
        if each["properties_key"] == call.values["properties"]:
            return each
    raise not_found()


async def _ends(call: Call) -> tuple[str, str, str]:
    """Return source, kind of destination and destination of a path; `Failure` with 404 if either is missing."""
    ends = _named_ends(call)
    vhost, source, kind, destination = (ends[each] for each in ("vhost", "source", "destination_type", "destination"))
    await call.one("exchanges", source, vhost)
    await call.one("queues" if kind == "queue" else "exchanges", destination, vhost)
    return source, kind, destination


async def _rows(call: Call, kind: str, name: str | None = None) -> AsyncIterator[Entry]:
    async for each in call.broker.objects(kind, call.values.get("vhost"), name):
        if call.sees(each["vhost"]):
            yield {key: value for key, value in each.items() if key != "exclusive"}


async def bind(call: Call) -> Done:
    """Add a binding, and return its place."""
    body, ends = call.json(), _named_ends(call)
    answer = await call.change(
        "bind", routing_key=body.get("routing_key", ""), arguments=call.mapping(body, "arguments"), **ends
    )
    key = quote(answer["properties_key"], safe="~")
    return Done(201, f"{quote(call.values['destination'], safe='')}/{key}")


async def unbind(call: Call) -> Done:
    return deleted(await call.change("unbind", properties_key=call.values["properties"], **_named_ends(call)))


def _named_ends(call: Call) -> Entry:
    kind = DESTINATIONS.get(call.values["kind"])
    if kind is None:
        raise not_found()
    return {
        "vhost": call.values["vhost"],
        "source": exchange_name(call.values["source"]),
        "destination_type": kind,
        "destination": call.values["destination"] if kind == "queue" else exchange_name(call.values["destination"]),
    }
