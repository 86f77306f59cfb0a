"""Match of a basic.return with its publish, by names, properties and size: a return has no number."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.taps.trace.budget import Budget

MAX_MANDATORY = 4096
"""Limit on the remembered mandatory publishes of one channel; the oldest is forgotten first."""

PUBLISH_COST = 288
"""Memory charged for a publish, in bytes: its number and two digests."""


class _Publish(NamedTuple):
    number: int
    names: bytes
    """A digest of its exchange and routing key."""
    content: bytes
    """A digest of its properties and size."""
    is_rewritten: bool = False


class MandatoryPublishes:
    """Publishes of one channel that may still be returned, with the number of each.

    A publish that the broker has settled can no longer be returned: the broker sends the return first.
    """

    __slots__ = ("_budget", "_forgotten", "_is_lost", "_publishes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._publishes: deque[_Publish] | None = None
        self._forgotten = 0
        self._is_lost = False

    def add(
        self, number: int, exchange: str, routing_key: str, size: int, properties: Properties, *, is_settled: bool
    ) -> None:
        """Remember a publish; `is_settled` is whether the broker will settle it."""
        if self._is_lost:
            return
        publishes = self._publishes
        if publishes is None:
            publishes = self._publishes = deque()
        if len(publishes) >= MAX_MANDATORY:
            self._forgotten = publishes.popleft().number
        elif not self._budget.take(PUBLISH_COST):
            self._forgotten = number
        if self._forgotten and not is_settled:
            self.lose()
        elif self._forgotten != number:
            publishes.append(_Publish(number, *_digests(exchange, routing_key, size, properties)))

    def restore(self, last: int, *, are_settled: bool) -> None:
        """Begin after the publishes up to `last`, which may be returned until they are settled."""
        if are_settled:
            self._forgotten = last
            self._is_lost = False

    def rewrite(self, number: int) -> None:
        """Note that a rule has changed this publish, the last: it may come back with other names or properties."""
        publishes = self._publishes
        if publishes and publishes[-1].number == number:
            publishes[-1] = publishes[-1]._replace(is_rewritten=True)

    def settle(self, first: int, last: int, oldest_open: int) -> None:
        """Forget the publishes with these numbers, which are settled; `oldest_open` is the lowest unsettled number."""
        if self._forgotten < oldest_open:
            self._forgotten = 0
        publishes = self._publishes
        if not publishes:
            return
        before = len(publishes)
        if publishes[0].number >= first:  # brokers mostly settle in order
            while publishes and publishes[0].number <= last:
                publishes.popleft()
        else:
            self._publishes = publishes = deque(each for each in publishes if not first <= each.number <= last)
        self._budget.give(PUBLISH_COST * (before - len(publishes)))

    def match(self, exchange: str, routing_key: str, size: int, properties: Properties) -> int | None:
        """Return the number of the returned publish; `None` if it could be one of several.

        A rewritten publish has kept its properties and size, or else the names that the client is shown.
        """
        if self._forgotten or self._is_lost or self._publishes is None:
            return None
        names, content = _digests(exchange, routing_key, size, properties)
        found = [
            each for each in self._publishes if each.content == content and (each.is_rewritten or each.names == names)
        ] or [each for each in self._publishes if each.is_rewritten and each.names == names]
        if len(found) != 1:
            return None
        self._publishes.remove(found[0])
        self._budget.give(PUBLISH_COST)
        return found[0].number

    def lose(self) -> None:
        """Forget all publishes, and match no later return."""
        self.clear()
        self._is_lost = True

    def clear(self) -> None:
        self._budget.give(PUBLISH_COST * len(self._publishes or ()))
        self._publishes = None


def _digests(exchange: str, routing_key: str, size: int, properties: Properties) -> tuple[bytes, bytes]:
    return _digest_of_names(exchange, routing_key), _digest(ContentHeader(size, properties).encode())


@lru_cache(1024)
def _digest_of_names(exchange: str, routing_key: str) -> bytes:
    return _digest(f"{len(exchange)} {exchange}{routing_key}".encode(errors="surrogateescape"))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
