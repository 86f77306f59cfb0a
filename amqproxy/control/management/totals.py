"""Totals of all the broker's objects, for metrics: kept counts, and a look at each queue and channel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.dialects import broker_dialect, broker_protocols
from amqproxy.peer import CLIENT, SERVER

Entry = dict[str, Any]

LOOKED_AT = 256
"""Queues that are looked at before other tasks have their turn."""


def totals(broker: Broker, served: Mapping[int, ServedConnection]) -> Iterator[Entry | None]:
    """Yield the totals once they are counted, and before a None for each turn of other tasks."""
    ready = unacked = ready_bytes = queues = exchanges = 0
    counts = broker.past_counts.values()
    vhosts = list(broker.vhosts.values())
    for vhost in vhosts:
        queues += len(vhost.queues)
        exchanges += len(vhost.exchanges)
        for number, queue in enumerate(list(vhost.queues.values()), 1):
            ready += queue.message_count
            unacked += queue.unacked
            ready_bytes += queue.body_bytes
            if not number % LOOKED_AT:
                yield None
        counts = tuple([count + more for count, more in zip(counts, vhost.counts.values(), strict=True)])
        yield None
    consumers = {_label(each): 0 for each in broker_protocols()}
    publishers = dict(consumers)
    connections = channels = channel_unacked = received = sent = 0
    for each in list(served.values()):
        connection = each.other or each.connection
        if connection.vhost is not None and not connection.is_over:
            dialect = broker_dialect(connection)
            protocol, held = _label(dialect.protocol), dialect.held(connection)
            connections += 1
            consumers[protocol] += held["consumers"]
            channel_unacked += held["unacked"]
            for _, (published, *_) in dialect.counts(connection):
                channels += 1
                publishers[protocol] += published > 0
            if each.tap is not None:
                received += each.tap.byte_counts[CLIENT]
                sent += each.tap.byte_counts[SERVER]
        yield None
    yield {
        "ready": ready,
        "unacked": unacked,
        "ready_bytes": ready_bytes,
        "queues": queues,
        "exchanges": exchanges,
        "vhosts": [each.name for each in vhosts],
        "connections": connections,
        "channels": channels,
        "consumers": consumers,
        "publishers": publishers,
        "channel_unacked": channel_unacked,
        "received": received,
        "sent": sent,
        "counts": counts,
    }


def _label(protocol: str) -> str:
    """Return a protocol's name as labels have it: amqp091."""
    return f"amqp{re.sub('[^0-9]', '', protocol)}"
