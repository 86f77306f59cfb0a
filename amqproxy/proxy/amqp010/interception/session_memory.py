"""Memory charged for the sessions of one connection with rules, besides queued frames."""

from __future__ import annotations

from amqproxy.amqp010.errors import ResourceLimitExceeded, Scope
from amqproxy.amqp010.session import Session
from amqproxy.amqp091.commands import MAX_BODY
from amqproxy.proxy.amqp010.interception.path import ChannelPaths
from amqproxy.proxy.memory_budget import MemoryShare

SESSION_COST, CHANNEL_COST = 20 * 1024, 4 * 1024
"""Approximate bytes for a session while it is attached, and for a channel on both legs until the connection ends."""


class SessionMemory:
    """Charges of a connection's channels and sessions to its `share`."""

    __slots__ = ("_standing", "share")

    def __init__(self, share: MemoryShare) -> None:
        self.share = share
        self._standing = 0

    def add_channel(self) -> None:
        """Charge a channel until the connection ends. Raises `ResourceLimitExceeded` if the share is exhausted."""
        self._add(CHANNEL_COST)
        if self.share.is_over:
            raise ResourceLimitExceeded("there is no memory now for another channel", scope=Scope.CONNECTION)

    def begin(self, channel: ChannelPaths) -> None:
        """Charge a session on a channel, except on channel 0, which every connection has."""
        if channel.number:
            self._charge(channel, SESSION_COST)

    def name(self, channel: ChannelPaths, session: Session | None) -> None:
        """Charge the name of a channel's session, once it is known; both legs keep it."""
        if session is not None and not channel.is_named:
            channel.is_named = True
            self._charge(channel, 2 * len(session.name))

    def end(self, channel: ChannelPaths) -> None:
        """Release the charge of a channel's session, which has ended."""
        self._charge(channel, -channel.cost)

    @property
    def body_limit(self) -> int:
        """The largest message size that the share would allow if nothing were queued."""
        return min(max(0, self.share.memory.share_limit - self._standing), MAX_BODY)

    def _charge(self, channel: ChannelPaths, size: int) -> None:
        channel.cost += size
        self._add(size)

    def _add(self, size: int) -> None:
        self._standing += size
        self.share.add(size)
