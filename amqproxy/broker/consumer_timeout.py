"""Detection of channels that hold a message for too long, which RabbitMQ closes to free a stuck consumer's messages.

Deliveries carry no timestamps. Instead, once a minute, the last delivery tag of each channel is noted with the time: an
unacknowledged delivery up to that tag has been out at least since then.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator

from amqproxy.broker.clients import ClientChannel

INTERVAL = 60.0
"""Seconds between two checks, and so the maximum delay with which a channel is closed."""


class ConsumerTimeout:
    """Check of all channels for deliveries that are unacknowledged for `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._next = -math.inf
        self._marks: dict[ClientChannel, deque[tuple[float, int]]] = {}

    def is_due(self, now: float) -> bool:
        """Whether the next check is due."""
        return now >= self._next

    def find(self, channels: Iterable[ClientChannel], now: float) -> Iterator[tuple[ClientChannel, bool]]:
        """Yield each channel, and whether it holds a delivery for `timeout` seconds or longer.

        The caller must exhaust the iterator, over any number of turns: until then no other check is due.
        """
        self._next = math.inf
        before, self._marks = self._marks, {}
        try:
            for channel in channels:
                yield channel, self._holds_for_too_long(channel, before.get(channel) or deque(), now)
        finally:
            self._next = now + min(INTERVAL, self.timeout)

    def _holds_for_too_long(self, channel: ClientChannel, marks: deque[tuple[float, int]], now: float) -> bool:
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
