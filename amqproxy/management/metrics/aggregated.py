"""Metrics of the whole broker, from the totals that it keeps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from itertools import chain

from amqproxy.management.call import Call, Entry
from amqproxy.management.metrics import node
from amqproxy.management.metrics.metric import Metric
from amqproxy.management.metrics.node import V4, Sampled

_GET = "fetched with basic.get in"
_CONSUMED = "messages delivered to consumers using"

NUMBERS: Mapping[str, tuple[Metric, ...]] = {
    "connections": (Metric("connections", "gauge", "Connections currently open"),),
    "channels": (
        Metric("channels", "gauge", "Channels currently open"),
        Metric("connection_channels", "gauge", "Channels on a connection"),
    ),
    "consumers": (
        Metric("consumers", "gauge", "Consumers currently connected"),
        Metric("queue_consumers", "gauge", "Consumers on a queue"),
        Metric("channel_consumers", "gauge", "Consumers on a channel"),
    ),
    "queues": (Metric("queues", "gauge", "Queues available"),),
    "ready": (Metric("queue_messages_ready", "gauge", "Messages ready to be delivered to consumers"),),
    "unacked": (Metric("queue_messages_unacked", "gauge", "Messages delivered to consumers but not yet acknowledged"),),
    "messages": (Metric("queue_messages", "gauge", "Sum of ready and unacknowledged messages - total queue depth"),),
    "ready_bytes": (Metric("queue_messages_ready_bytes", "gauge", "Size in bytes of ready messages"),),
    "channel_unacked": (Metric("channel_messages_unacked", "gauge", "Delivered but not yet acknowledged messages"),),
    "received": (
        Metric("connection_incoming_bytes_total", "counter", "Total number of bytes received on a connection"),
    ),
    "sent": (Metric("connection_outgoing_bytes_total", "counter", "Total number of bytes sent on a connection"),),
    "disk_reads": (Metric("queue_disk_reads_total", "counter", "Total number of times queue read messages from disk"),),
    "disk_writes": (
        Metric("queue_disk_writes_total", "counter", "Total number of times queue wrote messages to disk"),
    ),
}
"""By key of the broker's totals."""


def _counter(name: str, help: str, since: tuple[int, int] = (0, 0)) -> Metric:
    return Metric(f"{name}_total", "counter", f"Total number of {help}", since)


