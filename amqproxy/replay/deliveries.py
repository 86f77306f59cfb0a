"""The messages that a live broker has delivered, matched with those of the recording.

A broker may deliver a message to another consumer, or in another order, than it did when that was recorded. A message
is found again by its queue, its content, and how often it came before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import ConnectionCloseOk, Method

MAX_UNMATCHED = 100_000
"""Deliveries that are kept although the recording has none like them yet; the oldest is given up first."""

MAX_UNMATCHED_BYTES = 256 * 1024 * 1024
"""The same in bytes of their bodies."""


NOTHING = Command(0, ConnectionCloseOk())
"""Stands for a message whose content is not needed any more."""


class Holder(Protocol):
    """The connection that a message was delivered on."""

    def settle(self, delivery: LiveDelivery, method: Method) -> None:
        """Send what settles this delivery, a basic.ack, nack or reject, with its own tag."""


class LiveDelivery:
    """A message that the live broker has delivered.

    `queue` is the recorded name of the queue, `key` that of the content; `tag` is the delivery tag on `channel`.
    `is_open` is whether it can still be settled, `is_kept` whether it was left behind by a consumer that has ended.
    """

    __slots__ = ("channel", "command", "holder", "is_kept", "is_matched", "is_open", "key", "queue", "tag")

    def __init__(
        self, holder: Holder, channel: int, tag: int, queue: str, key: bytes, command: Command, *, is_open: bool
    ) -> None:
        self.holder = holder
        self.channel = channel
        self.tag = tag
        self.queue = queue
        self.key = key
        self.command = command
        self.is_open = is_open
        self.is_kept = False
        self.is_matched = False


class DeliveryBoard:
    """The live deliveries to all connections of a copy which the recording has not asked for yet."""

    def __init__(self) -> None:
        self._by_content: dict[tuple[str, bytes], deque[LiveDelivery]] = {}
        self._by_queue: dict[str, deque[LiveDelivery]] = {}
        self._order: deque[LiveDelivery] = deque()
        self._bytes = 0
        self._count = 0
        self.given_up: list[LiveDelivery] = []
        """Deliveries that there was no room for, to be reported."""

    def add(self, delivery: LiveDelivery) -> None:
        """A message was delivered."""
        self._by_content.setdefault((delivery.queue, delivery.key), deque()).append(delivery)
        self._by_queue.setdefault(delivery.queue, deque()).append(delivery)
        self._order.append(delivery)
        self._count += 1
        self._bytes += delivery.command.body_size
        while self._count > MAX_UNMATCHED or self._bytes > MAX_UNMATCHED_BYTES:
            oldest = self._first(self._order)
            if oldest is None:
                break
            self._take(oldest)
            self.given_up.append(oldest)

    def take(self, queue: str, key: bytes) -> LiveDelivery | None:
        """The first delivery of this content from this queue, which is then matched."""
        waiting = self._by_content.get((queue, key))
        found = None if waiting is None else self._first(waiting)
        if found is not None:
            self._take(found)
        if waiting is not None and not waiting:
            del self._by_content[queue, key]
        return found

    def take_any(self, queue: str) -> LiveDelivery | None:
        """The first delivery from this queue, whatever its content."""
        waiting = self._by_queue.get(queue)
        found = None if waiting is None else self._first(waiting)
        if found is not None:
            self._take(found)
        return found

    def has_unmatched(self, queue: str, count: int) -> bool:
        """Have so many been delivered from this queue, and not been asked for?"""
        waiting = self._by_queue.get(queue, ())
        return count <= len(waiting) and count <= sum(not each.is_matched for each in waiting)

    def unmatched(self) -> Iterator[LiveDelivery]:
        """The deliveries that the recording has not asked for."""
        return (each for each in self._order if not each.is_matched)

    def _take(self, delivery: LiveDelivery) -> None:
        delivery.is_matched = True
        self._count -= 1
        self._bytes -= delivery.command.body_size
        self._first(self._order)
        of_queue = self._by_queue[delivery.queue]
        self._first(of_queue)
        if not of_queue:
            del self._by_queue[delivery.queue]

    def _first(self, waiting: deque[LiveDelivery]) -> LiveDelivery | None:
        """The first that is not matched, which then comes first."""
        while waiting and waiting[0].is_matched:
            waiting.popleft()
        return waiting[0] if waiting else None
