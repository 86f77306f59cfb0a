"""Entries of a broker that runs by itself, for the control socket: with the keys of a proxy's sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.broker.broker import Broker
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.control.dialects import Entry, broker_dialect
from amqproxy.taps.record import json_mapping


def served_entry(served: ServedConnection) -> Entry:
    """Return a connection's entry. `bytes` are those that each peer has sent, 0 if no tap counts them."""
    connection = served.other or served.connection
    dialect = broker_dialect(connection)
    return {
        **_connection_of(served),
        "connected_at": served.since,
        "protocol": dialect.protocol,
        "state": dialect.state(connection),
        "mechanism": dialect.mechanism(connection),
        "relayed_by": "event loop",
        "tls": served.certificate_name is not None,
        "tls_subject": shown_text(served.certificate_name or ""),
        **product(connection.client_properties),
        **dialect.limits(connection),
        "blocked": connection.is_blocked,
        "channels": len(connection.channels),
        "paused_channels": [],
        "consumers": dialect.held(connection)["consumers"],
        "bytes": {
            str(peer): served.tap.byte_counts[peer] if served.tap is not None else 0 for peer in (CLIENT, SERVER)
        },
    }


def product(properties: Mapping[str, Any]) -> Entry:
    """Return the names that a client gives to its product, its version and its platform."""
    return {
        "product": shown_text(properties.get("product", "")),
        "product_version": shown_text(properties.get("version") or properties.get("qpid.client_version", "")),
        "platform": shown_text(properties.get("platform", "")),
    }


def session_entry(served: ServedConnection) -> Entry:
    """Return a connection's short entry, for the request `sessions`."""
    connection = served.other or served.connection
    return {
        **_connection_of(served),
        "state": broker_dialect(connection).state(connection),
        "product": shown_text(connection.client_properties.get("product", "")),
        "channels": len(connection.channels),
        "paused_channels": [],
        "held": 0,
    }


def served_channels(served: ServedConnection) -> Iterator[Entry]:
    """Yield the entries of a connection's channels, or of the sessions on them."""
    known, connection = _connection_of(served), served.other or served.connection
    for each in broker_dialect(connection).channels(served, connection):
        yield known | each


def served_consumers(served: ServedConnection) -> Iterator[Entry]:
    """Yield the entries of a connection's consumers, or of its subscriptions."""
    known, connection = _connection_of(served), served.other or served.connection
    for each in broker_dialect(connection).consumers(connection):
        yield known | each


def topology_entries(broker: Broker, vhost: str | None, now: float) -> Iterator[Entry]:
    """Yield the entries of the topology at `now`, of one virtual host or of all: exchanges, queues, then bindings."""
    chosen = [each for each in list(broker.vhosts.values()) if vhost in (None, each.name)]
    for each in chosen:
        for exchange in list(each.exchanges.values()):
            yield _known(each, now) | _exchange_entry(exchange)
    for each in chosen:
        for queue in list(each.queues.values()):
            if not queue.is_deleted:
                yield _known(each, now) | _queue_entry(queue)
    for each in chosen:
        for exchange in list(each.exchanges.values()):
            for binding in list(exchange.bindings.values()):
                yield _known(each, now) | _binding_entry(exchange, binding)


def chosen_consumers(every: Iterable[ServedConnection], vhost: str | None) -> Iterator[Entry | None]:
    """Yield the topology entries of the consumers of one virtual host or of all; None after each connection."""
    for served in every:
        for entry in served_consumers(served):
            if vhost in (None, entry["vhost"]):
                yield {"kind": "consumer"} | entry
        yield None


def _connection_of(served: ServedConnection) -> Entry:
    connection = served.other or served.connection
    is_open = connection.vhost is not None
    return {
        "session": served.number,
        "connection": served.name,
        "user": shown_text(connection.user.name) if is_open else "",
        "vhost": "" if connection.vhost is None else connection.vhost.name,
        "name": client_name(connection.client_properties),
        "upstream": "",
    }


def _known(vhost: VirtualHost, now: float) -> Entry:
    """Return the keys that all topology entries share; a broker does not know who declared an object."""
    return {"vhost": vhost.name, "state": "declared", "declared_by": None, "declared_at": None, "seen_at": now}


def _exchange_entry(exchange: Exchange) -> Entry:
    return {
        "kind": "exchange",
        "name": shown_text(exchange.name),
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_mapping(exchange.arguments),
    }


def _queue_entry(queue: Queue) -> Entry:
    return {
        "kind": "queue",
        "name": shown_text(queue.name),
        "durable": queue.durable,
        "exclusive": queue.exclusive_to is not None,
        "auto_delete": queue.auto_delete,
        "arguments": json_mapping(queue.arguments),
        "consumers": len(queue.consumers),
    }


def _binding_entry(exchange: Exchange, binding: Binding) -> Entry:
    destination = binding.destination
    return {
        "kind": "binding",
        "source": shown_text(exchange.name),
        "destination": shown_text(destination.name),
        "destination_type": "exchange" if isinstance(destination, Exchange) else "queue",
        "routing_key": shown_text(binding.routing_key),
        "arguments": json_mapping(binding.arguments),
    }
