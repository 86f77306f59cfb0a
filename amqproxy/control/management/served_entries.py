"""Entries of the broker's connections, their channels and their consumers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.broker.definitions.definitions_json import definition_value
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.control.dialects import broker_dialect
from amqproxy.peer import CLIENT, SERVER

Entry = dict[str, Any]


def connection_entries(served: ServedConnection, vhost: str | None) -> Iterator[Entry]:
    """Yield the entry of a connection, if it is open, to this virtual host unless `vhost` is None."""
    known = _known(served, vhost)
    if known is None:
        return
    connection = served.other or served.connection
    dialect, counts = broker_dialect(connection), None if served.tap is None else served.tap.byte_counts
    yield {
        **known,
        "session": served.number,
        "protocol": dialect.protocol,
        "connected_at": served.since,
        "auth_mechanism": dialect.mechanism(connection),
        "client_properties": definition_value(connection.client_properties),
        "user_provided_name": client_name(connection.client_properties),
        **dialect.limits(connection),
        "blocked": connection.is_blocked,
        "channels": len(connection.channels),
        "tls": served.certificate_name is not None,
        "certificate_name": shown_text(served.certificate_name or ""),
        "received": 0 if counts is None else counts[CLIENT],
        "sent": 0 if counts is None else counts[SERVER],
    }


def channel_entries(served: ServedConnection, vhost: str | None) -> Iterator[Entry]:
    """Yield the entries of a connection's channels, or of the sessions on them."""
    known = _known(served, vhost)
    if known is not None:
        connection = served.other or served.connection
        dialect = broker_dialect(connection)
        counts = dict(dialect.counts(connection))
        for each in dialect.channels(served, connection):
            yield {**known, **each, "counts": counts[each["channel"]]}


def consumer_entries(served: ServedConnection, vhost: str | None, queue_name: str | None = None) -> Iterator[Entry]:
    """Yield the entries of a connection's consumers, or of its subscriptions, perhaps only of one queue."""
    known = _known(served, vhost)
    if known is None:
        return
    connection = served.other or served.connection
    for each in broker_dialect(connection).consumers(connection):
        if queue_name is not None and each["queue"] != queue_name:
            continue
        queue = connection.vhost.queues.get(each["queue"])
        single = None if queue is None else queue.single_active_consumer
        yield known | each | {"active": single is None or single.tag == each["consumer_tag"]}


def _known(served: ServedConnection, vhost: str | None) -> Entry | None:
    """Return the keys that all entries of a connection share; None if it is not open, or to another virtual host."""
    connection = served.other or served.connection
    if connection.vhost is None or connection.is_over or vhost not in (None, connection.vhost.name):
        return None
    return {"connection": served.listed_name, "user": shown_text(connection.user.name), "vhost": connection.vhost.name}
