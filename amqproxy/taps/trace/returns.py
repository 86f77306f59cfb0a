"""Which publish a basic.return gives back: it has no number, and is known by what it holds."""

from __future__ import annotations

from collections import deque

from amqproxy.amqp091.properties import Properties

MAX_MANDATORY = 1024
"""Mandatory publishes of one channel that are remembered; the oldest is forgotten first."""


class MandatoryPublishes:
    """The mandatory publishes of one channel that may still be returned, with the number of each.

    A publish that the broker has settled cannot be returned any more: it sends the return first.
    """

    __slots__ = ("_forgotten", "_publishes")

    def __init__(self) -> None:
        self._publishes: deque[tuple[int, str, str, int, Properties]] = deque()
        self._forgotten = 0

    def add(self, number: int, exchange: str, routing_key: str, size: int, properties: Properties) -> None:
        if len(self._publishes) == MAX_MANDATORY:
            self._forgotten = self._publishes.popleft()[0]
        self._publishes.append((number, exchange, routing_key, size, properties))

    def settle(self, first: int, last: int) -> None:
        """The publishes with these numbers are settled."""
        publishes = self._publishes
        if not publishes:
            return
        if publishes[0][0] >= first:  # in order, as brokers mostly do
            while publishes and publishes[0][0] <= last:
                publishes.popleft()
        else:
            self._publishes = deque(each for each in publishes if not first <= each[0] <= last)
        if first <= self._forgotten <= last:
            self._forgotten = 0

    def match(self, exchange: str, routing_key: str, size: int, properties: Properties) -> int | None:
        """The number of the publish that is returned; None if it could be one of several."""
        if self._forgotten:
            return None
        content = (exchange, routing_key, size, properties)
        found = [each for each in self._publishes if each[1:] == content]
        if len(found) != 1:
            return None
        self._publishes.remove(found[0])
        return found[0][0]
