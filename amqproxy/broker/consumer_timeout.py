"""Which channels hold a message for too long: RabbitMQ closes them, so that others get what a stuck consumer has.

Nothing is noted when a message goes out. Once a minute it is, which delivery tag was the last one: what is not settled
of those up to it has been out for as long as that is ago.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

INTERVAL = 60.0
"""Seconds between two looks, by which a channel may be closed too late."""


class OldestDelivery(Protocol):
    """What a client has not settled."""

    @property
    def oldest(self) -> int:
        """Its lowest delivery tag; 0 where there is none."""


class TimedDeliveries(Protocol):
    """What one channel's client was sent."""

    @property
    def unacked(self) -> OldestDelivery: ...

    @property
    def last_tag(self) -> int: ...


class TimedChannel(Protocol):
    """A channel that may hold a message for too long."""

    @property
    def deliveries(self) -> TimedDeliveries: ...


C = TypeVar("C", bound=TimedChannel)


class ConsumerTimeout(Generic[C]):
    """`timeout` is in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._next = -math.inf
        self._marks: dict[C, deque[tuple[float, int]]] = {}

    def is_due(self, now: float) -> bool:
        """Is it time for a look?"""
        return now >= self._next

    def find(self, channels: Iterable[C], now: float) -> Iterator[tuple[C, bool]]:
        """Each of the channels, and whether it holds something for longer than it may. To be gone through to its end,
        however long that takes: until then no other look is due.
        """
        self._next = math.inf
        before, self._marks = self._marks, {}
        try:
            for channel in channels:
                yield channel, self._holds_for_too_long(channel, before.get(channel) or deque(), now)
        finally:
            self._next = now + min(INTERVAL, self.timeout)

    def _holds_for_too_long(self, channel: C, marks: deque[tuple[float, int]], now: float) -> bool:
        oldest = channel.deliveries.unacked.oldest
        if not oldest:
            return False
        self._marks[channel] = marks
        while marks and marks[0][1] < oldest:
            marks.popleft()
        last = channel.deliveries.last_tag
        if not marks or marks[-1][1] < last:
            marks.append((now, last))
        return now - marks[0][0] >= self.timeout
