"""Sessions of the proxy whose client speaks AMQP 0-10, as the control socket lists them: with the keys of 0-9-1.

A session of AMQP 0-10 on a channel stands where 0-9-1 has a channel, and a subscription where it has a consumer.
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
    """What there is of a connection besides what is known of every session."""
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
    """The sessions that the client is attached to. What is not counted is None."""
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
    """The subscriptions of the client, as far as they are counted. What rules may hide of one is None until it is
    complete: only then is it known how it may be shown."""
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
