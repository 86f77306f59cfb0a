"""Sessions as the control socket lists them: their connections, channels and consumers, as the client sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from amqproxy.amqp091.channel import Channel
from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.control.amqp010_entries import amqp010_channels, amqp010_connection, amqp010_consumers
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.proxy.session.session import Session
from amqproxy.taps.record import json_value
from amqproxy.taps.topology.client_requests import ConsumerView

Entry = dict[str, Any]


def connection_entry(session: Session) -> Entry:
    """A connection. Bytes are those that each peer has sent; limits are as the client has agreed to them."""
    session.refresh()
    client, connection = session.shown, session.client.connection
    properties = client.properties
    upstream = session.legs.get(SERVER)
    start_ok = connection.client
    entry: Entry = {
        "session": session.number,
        "connection": session.name,
        "connected_at": session.connected_at,
        "protocol": NAME,
        "state": "paused" if session.is_paused else str(session.state),
        "user": shown_text(client.user),
        "vhost": shown_text(client.vhost),
        "mechanism": "" if start_ok is None else shown_text(start_ok.mechanism),
        "relayed_by": "pump" if session.is_relayed_by_pump else "event loop",
        "tls": session.is_tls,
        "tls_subject": shown_text(client.tls_subject),
        "product": shown_text(properties.get("product", "")),
        "product_version": shown_text(properties.get("version", "")),
        "platform": shown_text(properties.get("platform", "")),
        "name": client_name(properties),
        "upstream": shown_text(client.upstream),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "heartbeat": connection.heartbeat,
        "blocked": connection.is_blocked,
        "channels": len(connection.channels),
        "paused_channels": session.paused_channels,
        "consumers": sum(len(channel.consumers) for channel in connection.channels.values()),
        "bytes": {
            str(CLIENT): session.client.reader.offset,
            str(SERVER): 0 if upstream is None else upstream.reader.offset,
        },
    }
    return entry if session.amqp010 is None else entry | amqp010_connection(session.amqp010)


def channel_entries(sessions: Iterable[Session]) -> Iterator[Entry]:
    """The channels of sessions that still run when it is their turn."""
    for session in sessions:
        session.refresh()
        known = _connection_of(session)
        if session.amqp010 is not None:
            for each in amqp010_channels(session.amqp010):
                yield known | each
            continue
        for number, channel in list(session.client.connection.channels.items()):
            yield known | _channel_entry(session, number, channel)


def consumer_entries(sessions: Iterable[Session]) -> Iterator[Entry]:
    """The consumers of sessions that still run when it is their turn."""
    for session in sessions:
        known = _connection_of(session)
        if session.amqp010 is not None:
            for each in amqp010_consumers(session.amqp010):
                yield known | each
            continue
        for number, channel in list(session.client.connection.channels.items()):
            view = session.channel_views.get(number)
            for tag, no_ack in list(channel.consumers.items()):
                consumer = None if view is None else view.consumers.get(tag)
                shown_tag = tag if consumer is None else consumer.consume.consumer_tag or tag  # as redacted
                yield known | {"channel": number, "consumer_tag": shown_tag} | _consumer_entry(consumer, no_ack)


def _connection_of(session: Session) -> Entry:
    client = session.shown
    return {
        "session": session.number,
        "connection": session.name,
        "user": shown_text(client.user),
        "vhost": shown_text(client.vhost),
        "name": client_name(client.properties),
    }


def _channel_entry(session: Session, number: int, channel: Channel) -> Entry:
    view = session.channel_views.get(number)
    return {
        "channel": number,
        "state": "paused" if number in session.paused_channels else str(channel.state),
        "mode": str(channel.mode),
        "prefetch": 0 if view is None else view.prefetch,
        "global_prefetch": 0 if view is None else view.global_prefetch,
        "consumers": len(channel.consumers),
        "flow": {str(peer): is_flowing for peer, is_flowing in channel.is_flowing.items()},
        "messages": {str(peer): _messages(session, number, peer) for peer in Peer},
        "open_content": {str(peer): _open_content(session, number, peer) for peer in Peer},
        **open_messages(session, number),
    }


def _messages(session: Session, number: int, sender: Peer) -> int:
    """How many contents a peer has begun to send on a channel: publishes, or deliveries, gets and returns."""
    leg = session.legs.get(sender)
    state = None if leg is None else leg.reader.content_states.get(number)
    return 0 if state is None else state.contents


def _open_content(session: Session, number: int, sender: Peer) -> str | None:
    """The method whose content a peer has sent only in part, if there is one."""
    leg = session.legs.get(sender)
    state = None if leg is None else leg.reader.content_states.get(number)
    return None if state is None or state.expects == METHOD else BY_INDEX[state.index].name


def open_messages(session: Session, number: int) -> Entry:
    """How many publishes of a channel are not confirmed, and how many deliveries not settled; None: not counted."""
    meter = session.meter
    if meter is None or meter.is_lost:
        return {"unconfirmed": None, "unacked": None}
    channel = meter.channel(number)
    return {
        "unconfirmed": 0 if channel is None else channel.unconfirmed,
        "unacked": 0 if channel is None else channel.unacked,
    }


def _consumer_entry(consumer: ConsumerView | None, no_ack: bool) -> Entry:
    """A consumer; what is not known of it, since there are too many, is None."""
    if consumer is None:
        return {"queue": None, "no_ack": no_ack, "exclusive": None, "prefetch": None, "arguments": None}
    consume = consumer.consume
    return {
        "queue": consumer.shown_queue,
        "no_ack": no_ack,
        "exclusive": consume.exclusive,
        "prefetch": consumer.prefetch,
        "arguments": json_value(consume.arguments),
    }
