"""A subscription with a selector, on a queue that others may consume from: it takes only the messages that it wants.

Like a `browser`, it looks at the first messages of the queue, and again while the queue changes.
"""

from __future__ import annotations

from typing import Protocol

from amqproxy.broker.amqp010.browser import MOST, BrowsedDeliveries, Browser, acquiring
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.queues.consumer import NOT_SENT, Consumer, QueueEntry
from amqproxy.broker.queues.queue import PeekedMessage, Place, Queue
from amqproxy.broker.work import Job

AT_ONCE = 64
"""Maximum number of messages taken out at once."""


class SelectingDeliveries(BrowsedDeliveries, Protocol):
    """The sender of acquired messages; `session_deliveries` documents its methods."""

    def deliver(self, consumer: Consumer, entry: QueueEntry, now: float, /) -> None: ...


class SelectingConsumer(Browser):
    """The selecting consumer of one subscription, whose consumer takes no turns in its queue."""

    depth = MOST

    def __init__(self, session: OwningSession, subscription: Subscription, deliveries: SelectingDeliveries) -> None:
        super().__init__(session, subscription, deliveries)
        self._sending = deliveries
        self._is_taking = False

    def _send(self, queue: Queue, now: float) -> bool:
        if self._is_taking:
            return True
        if not self._session.sender.may_send() or not self._subscription.has_credit():
            return False
        if self._has_more() or not self._found:
            self._look(queue, self._session.vhost.work.quantum)
        if self._has_more() and len(self._found) < self._most():
            return True  # wait for a full batch: each taking goes through all messages before the wanted ones
        if not self._found:
            return False
        wanted = [self._found.popleft() for _ in range(min(len(self._found), self._most()))]
        self._is_taking = True
        self._session.vhost.work.do(self._taking(queue, wanted, now), now)
        return self._is_taking or bool(self._found) or self._has_more()

    def _most(self) -> int:
        credit = self._subscription.messages
        return AT_ONCE if credit is None else min(AT_ONCE, credit)

    def _taking(self, queue: Queue, wanted: list[PeekedMessage], now: float) -> Job:
        """Take the wanted messages out and send them; one that others hold is looked at again if it comes back."""
        places = {each.place for each in wanted}
        try:
            entries = yield from acquiring(queue, places, self._session.vhost.work.quantum, now)
        finally:
            self._is_taking = False
            for priority, position in places:
                self._seen[priority].remove(range(position, position + 1))
            self._state = None
        queue.hold_back()
        try:
            for place in [each.place for each in wanted if each.place in entries]:
                self._deliver(queue, entries, place, now)
        finally:
            queue.release(list(entries.values()), now)
            queue.hold_no_more(now)

    def _deliver(self, queue: Queue, entries: dict[Place, QueueEntry], place: Place, now: float) -> None:
        consumer, subscription = self._subscription.consumer, self._subscription
        if self.is_over or consumer is None or not self._session.sender.may_send() or not subscription.has_credit():
            return  # the caller requeues it
        entry = entries.pop(place)
        if not consumer.no_ack:
            self._sending.deliver(consumer, entry, now)
            return
        queue.unacked -= 1  # `acquiring` holds it, but this consumer does not acknowledge
        entry.tag = 0
        self._sending.deliver(consumer, entry, now)
        if entry.tag != NOT_SENT:
            queue.forget(entry)
