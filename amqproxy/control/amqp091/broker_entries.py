"""Entries of the integrated broker's 0-9-1 clients, for the control socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.broker.amqp091.channel import BrokerChannel
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.queues.consumer import UNLIMITED, Consumer
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.client_name import shown_text
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.record import json_mapping

Entry = dict[str, Any]


def state(connection: Amqp091Connection) -> str:
    """Return the state of a connection."""
    return str(connection.protocol.state)


def mechanism(connection: Amqp091Connection) -> str:
    """Return the SASL mechanism that the client has chosen, "" before that."""
    start_ok = connection.protocol.client
    return "" if start_ok is None else shown_text(start_ok.mechanism)


def limits(connection: Amqp091Connection) -> Entry:
    """Return the negotiated limits of a connection."""
    protocol = connection.protocol
    return {"channel_max": protocol.channel_max, "frame_max": protocol.frame_max, "heartbeat": protocol.heartbeat}


def held(connection: Amqp091Connection) -> Entry:
    """Return the numbers of a connection's consumers, unsettled deliveries and exclusive queues."""
    channels = list(connection.channels.values())
    return {
        "consumers": sum(len(channel.deliveries.consumers) for channel in channels),
        "unacked": sum(len(channel.deliveries.unacked) for channel in channels),
        "exclusive_queues": len(connection.exclusive_queues),
    }


def channels(served: ServedConnection, connection: Amqp091Connection) -> Iterator[Entry]:
    """Yield the entries of a connection's channels."""
    for number, channel in list(connection.channels.items()):
        yield _channel_entry(served, number, channel)


def consumers(connection: Amqp091Connection) -> Iterator[Entry]:
    """Yield the entries of a connection's consumers."""
    for number, channel in list(connection.channels.items()):
        for consumer in list(channel.deliveries.consumers.values()):
            yield {"channel": number} | _consumer_entry(consumer)


def counts(connection: Amqp091Connection) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the number and the message counts of each channel."""
    for number, channel in list(connection.channels.items()):
        yield number, channel.publisher.counts.plus(channel.deliveries.counts)


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
