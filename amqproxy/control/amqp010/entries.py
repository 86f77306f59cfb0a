"""Entries of the proxy's sessions whose client speaks AMQP 0-10, for the control socket: with the keys of 0-9-1.

A 0-10 session is listed as a channel, and a subscription as a consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.amqp010.protocol_header import NAME
from amqproxy.amqp010.transitions import SessionState
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.traffic import Amqp010Traffic
from amqproxy.taps.metering.amqp010.meter import AttachmentMeter
from amqproxy.taps.record import json_value

Entry = dict[str, Any]


def connection(traffic: Amqp010Traffic) -> Entry:
    """Return the part of a connection's entry that is specific to 0-10."""
    found = traffic.legs[CLIENT].connection
    properties = traffic.passage.shown_client.properties
    sessions = traffic.sessions
    meters = [traffic.metered.attachment(number) for number in sessions]
    return {
        "protocol": NAME,
        "mechanism": "" if found.client is None else shown_text(found.client.mechanism or ""),
        "product_version": shown_text(properties.get("version") or properties.get("qpid.client_version", "")),
        "name": client_name(properties),
        "channel_max": found.channel_max,
        "frame_max": found.frame_max,
        "heartbeat": found.heartbeat,
        "blocked": False,
        "channels": len(sessions),
        "consumers": sum(len(each.consumers) for each in meters if each is not None),
        "bytes": {str(peer): traffic.legs[peer].transport.received for peer in Peer},
    }


def channels(traffic: Amqp010Traffic) -> Iterator[Entry]:
    """Yield the entries of the sessions that the client is attached to; counts that are not kept are None."""
    paused = traffic.paused_channels
    for number, channel in list(traffic.legs[CLIENT].connection.channels.items()):
        session = channel.session
        if session is None:
            continue
        is_open = session.state is SessionState.ATTACHED
        meter = traffic.metered.attachment(number)
        yield {
            "channel": number,
            "state": "paused" if number in paused else "open" if is_open else str(session.state),
            "mode": _mode(meter),
            "prefetch": 0,
            "global_prefetch": 0,
            "consumers": 0 if meter is None else len(meter.consumers),
            "flow": {str(peer): True for peer in Peer},
            "messages": {
                str(CLIENT): 0 if meter is None else meter.published,
                str(SERVER): 0 if meter is None else meter.delivered,
            },
            "open_content": dict.fromkeys(map(str, Peer)),
            "unconfirmed": None if meter is None else meter.unconfirmed,
            "unacked": None if meter is None else meter.unacked,
            "session_name": shown_text(session.name),
        }


def _mode(meter: AttachmentMeter | None) -> str:
    if meter is None:
        return "normal"
    return "dtx" if meter.is_distributed else "tx" if meter.is_transactional else "normal"


def consumers(traffic: Amqp010Traffic) -> Iterator[Entry]:
    """Yield the entries of the client's subscriptions, as far as they are counted.

    Fields that rules may redact are None until the subscription is complete: only then is the redaction known.
    """
    for number in traffic.sessions:
        meter, view = traffic.metered.attachment(number), traffic.channel_views.get(number)
        for destination, subscribed in [] if meter is None else list(meter.consumers.items()):
            known = None if view is None else view.consumers.get(destination)
            yield {
                "channel": number,
                "consumer_tag": shown_text(destination if known is None else known.consume.consumer_tag),
                "queue": None if known is None else known.shown_queue,
                "no_ack": subscribed.no_ack,
                "exclusive": subscribed.exclusive,
                "prefetch": None,
                "arguments": None if known is None else json_value(known.consume.arguments),
            }
