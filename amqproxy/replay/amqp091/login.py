"""Handshake of a played client: the recorded one with the target's user and the live broker's limits."""

from __future__ import annotations

import msgspec

from amqproxy.amqp091.methods import (
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.replay.broker_link import least
from amqproxy.replay.target import Target

OWN_PROPERTIES = Table({"product": "amqproxy replay", "capabilities": {}})
"""Client properties of a connection whose handshake is not in the capture."""


def start_ok(target: Target, start: ConnectionStart | None, recorded: ConnectionStartOk | None) -> ConnectionStartOk:
    """Return a start-ok of the target's user, by the recorded mechanism if that has a name and a password."""
    offered = (start.mechanisms if start is not None else b"PLAIN").split()
    mechanism = recorded.mechanism if recorded is not None else "PLAIN"
    if mechanism not in ("PLAIN", "AMQPLAIN"):
        mechanism = "PLAIN" if b"PLAIN" in offered or b"AMQPLAIN" not in offered else "AMQPLAIN"
    if mechanism == "PLAIN":
        response = f"\0{target.user}\0{target.password}".encode()
    else:
        response = Table({"LOGIN": target.user, "PASSWORD": target.password}).octets
    if recorded is None:
        return ConnectionStartOk(OWN_PROPERTIES, mechanism, response)
    return msgspec.structs.replace(recorded, mechanism=mechanism, response=response)


def tune_ok(tune: ConnectionTune, recorded: ConnectionTuneOk | None) -> ConnectionTuneOk:
    """Return the recorded limits, channels and frame size capped by those that the live broker offers."""
    if recorded is None:
        return ConnectionTuneOk(tune.channel_max, tune.frame_max, tune.heartbeat)
    return ConnectionTuneOk(
        least(recorded.channel_max, tune.channel_max), least(recorded.frame_max, tune.frame_max), recorded.heartbeat
    )


def open_method(target: Target, recorded: ConnectionOpen | None) -> ConnectionOpen:
    """Return a connection.open of the target's virtual host, or of the recorded one if the target has none."""
    if recorded is None:
        return ConnectionOpen(target.virtual_host or "/")
    if target.virtual_host is None:
        return recorded
    return msgspec.structs.replace(recorded, virtual_host=target.virtual_host)


def exceeds(chosen: ConnectionTuneOk, offered: ConnectionTune) -> bool:
    """Whether a client chose a higher limit of channels or frame size than it was offered."""
    return any(
        limit and (wanted == 0 or wanted > limit)
        for wanted, limit in ((chosen.channel_max, offered.channel_max), (chosen.frame_max, offered.frame_max))
    )
