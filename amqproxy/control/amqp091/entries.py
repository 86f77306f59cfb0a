"""Entries of a 0-9-1 session for the control socket: its connection, channels and consumers as the client sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.amqp091.channel import Channel
from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.control.client_name import shown_text
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.amqp091.traffic import Amqp091Traffic
from amqproxy.taps.record import json_value
from amqproxy.taps.topology.client_requests import ConsumerView

Entry = dict[str, Any]


def connection(traffic: Amqp091Traffic) -> Entry:
    """Return the part of a connection's entry that is specific to 0-9-1."""
    found = traffic.legs[CLIENT].connection
    return {
        "mechanism": "" if found.client is None else shown_text(found.client.mechanism),
        "channel_max": found.channel_max,
        "frame_max": found.frame_max,
        "heartbeat": found.heartbeat,
        "blocked": found.is_blocked,
        "channels": len(found.channels),
        "consumers": sum(len(channel.consumers) for channel in found.channels.values()),
        "bytes": {str(peer): leg.reader.offset for peer, leg in traffic.legs.items()},
    }


def channels(traffic: Amqp091Traffic) -> Iterator[Entry]:
    """Yield the entries of the client's channels."""
    for number, channel in list(traffic.legs[CLIENT].connection.channels.items()):
        yield _channel_entry(traffic, number, channel)


def consumers(traffic: Amqp091Traffic) -> Iterator[Entry]:
    """Yield the entries of the client's consumers."""
    for number, channel in list(traffic.legs[CLIENT].connection.channels.items()):
        view = traffic.channel_views.get(number)
        for tag, no_ack in list(channel.consumers.items()):
            consumer = None if view is None else view.consumers.get(tag)
            shown_tag = tag if consumer is None else consumer.consume.consumer_tag or tag  # as redacted
            yield {"channel": number, "consumer_tag": shown_tag} | _consumer_entry(consumer, no_ack)


def _channel_entry(traffic: Amqp091Traffic, number: int, channel: Channel) -> Entry:
    view = traffic.channel_views.get(number)
    return {
        "channel": number,
        "state": "paused" if number in traffic.paused_channels else str(channel.state),
        "mode": str(channel.mode),
        "prefetch": 0 if view is None else view.prefetch,
        "global_prefetch": 0 if view is None else view.global_prefetch,
        "consumers": len(channel.consumers),
        "flow": {str(peer): is_flowing for peer, is_flowing in channel.is_flowing.items()},
        "messages": {str(peer): _messages(traffic, number, peer) for peer in Peer},
        "open_content": {str(peer): _open_content(traffic, number, peer) for peer in Peer},
        **open_messages(traffic, number),
    }


def _messages(traffic: Amqp091Traffic, number: int, sender: Peer) -> int:
    """Count the contents that a peer has begun to send on a channel: publishes, or deliveries, gets and returns."""
    state = traffic.legs[sender].reader.content_states.get(number)
    return 0 if state is None else state.contents


def _open_content(traffic: Amqp091Traffic, number: int, sender: Peer) -> str | None:
    """Return the name of the method whose content a peer has sent only in part, if there is one."""
    state = traffic.legs[sender].reader.content_states.get(number)
    return None if state is None or state.expects == METHOD else BY_INDEX[state.index].name


def open_messages(traffic: Amqp091Traffic, number: int) -> Entry:
    """Return the numbers of a channel's unconfirmed publishes and unsettled deliveries.

    None without a meter, or once it has lost track.
    """
    meter = traffic.meter
    if meter is None or meter.is_lost:
        return {"unconfirmed": None, "unacked": None}
    channel = meter.channel(number)
    return {
        "unconfirmed": 0 if channel is None else channel.unconfirmed,
        "unacked": 0 if channel is None else channel.unacked,
    }


def _consumer_entry(consumer: ConsumerView | None, no_ack: bool) -> Entry:
    """Return a consumer's fields; None for those unknown because there are too many consumers."""
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
