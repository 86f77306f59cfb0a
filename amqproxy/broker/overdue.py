"""Which channels hold a message for too long: RabbitMQ closes them, so that others get what a stuck consumer has.

Nothing is noted when a message goes out. Once a minute it is, which delivery tag was the last one: what is not settled
of those up to it has been out for as long as that is ago.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqproxy.broker.server_channel import ServerChannel

INTERVAL = 60.0
"""Seconds between two looks, by which a channel may be closed too late."""


class Overdue:
    """`timeout` is in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._next = -math.inf
        self._marks: dict[ServerChannel, deque[tuple[float, int]]] = {}

    def is_due(self, now: float) -> bool:
        """Is it time for a look?"""
        return now >= self._next

    def find(self, channels: Iterable[ServerChannel], now: float) -> list[ServerChannel]:
        """Those of the channels that hold something for longer than they may."""
        self._next = now + min(INTERVAL, self.timeout)
        found = []
        before, self._marks = self._marks, {}
        for channel in channels:
            oldest = channel.deliveries.unacked.oldest
            if not oldest:
                continue
            marks = self._marks[channel] = before.get(channel) or deque()
            while marks and marks[0][1] < oldest:
                marks.popleft()
            last = channel.deliveries.last_tag
            if not marks or marks[-1][1] < last:
                marks.append((now, last))
            if now - marks[0][0] >= self.timeout:
                found.append(channel)
        return found
