"""A leg of an open 0-9-1 connection as a value of a few hundred bytes, from which an equivalent leg is rebuilt.

It holds the negotiated parameters; the read position on each channel is kept by the pump. That suffices while no
channel opens or closes and no reply is awaited: a leg with more state is not packed.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from amqproxy.amqp091.channel import Channel, ChannelMode
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import METHOD, Frame, encode_method
from amqproxy.amqp091.frame_reader import ContentState
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, ChannelState, ConnectionState
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.proxy.session.packed_leg import PackedLeg


class PackedChannel(msgspec.Struct, frozen=True, array_like=True):
    """An open channel on which no reply is awaited; `flows`: whether the client, and the server, may send content."""

    number: int
    mode: ChannelMode
    consumers: dict[str, bool]
    flows: tuple[bool, bool]
    got_without_ack: bool
    confirms_from: int | None


class Amqp091PackedLeg(PackedLeg, frozen=True, array_like=True, kw_only=True):
    """A leg, with its open channels."""

    is_blocked: bool
    channels: tuple[PackedChannel, ...]

    @classmethod
    def of(cls, leg: Amqp091Leg) -> Self | None:
        connection, reader = leg.connection, leg.reader
        ours, numbers = connection.readers[leg.peer.other].content_states, connection.channels.keys()
        if connection.state is not ConnectionState.OPEN or connection.client is None:
            return None
        if reader.content_states.keys() != numbers or ours.keys() != numbers or any(map(_is_used, ours.values())):
            return None
        channels = tuple(map(_packed_channel, connection.channels.values()))
        if None in channels:
            return None
        start_ok = encode_method(0, connection.client)
        return cls._new(leg, start_ok, len(channels), is_blocked=connection.is_blocked, channels=channels)

    def restore(self, leg: Amqp091Leg, start_oks: dict[bytes, ConnectionStartOk]) -> None:
        super().restore(leg, start_oks)
        connection = leg.connection
        connection.state = ConnectionState.OPEN
        connection.is_blocked = self.is_blocked
        for channel in self.channels:
            connection.channels[channel.number] = _unpacked_channel(channel, connection)

    def _decoded_start_ok(self) -> Any:
        return Frame(self.start_ok).method


def _packed_channel(channel: Channel) -> PackedChannel | None:
    if channel.state is not ChannelState.OPEN or any(any(each.values()) for each in channel.awaited.values()):
        return None
    flows = channel.is_flowing[CLIENT], channel.is_flowing[SERVER]
    return PackedChannel(
        channel.number, channel.mode, channel.consumers, flows, channel.got_without_ack, channel.confirms_from
    )


def _is_used(state: ContentState) -> bool:
    return state.expects != METHOD or state.contents != 0 or state.is_watched or state.is_shown


def _unpacked_channel(packed: PackedChannel, connection: Connection) -> Channel:
    number = packed.number
    states = {peer: reader.open_content_state(number) for peer, reader in connection.readers.items()}
    channel = Channel(number, states)
    channel.state = ChannelState.OPEN
    channel.mode = packed.mode
    channel.consumers = packed.consumers
    channel.is_flowing = dict(zip((CLIENT, SERVER), packed.flows, strict=True))
    channel.got_without_ack = packed.got_without_ack
    channel.confirms_from = packed.confirms_from
    return channel
