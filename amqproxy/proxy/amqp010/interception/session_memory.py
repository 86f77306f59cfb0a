"""What the sessions of one connection cost of the memory that it may have with rules, besides what waits."""

from __future__ import annotations

from amqproxy.amqp010.errors import ResourceLimitExceeded, Scope
from amqproxy.amqp010.session import Session
from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.proxy.amqp010.interception.path import ChannelPaths
from amqproxy.proxy.memory_budget import MemoryShare

SESSION_COST, CHANNEL_COST = 20 * 1024, 4 * 1024
"""About how many bytes a session costs while it is attached, and what both legs keep of a channel till the end."""


class SessionMemory:
    """Counts it for the `share`."""

    __slots__ = ("_standing", "share")

    def __init__(self, share: MemoryShare) -> None:
        self.share = share
        self._standing = 0

    def add_channel(self) -> None:
        """There is one more channel, to the end of the connection. `ResourceLimitExceeded` where there is no room."""
        self._add(CHANNEL_COST)
        if self.share.is_over:
            raise ResourceLimitExceeded("there is no memory now for another channel", scope=Scope.CONNECTION)

    def begin(self, channel: ChannelPaths) -> None:
        """There is a session on a channel, or will be; that of channel 0, which every connection has, is left out."""
        if channel.number:
            self._charge(channel, SESSION_COST)

    def name(self, channel: ChannelPaths, session: Session | None) -> None:
        """The session on a channel is known, if it is, and so its name, which both legs have."""
        if session is not None and not channel.is_named:
            channel.is_named = True
            self._charge(channel, 2 * len(session.name))

    def end(self, channel: ChannelPaths) -> None:
        """The session on a channel has ended."""
        self._charge(channel, -channel.cost)

    @property
    def body_limit(self) -> int:
        """How large a message could be, at most, if nothing else waited."""
        return min(max(0, self.share.memory.share_limit - self._standing), MAX_BODY)

    def _charge(self, channel: ChannelPaths, size: int) -> None:
        channel.cost += size
        self._add(size)

    def _add(self, size: int) -> None:
        self._standing += size
        self.share.add(size)