COUNTS: Mapping[tuple[int, ...], tuple[Metric, ...]] = {
    (0,): (
        _counter("global_messages_received", "messages received from publishers"),
        _counter("channel_messages_published", "messages published into an exchange on a channel"),
        _counter("exchange_messages_published", "messages published into an exchange", V4),
    ),
    (1,): (
        _counter("global_messages_confirmed", "messages confirmed to publishers"),
        _counter("channel_messages_confirmed", "messages published into an exchange and confirmed on the channel"),
        _counter("exchange_messages_confirmed", "messages published into an exchange and confirmed", V4),
    ),
    (2,): tuple(
        _counter(
            f"{each}_messages_unroutable_returned",
            "messages published as mandatory into an exchange and returned to the publisher as unroutable",
            since,
        )
        for each, since in (("global", (0, 0)), ("channel", (0, 0)), ("exchange", V4))
    ),
    (3,): tuple(
        _counter(
            f"{each}_messages_unroutable_dropped",
            "messages published as non-mandatory into an exchange and dropped as unroutable",
            since,
        )
        for each, since in (("global", (0, 0)), ("channel", (0, 0)), ("exchange", V4))
    ),
    (4,): (
        _counter("global_messages_routed", "messages routed to queues or streams"),
        _counter("queue_messages_published", "messages published into a queue through an exchange on a channel"),
        _counter("queue_exchange_messages_published", "messages published into a queue through an exchange", V4),
    ),
    (5,): (
        _counter(
            "global_messages_delivered_consume_manual_ack", f"{_CONSUMED} basic.consume with manual acknowledgment"
        ),
        _counter("channel_messages_delivered_ack", "messages delivered to consumers in manual acknowledgement mode"),
        _counter(
            "queue_messages_delivered_ack",
            "messages delivered from a queue to consumers in manual acknowledgement mode",
            V4,
        ),
    ),
    (6,): (
        _counter(
            "global_messages_delivered_consume_auto_ack", f"{_CONSUMED} basic.consume with automatic acknowledgment"
        ),
        _counter("channel_messages_delivered", "messages delivered to consumers in automatic acknowledgement mode"),
        _counter(
            "queue_messages_delivered",
            "messages delivered from a queue to consumers in automatic acknowledgement mode",
            V4,
        ),
    ),
    (7,): (
        _counter("global_messages_delivered_get_manual_ack", f"{_CONSUMED} basic.get with manual acknowledgment"),
        _counter("channel_get_ack", f"messages {_GET} manual acknowledgement mode"),
        _counter("queue_get_ack", "messages fetched from a queue with basic.get in manual acknowledgement mode", V4),
    ),
    (8,): (
        _counter("global_messages_delivered_get_auto_ack", f"{_CONSUMED} basic.get with automatic acknowledgment"),
        _counter("channel_get", f"messages {_GET} automatic acknowledgement mode"),
        _counter("queue_get", "messages fetched from a queue with basic.get in automatic acknowledgement mode", V4),
    ),
    (9,): (
        _counter("global_messages_get_empty", "times basic.get operations fetched no message"),
        _counter("channel_get_empty", "times basic.get operations fetched no message"),
        _counter("queue_get_empty", "times basic.get operations fetched no message on a queue", V4),
    ),
    (10,): (
        _counter("global_messages_redelivered", "messages redelivered to consumers"),
        _counter("channel_messages_redelivered", "messages redelivered to consumers"),
        _counter("queue_messages_redelivered", "messages redelivered from a queue to consumers", V4),
    ),
    (11,): (
        _counter("global_messages_acknowledged", "messages acknowledged by consumers"),
        _counter("channel_messages_acked", "messages acknowledged by consumers"),
        _counter("queue_messages_acked", "messages acknowledged by consumers on a queue", V4),
    ),
    (5, 6, 7, 8): (_counter("global_messages_delivered", "messages delivered to consumers"),),
}
"""By places in the broker's counts of messages, which are added up. They never decrease, and have no labels: what
was counted is not told apart by protocol or type of queue.
"""

PUBLISHERS = Metric("global_publishers", "gauge", "Current number of publishers")
CONSUMERS = Metric("global_consumers", "gauge", "Current number of consumers")


OF_OBJECTS = ("queue_", "channel_", "connection_", "exchange_")
"""Beginnings of the names of metrics that single objects have."""


async def aggregated(call: Call) -> AsyncGenerator[bytes]:
    """Yield the metrics of the whole broker."""
    yield await aggregated_text(call, "aggregated")


async def aggregated_text(call: Call, endpoint: str, *, has_objects: bool = True) -> bytes:
    """Return the metrics of the whole broker, or without `has_objects` those that single objects do not have."""
    totals = await call.broker.totals()
    identity = node.identity(call, endpoint)
    found = chain(
        node.churn(call),
        node.coarse(call),
        node.limits(call),
        node.logins(call),
        _of_totals(call, totals),
        (node.build(call), identity),
        node.alarms(call),
    )
    version = call.facts.version
    return b"".join(
        line
        for metric, samples in found
        if metric.exists_in(version) and (has_objects or not metric.name.startswith(OF_OBJECTS))
        for line in metric.text(samples)
    )


def _of_totals(call: Call, totals: Entry) -> Iterator[Sampled]:
    facts = call.facts
    reads, writes = facts["disk_counts"]
    numbers = totals | {
        "messages": totals["ready"] + totals["unacked"],
        "consumers": sum(totals["consumers"].values()),
        "disk_reads": reads,
        "disk_writes": writes,
    }
    for key, metrics in NUMBERS.items():
        for metric in metrics:
            yield metric, [({}, numbers[key])]
    counts = totals["counts"]
    for places, metrics in COUNTS.items():
        for metric in metrics:
            yield metric, [({}, sum(counts[place] for place in places))]
    for metric, key in ((PUBLISHERS, "publishers"), (CONSUMERS, "consumers")):
        yield metric, [({"protocol": protocol}, number) for protocol, number in totals[key].items()]
