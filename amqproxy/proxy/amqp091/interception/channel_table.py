"""The channels of one connection that have an interceptor of their own, and of which of them all frames are wanted."""

from __future__ import annotations

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.amqp091.interception.channel_interceptor import ChannelInterceptor
from amqproxy.proxy.amqp091.interception.channel_owner import ChannelOwner


class ChannelTable:
    """The `ChannelInterceptor`s of a connection, `by_number`. A channel has none as long as all of it passes.

    `newly_watched` are the channels that are watched since the frames at hand were read: their other frames are wanted.
    """

    def __init__(self, owner: ChannelOwner) -> None:
        self._owner = owner
        self.by_number: dict[int, ChannelInterceptor] = {}
        self.newly_watched: set[int] = set()

    def clear(self) -> None:
        """The connection is over: nothing refers to the owner from here."""
        self.by_number.clear()
        del self._owner

    def channel(self, number: int) -> ChannelInterceptor:
        """The interceptor of a channel, which may have passed without one so far."""
        channel = self.by_number.get(number)
        if channel is None:
            owner = self._owner
            channel = self.by_number[number] = ChannelInterceptor(number, owner)
            for peer, direction in channel.directions.items():
                if owner.current != (peer, number):
                    direction.join(owner.readers[peer].content_states.get(number))
        return channel

    def join_closing(self) -> None:
        """Know the channels that are closing by now: a content that has begun to pass on one goes on to its end."""
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
        """Have all frames of a channel handed over from here on."""
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
        """Have the readers hand over all frames of a channel, from those on that come after the present one."""
        owner = self._owner
        for peer, reader in owner.readers.items():
            content_state = reader.content_states.get(channel.number)
            if content_state is not None and content_state.is_watched:
                continue
            if owner.current == (peer, channel.number):  # where the reader has no state of it, the chunk has its close
                self.newly_watched.add(channel.number)
            if content_state is not None:
                content_state.is_watched = True

    def is_gone(self, number: int) -> bool:
        """Has neither leg the channel any more? The client may have opened the next one of that number already."""
        connections = self._owner.connections
        if number in connections[SERVER].channels:
            return False
        channel = self.by_number.get(number)
        return number not in connections[CLIENT].channels or (channel is not None and bool(channel.reopening))

    def open_next(self, last: ChannelInterceptor) -> ChannelInterceptor:
        """The next channel of that number, with the frames that the client has sent on it already."""
        channel = self.by_number[last.number] = ChannelInterceptor(last.number, self._owner)
        channel.is_watched = True
        frames = [(frame, None) for frame in last.reopening]
        channel.directions[CLIENT].queue.extend(frames)  # its load is counted already
        return channel
