"""Entries of a broker that runs by itself, for the control socket: with the keys of a proxy's sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.broker.amqp091.channel import BrokerChannel
from amqproxy.broker.broker import Broker
from amqproxy.broker.exchanges.exchange import Binding, Exchange
from amqproxy.broker.queues.consumer import UNLIMITED, Consumer
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.amqp010.broker_entries import served_amqp010, served_sessions, served_subscriptions, state_of
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.control.session_entries import Entry
from amqproxy.taps.record import json_mapping


def served_entry(served: ServedConnection) -> Entry:
    """Return a connection's entry. `bytes` are those that each peer has sent, 0 if no tap counts them."""
    connection = served.connection
    protocol, properties = connection.protocol, connection.client_properties
    start_ok = protocol.client
    channels = list(connection.channels.values())
    entry: Entry = {
        **_connection_of(served),
        "connected_at": served.since,
        "protocol": NAME,
        "state": str(protocol.state),
        "mechanism": "" if start_ok is None else shown_text(start_ok.mechanism),
        "relayed_by": "event loop",
        "tls": served.certificate_name is not None,
        "tls_subject": shown_text(served.certificate_name or ""),
        "product": shown_text(properties.get("product", "")),
        "product_version": shown_text(properties.get("version", "")),
        "platform": shown_text(properties.get("platform", "")),
        "upstream": "",
        "channel_max": protocol.channel_max,
        "frame_max": protocol.frame_max,
        "heartbeat": protocol.heartbeat,
        "blocked": connection.is_blocked,
        "channels": len(channels),
        "paused_channels": [],
        "consumers": sum(len(channel.deliveries.consumers) for channel in channels),
        "bytes": {
            str(peer): served.tap.byte_counts[peer] if served.tap is not None else 0 for peer in (CLIENT, SERVER)
        },
    }
    return entry if served.other is None else entry | served_amqp010(served.other)


def session_entry(served: ServedConnection) -> Entry:
    """Return a connection's short entry, for the request `sessions`."""
    connection = served.other or served.connection
    return {
        **_connection_of(served),
        "state": str(served.connection.protocol.state) if served.other is None else state_of(served.other),
        "product": shown_text(connection.client_properties.get("product", "")),
        "channels": len(connection.channels),
        "paused_channels": [],
        "held": 0,
    }


def served_channels(served: ServedConnection) -> Iterator[Entry]:
    """Yield the entries of a connection's channels, or of its 0-10 sessions."""
    known = _connection_of(served)
    if served.other is not None:
        for each in served_sessions(served, served.other):
            yield known | each
        return
    for number, channel in list(served.connection.channels.items()):
        yield known | _channel_entry(served, number, channel)


def served_consumers(served: ServedConnection) -> Iterator[Entry]:
    """Yield the entries of a connection's consumers, or of its 0-10 subscriptions."""
    known = _connection_of(served)
    if served.other is not None:
        for each in served_subscriptions(served.other):
            yield known | each
        return
    for number, channel in list(served.connection.channels.items()):
        for consumer in list(channel.deliveries.consumers.values()):
            yield known | {"channel": number} | _consumer_entry(consumer)


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
    }


def _channel_entry(served: ServedConnection, number: int, channel: BrokerChannel) -> Entry:
    protocol = served.connection.protocol
    known = protocol.channels.get(number)
    content = protocol.readers[CLIENT].content_states.get(number)
    publisher, deliveries = channel.publisher, channel.deliveries
    meter = None if served.tap is None or served.tap.meter is None else served.tap.meter.channel(number)
    is_sent_in_part = content is not None and content.expects != METHOD
    return {
        "channel": number,
        "state": "closing" if known is None else str(known.state),
        "mode": "confirm" if publisher.is_confirming else "tx" if publisher.is_transactional else "normal",
        "prefetch": channel.prefetch,
        "global_prefetch": 0 if deliveries.global_prefetch >= UNLIMITED else deliveries.global_prefetch,
        "consumers": len(deliveries.consumers),
        "flow": {str(peer): known is None or known.is_flowing[peer] for peer in (CLIENT, SERVER)},
        "messages": {str(CLIENT): 0 if content is None else content.contents, str(SERVER): deliveries.last_tag},
        "open_content": {
            str(CLIENT): BY_INDEX[content.index].name if content is not None and is_sent_in_part else None,
            str(SERVER): None,
        },
        "unconfirmed": None if meter is None else meter.unconfirmed,
        "unacked": len(deliveries.unacked),
    }


def _consumer_entry(consumer: Consumer) -> Entry:
    return {
        "consumer_tag": shown_text(consumer.tag),
        "queue": shown_text(consumer.queue.name),
        "no_ack": consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch": 0 if consumer.prefetch >= UNLIMITED else consumer.prefetch,
        "arguments": json_mapping(consumer.arguments),
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
