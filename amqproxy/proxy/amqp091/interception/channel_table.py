"""The channels of one connection that have interceptors, and those whose frames are all handed over."""

from __future__ import annotations

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.amqp091.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp091.interception.channel_owner import ChannelOwner


class ChannelTable:
    """The `ChannelInterceptor`s of a connection, `by_number`. A channel has none as long as all its frames pass.

    `newly_watched` are the channels watched since the current frames were read: their other frames are needed, too.
    """

    def __init__(self, owner: ChannelOwner) -> None:
        self._owner = owner
        self.by_number: dict[int, ChannelInterceptor] = {}
        self.newly_watched: set[int] = set()

    def clear(self) -> None:
        """Drop all references to the owner, at the end of the connection."""
        self.by_number.clear()
        del self._owner

    def channel(self, number: int) -> ChannelInterceptor:
        """Return the interceptor of a channel, creating it if all frames have passed without one so far."""
        channel = self.by_number.get(number)
        if channel is None:
            owner = self._owner
            channel = self.by_number[number] = ChannelInterceptor(number, owner)
            for peer, direction in channel.directions.items():
                if owner.current != (peer, number):
                    direction.join(owner.readers[peer].content_states.get(number))
        return channel

    def join_closing(self) -> None:
        """Track the channels that are closing already, so that contents in progress on them are completed."""
        connections = self._owner.connections
        closing = {
            number
            for connection in connections.values()
            for number, channel in connection.channels.items()
            if not channel.takes_frames
        }
        for number in closing:
            for direction in self.channel(number).directions.values():
                direction.join_closing()

    def watch(self, channel: ChannelInterceptor) -> None:
        """Make the readers hand over all further frames of a channel."""
        number = channel.number
        if not number:
            return
        if not channel.is_watched:
            channel.is_watched = True
            owner = self._owner
            for peer, reader in owner.readers.items():
                content_state = reader.content_states.get(number)
                if owner.current != (peer, number) and (content_state is None or not content_state.is_shown):
                    channel.directions[peer].join(content_state)
        self.watch_contents(channel)

    def watch_contents(self, channel: ChannelInterceptor) -> None:
        """Make the readers hand over all frames of a channel that follow the current one."""
        owner = self._owner
        for peer, reader in owner.readers.items():
            content_state = reader.content_states.get(channel.number)
            if content_state is not None and content_state.is_watched:
                continue
            if owner.current == (peer, channel.number):  # without a content state, the chunk contains its close
                self.newly_watched.add(channel.number)
            if content_state is not None:
                content_state.is_watched = True

    def is_gone(self, number: int) -> bool:
        """Whether the channel has ended on both legs, though the client may have opened the number's next one."""
        connections = self._owner.connections
        if number in connections[SERVER].channels:
            return False
        channel = self.by_number.get(number)
        return number not in connections[CLIENT].channels or (channel is not None and bool(channel.reopening))

    def open_next(self, last: ChannelInterceptor) -> ChannelInterceptor:
        """Create the next channel of that number, with the frames that the client has already sent on it."""
        channel = self.by_number[last.number] = ChannelInterceptor(last.number, self._owner)
        channel.is_watched = True
        frames = [(frame, None) for frame in last.reopening]
        channel.directions[CLIENT].queue.extend(frames)  # already charged when it was kept for the next channel
        return channel
