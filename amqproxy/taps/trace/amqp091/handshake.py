"""What the peers of a connection say of themselves, and agree on, before it is open."""

from __future__ import annotations

from amqproxy.amqp091.login import user_of
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStart, ConnectionStartOk, ConnectionTuneOk, Method
from amqproxy.taps.record import json_value
from amqproxy.taps.trace.handshake_facts import HandshakeFacts


def learn(facts: HandshakeFacts, method: Method) -> None:
    """Note what a method on channel 0 shows, of which those of the handshake matter: section 2.2.4."""
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
