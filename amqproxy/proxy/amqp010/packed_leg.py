"""A leg of an open connection of AMQP 0-10 as a value of a few hundred bytes, from which another one is made like it.

Packed is what the peers have agreed on, and which sessions are attached; what has been read of each track is with the
pump. Without rules, a leg knows nothing of the commands of its sessions. A leg of which more is to be known is not
packed: while a session attaches, detaches or awaits its timeout, or waits detached for its client.
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
    """A session to which both peers are attached, on a channel; its timeout is in seconds, None for ever."""

    channel: int
    name: bytes
    timeout: int | None


class Amqp010PackedLeg(PackedLeg, frozen=True, array_like=True, kw_only=True):
    """A leg, with its attached sessions. `start_ok` is without its frames, of which a large one has several."""

    largest_channel: int
    channels: tuple[PackedSession, ...]


def pack_leg(leg: Amqp010Leg) -> Amqp010PackedLeg | None:
    """The leg as a value; None where more is to be known of it than that can have."""
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
    """Have a new leg be as the packed one was, but for what was read since; `start_oks` are those decoded before."""
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
