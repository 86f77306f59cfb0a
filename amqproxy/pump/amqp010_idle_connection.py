"""A connection of AMQP 0-10 on which next to nothing comes, while an `IdlePump` has it."""

from __future__ import annotations

from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame import encode_method
from amqproxy.pump.idle_connection import IdleConnection


class Amqp010IdleConnection(IdleConnection):
    """The same as an `IdleConnection`; on none of its tracks has anything begun that has not ended."""

    __slots__ = ()

    is_amqp010 = True
    heartbeat = encode_method(0, ConnectionHeartbeat())
    heartbeat_kind = ConnectionHeartbeat.index
