"""Clients of RabbitMQ's stream protocol, of which there are none: streams are read over AMQP."""

from __future__ import annotations

from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import Failure, not_found


async def nobody(call: Call) -> list[Entry]:
    """Return the empty list of stream connections, publishers or consumers."""
    return []


async def missing(call: Call) -> Entry:
    """Refuse a stream connection by name: there is none."""
    raise not_found()


async def of_stream(call: Call) -> list[Entry]:
    """Return the empty list of publishers of an existing queue."""
    await call.one("queues", call.values["name"], call.values["vhost"])
    return []


async def tracking(call: Call) -> Entry:
    """Return the offsets and writers that clients of the stream protocol stored."""
    queue = await call.one("queues", call.values["name"], call.values["vhost"])
    if queue["type"] != "stream":
        raise Failure(503, "service_unavailable", "The stream leader is not available")
    return {"writers": {}, "offsets": {}}
