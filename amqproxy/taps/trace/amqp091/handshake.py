"""Handshake of a connection: the peers' properties, the user, and the limits agreed before it is open."""

from __future__ import annotations

from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStart, ConnectionStartOk, ConnectionTuneOk, Method
from amqproxy.taps.record import json_value
from amqproxy.taps.trace.handshake_facts import HandshakeFacts


def learn(facts: HandshakeFacts, method: Method) -> None:
    """Record the facts that a handshake method on channel 0 shows; other methods show none. Section 2.2.4."""
    match method:
        case ConnectionStart():
            facts.server_properties = json_value(method.server_properties)
        case ConnectionStartOk():
            facts.client_properties = json_value(method.client_properties)
            facts.mechanism, facts.user = method.mechanism, user_of(method)
        case ConnectionTuneOk():
            facts.channel_max, facts.frame_max, facts.heartbeat = method.channel_max, method.frame_max, method.heartbeat
        case ConnectionOpen():
            facts.virtual_host = method.virtual_host
        case _:
            pass
