"""Deliveries of the live broker, matched with those of the recording.

A broker may deliver a message to another consumer, or in another order, than it did in the recording. Deliveries are
matched by queue and content; equal ones in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import ConnectionCloseOk, Method

MAX_UNMATCHED = 100_000
"""Unmatched deliveries that are kept; beyond it, the oldest is given up."""

MAX_UNMATCHED_BYTES = 256 * 1024 * 1024
"""Bytes of the bodies of unmatched deliveries that are kept."""


NOTHING = Command(0, ConnectionCloseOk())
"""Placeholder for a message after its content has been compared."""


class Holder(Protocol):
    """The connection that a message was delivered on."""

    def settle(self, delivery: LiveDelivery, method: Method) -> None:
        """Send a basic.ack, nack or reject, or its equivalent, with this delivery's own tag."""


class LiveDelivery:
    """A message that the live broker has delivered.

    `queue` is the recorded name of the queue, `key` that of the content; `tag` is the delivery tag on `channel`.
    `is_open` is whether it can still be settled, `is_kept` whether it came for a consumer or channel that was ending.
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
    """Live deliveries to all connections of a copy that have not been matched with recorded ones."""

    def __init__(self) -> None:
        self._by_content: dict[tuple[str, bytes], deque[LiveDelivery]] = {}
        self._by_queue: dict[str, deque[LiveDelivery]] = {}
        self._order: deque[LiveDelivery] = deque()
        self._bytes = 0
        self._count = 0
        self.given_up: list[LiveDelivery] = []
        """Deliveries beyond the limits, which have to be reported."""

    def add(self, delivery: LiveDelivery) -> None:
        """Add a live delivery; give up the oldest ones beyond the limits."""
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
        """Match and return the first delivery of this content from this queue."""
        waiting = self._by_content.get((queue, key))
        found = None if waiting is None else self._first(waiting)
        if found is not None:
            self._take(found)
        if waiting is not None and not waiting:
            del self._by_content[queue, key]
        return found

    def take_any(self, queue: str) -> LiveDelivery | None:
        """Match and return the first delivery from this queue, whatever its content."""
        waiting = self._by_queue.get(queue)
        found = None if waiting is None else self._first(waiting)
        if found is not None:
            self._take(found)
        return found

    def has_unmatched(self, queue: str, count: int) -> bool:
        """Whether at least `count` deliveries from this queue are unmatched."""
        waiting = self._by_queue.get(queue, ())
        return count <= len(waiting) and count <= sum(not each.is_matched for each in waiting)

    def unmatched(self) -> Iterator[LiveDelivery]:
        """Return the unmatched deliveries."""
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
        """Drop matched deliveries from the front; return the first unmatched one, which stays there."""
        while waiting and waiting[0].is_matched:
            waiting.popleft()
        return waiting[0] if waiting else None
