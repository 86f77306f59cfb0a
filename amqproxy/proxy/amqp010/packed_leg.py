"""A leg of an open 0-10 connection as a value of a few hundred bytes, from which an equivalent leg is rebuilt.

It holds the negotiated parameters and the attached sessions; the read position on each track is kept by the pump.
Without rules, a leg keeps no state of its sessions' commands. A leg with more state is not packed: while a session
attaches, detaches or awaits its timeout, or is retained after a detach.
"""

from __future__ import annotations

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


def pack_leg(leg: Amqp010Leg) -> Amqp010PackedLeg | None:
    """Return the leg as a value; `None` if it has more state than the value can hold."""
    connection, reader = leg.connection, leg.reader
    if connection.state is not ConnectionState.OPEN or connection.client is None or connection.retained:
        return None
    if any(track == Track.CONTROL for _, track in reader.open_tracks):
        return None
    used = [channel for channel in connection.channels.values() if not channel.is_free]
    sessions = tuple(each for each in map(_packed_session, used) if each is not None)
    if len(sessions) < len(used):
        return None
    return Amqp010PackedLeg(
        start_ok=connection.client.encode(),
        virtual_host=connection.virtual_host,
        channel_max=connection.channel_max,
        frame_max=connection.frame_max,
        heartbeat=connection.heartbeat,
        largest_frame=reader.frame_max,
        channel_count=len(sessions),
        offset=reader.offset,
        frames=reader.frames,
        received=leg.transport.received,
        progress=leg.transport.progress,
        largest_channel=reader.channel_max,
        channels=sessions,
    )


def _packed_session(channel: Channel) -> PackedSession | None:
    session = channel.session
    if session is None or not channel.is_settled:
        return None
    return PackedSession(channel.number, session.name, session.timeout)


def unpack_leg(packed: Amqp010PackedLeg, leg: Amqp010Leg, start_oks: dict[bytes, ConnectionStartOk]) -> None:
    """Restore a packed leg into a new one, except what was read since; `start_oks` caches decoded start-ok controls."""
    connection, reader = leg.connection, leg.reader
    start_ok = start_oks.get(packed.start_ok)
    if start_ok is None:
        start_ok = start_oks[packed.start_ok] = decode_method(CONTROL, packed.start_ok, 0, len(packed.start_ok))
    connection.state = ConnectionState.OPEN
    connection.client = start_ok
    connection.virtual_host = packed.virtual_host
    connection.channel_max = packed.channel_max
    connection.frame_max = packed.frame_max
    connection.heartbeat = packed.heartbeat
    for direction in connection.readers.values():
        direction.set_frame_max(packed.frame_max)
    reader.set_frame_max(packed.largest_frame)
    reader.set_channel_max(packed.largest_channel)
    reader.skip(packed.offset)
    for each in packed.channels:
        channel = connection.channels[each.channel] = Channel(
            each.channel, connection.retained, connection.most_retained
        )
        session = Session(each.name)
        session.state = SessionState.ATTACHED
        session.timeout = each.timeout
        channel.sessions = dict.fromkeys(Peer, session)
    connection.session_count = len(packed.channels)
