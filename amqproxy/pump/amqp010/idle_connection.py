"""An idle AMQP 0-10 connection while an `IdlePump` has it."""

from __future__ import annotations

from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame import encode_method
from amqproxy.pump.idle_connection import IdleConnection


class Amqp010IdleConnection(IdleConnection):
    """Idle 0-10 connection, handed over between two assemblies of each track, so that no track state is kept."""

    __slots__ = ()

    heartbeat = encode_method(0, ConnectionHeartbeat())
    heartbeat_kind = ConnectionHeartbeat.index
