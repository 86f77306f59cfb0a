"""The channels of one connection, from their first control on."""

from __future__ import annotations

from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp010.interception.command_gathering import CommandGathering
from amqproxy.proxy.amqp010.interception.path import ChannelPaths
from amqproxy.proxy.amqp010.interception.session_memory import SessionMemory
from amqproxy.proxy.interception.queued_bytes import QueuedBytes


class ChannelTable:
    """The `ChannelInterceptor`s of a connection, `by_number`; their sessions are charged to `memory`."""

    def __init__(self, loads: dict[Peer, QueuedBytes], gathering: CommandGathering, memory: SessionMemory) -> None:
        self.by_number: dict[int, ChannelInterceptor] = {}
        self._loads = loads
        self._gathering = gathering
        self._memory = memory

    def channel(self, number: int) -> ChannelInterceptor:
        """Return the channel of this number, creating it if there is none."""
        channel = self.by_number.get(number)
        if channel is None:
            channel = self.by_number[number] = ChannelInterceptor(number, self._loads, self._gathering)
            self._memory.begin(channel)
        return channel

    def has(self, channel: ChannelPaths) -> bool:
        """Whether this is still the current channel of its number, with the same session."""
        return self.by_number.get(channel.number) is channel
