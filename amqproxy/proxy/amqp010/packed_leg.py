"""A leg of an open 0-10 connection as a value of a few hundred bytes, from which an equivalent leg is rebuilt.

It holds the negotiated parameters and the attached sessions; the read position on each track is kept by the pump.
Without rules, a leg keeps no state of its sessions' commands. A leg with more state is not packed: while a session
attaches, detaches or awaits its timeout, or is retained after a detach.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from amqproxy.amqp010.channel import Channel
from amqproxy.amqp010.controls import ConnectionStartOk
from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.frame import CONTROL, decode_method
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.transitions import ConnectionState, SessionState
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.session.packed_leg import PackedLeg


class PackedSession(msgspec.Struct, frozen=True, array_like=True):
    """A session to which both peers are attached, on a channel; its timeout is in seconds, `None` if unlimited."""

    channel: int
    name: bytes
    timeout: int | None


class Amqp010PackedLeg(PackedLeg, frozen=True, array_like=True, kw_only=True):
    """A leg, with its attached sessions. `start_ok` is the control without frames, since it may need several."""

    largest_channel: int
    channels: tuple[PackedSession, ...]

    @classmethod
    def of(cls, leg: Amqp010Leg) -> Self | None:
        connection, reader = leg.connection, leg.reader
        if connection.state is not ConnectionState.OPEN or connection.client is None or connection.retained:
            return None
        if any(track == Track.CONTROL for _, track in reader.open_tracks):
            return None
        sessions = tuple(_packed_session(channel) for channel in connection.channels.values() if not channel.is_free)
        if None in sessions:
            return None
        start_ok, largest = connection.client.encode(), reader.channel_max
        return cls._new(leg, start_ok, len(sessions), largest_channel=largest, channels=sessions)

    def restore(self, leg: Amqp010Leg, start_oks: dict[bytes, ConnectionStartOk]) -> None:
        super().restore(leg, start_oks)
        connection = leg.connection
        connection.state = ConnectionState.OPEN
        leg.reader.set_channel_max(self.largest_channel)
        for each in self.channels:
            channel = connection.channels[each.channel] = Channel(
                each.channel, connection.retained, connection.most_retained
            )
            session = Session(each.name)
            session.state = SessionState.ATTACHED
            session.timeout = each.timeout
            channel.sessions = dict.fromkeys(Peer, session)
        connection.session_count = len(self.channels)

    def _decoded_start_ok(self) -> Any:
        return decode_method(CONTROL, self.start_ok)


def _packed_session(channel: Channel) -> PackedSession | None:
    session = channel.session
    if session is None or not channel.is_settled:
        return None
    return PackedSession(channel.number, session.name, session.timeout)
