"""An idle AMQP 0-9-1 connection while an `IdlePump` has it."""

from __future__ import annotations

import struct

from amqproxy.amqp091.frame import HEARTBEAT_FRAME
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.pump.idle_connection import IdleConnection

_STATE = struct.Struct("=HBiQQ")
"""Reader state of one channel: its number, the expected frame type, the index of the current content's method, the
remaining bytes of that content's body, and the number of contents that have begun."""


class Amqp091IdleConnection(IdleConnection):
    """Idle 0-9-1 connection that keeps the state of each channel, whose current content may be incomplete."""

    __slots__ = ()

    heartbeat = HEARTBEAT_FRAME
    heartbeat_kind = -1

    def _packed_states(self, reader: FrameReader) -> bytes:
        return b"".join(
            _STATE.pack(number, each.expects, each.index, each.remaining, each.contents)
            for number, each in sorted(reader.content_states.items())
        )

    def _unpack_states(self, packed: bytes, reader: FrameReader) -> None:
        for number, *state in _STATE.iter_unpack(packed):
            if number in reader.content_states:
                reader.content_states[number].go_on(*state)
