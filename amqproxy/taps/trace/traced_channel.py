"""Trace of one channel, or of a session attached to it, as readers of a connection's trace see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from amqproxy.peer import Peer
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.events import HistoryLost
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import ChannelSnapshot


class TracedPublishes(Protocol):
    """Publishes of one channel."""

    @property
    def unconfirmed(self) -> int:
        """Number of open publishes."""


class TracedDeliveries(Protocol):
    """Deliveries of one channel."""

    @property
    def unacked(self) -> int:
        """Number of open deliveries."""

    @property
    def oldest_unacked(self) -> Span | None:
        """The range of the oldest open delivery."""

    def is_unacked(self, tag: int) -> bool:
        """Whether the delivery with this tag is open."""


class TracedChannel(ABC):
    """Trace of a channel; its parts share a context, and each owns its state."""

    __slots__ = ("_context", "_deliveries", "_publishes")

    _context: ChannelContext[Any]
    _deliveries: TracedDeliveries
    _publishes: TracedPublishes

    @property
    def knows_start(self) -> bool:
        """Whether all frames since the channel, or the session, was new were seen."""
        return self._context.knows_start and not self._context.is_restored

    @property
    def knows_client(self) -> bool:
        """Whether all frames of the client since the channel, or the session, was new were seen."""
        return self._context.knows_client

    @property
    def knows_state(self) -> bool:
        """Whether the state is known: from its beginning, or from a snapshot, without a loss since."""
        return self._context.knows_start

    @property
    def has_forgotten(self) -> bool:
        """Whether more messages may be open than those that are known."""
        return self._context.has_forgotten

    @property
    def epoch(self) -> int:
        """Count of the openings of the channel's number, from 1; 0 if it was open before the first frame."""
        return self._context.epoch

    @property
    def unconfirmed(self) -> int:
        """Number of open publishes: not confirmed, or not committed."""
        return self._publishes.unconfirmed

    @property
    def unacked(self) -> int:
        """Number of open deliveries."""
        return self._deliveries.unacked

    @property
    def oldest_unacked(self) -> Span | None:
        """The range of the oldest open delivery."""
        return self._deliveries.oldest_unacked

    @property
    @abstractmethod
    def is_closing(self) -> bool:
        """Whether either peer has begun to close the channel."""

    def is_unacked(self, tag: int) -> bool:
        """Whether the delivery with this tag is open."""
        return self._deliveries.is_unacked(tag)

    @abstractmethod
    def queue_of(self, consumer_tag: str) -> str | None:
        """Return the queue of a consumer; `None` if it is unknown."""

    @abstractmethod
    def snapshot(self, *, is_unread: bool) -> ChannelSnapshot:
        """Return the state of the channel, on a connection that the broker no longer reads if it `is_unread`."""

    @abstractmethod
    def end_content(self, sender: Peer, ts_ns: int) -> None:
        """Complete the message that `sender` has begun, if there is one, since its rest is not shown."""

    @property
    def is_lagging(self) -> bool:
        """Whether the client may have sent its next frames before missed ones of the broker."""
        return self._context.is_lagging

    @is_lagging.setter
    def is_lagging(self, value: bool) -> None:
        self._context.is_lagging = value

    def doubt_deliveries(self, until_ns: int) -> None:
        """Note that missed frames of the client may have settled deliveries that are seen until `until_ns`."""
        self._context.settled_until_ns = until_ns

    def stop_reading(self) -> None:
        """Note that the broker no longer reads what the client sends."""
        self._context.is_unread = True

    @abstractmethod
    def lose(self, ts_ns: int, sender: Peer | None = None) -> None:
        """Report as unknown what missed frames of `sender`, or of both peers, may have settled."""

    @abstractmethod
    def end(self, ts_ns: int) -> None:
        """Report everything still open, since the channel, or its connection, has ended."""

    def _lose_track(self, sender: Peer, reason: str, ts_ns: int) -> None:
        """Report that the channel cannot be followed, and everything open as unknown."""
        self._context.events.append(HistoryLost(ts_ns, *self._context.place, sender=sender, reason=reason))
        self.lose(ts_ns)
