"""A subscription that is sent messages without acquiring them: they stay in their queue, for others too. Section 10.2.

It goes through a queue in parts, and looks again while the queue changes, for what it has not seen. What others acquire
meanwhile it may still send.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Generator
from contextlib import suppress
from typing import Protocol

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.broker.amqp010.jms_properties import is_selected
from amqproxy.broker.amqp010.jms_selector import JmsSelector
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.message import Message
from amqproxy.broker.queues.consumer import UNLIMITED, QueueEntry
from amqproxy.broker.queues.paged_messages import UNREADABLE
from amqproxy.broker.queues.queue import PeekedMessage, Place, Queue
from amqproxy.broker.work import Quantum

MOST = 10_000
"""Messages of a queue that are gone through to take some of them out."""

AT_ONCE = 256
AT_ONCE_BYTES = 256 * 1024
"""What is looked at in one go: so many messages, or so many bytes of bodies."""

INTERVAL = 0.1
"""Seconds between two looks at a queue, at least."""

PAUSE = 20e-6
"""The same for each message that all browsers of the queue of one user go over to find something new: so they do little
else, and slow no other user's.
"""

MOST_CHOSEN = 64
"""Messages that a selector chooses in advance."""

MOST_RANGES = 1024
"""Ranges of positions that were looked at, above which those of messages that are gone are forgotten."""

LONG = 256
"""Messages of a queue that is looked at each time that one comes: above, only at intervals."""

SENDING = 4
"""What it costs of a turn to send a message."""

PEEKED = 4
"""Messages that are gone over to find something new, for what one operation costs."""


class BrowsedDeliveries(Protocol):
    """What sends a message that is not acquired; `session_deliveries` has what it does."""

    def browse(self, subscription: Subscription, peeked: PeekedMessage, now: float, /) -> bool: ...


class Browser:
    """Of one subscription. `deliveries` sends what it finds, among the first `depth` messages of the queue."""

    depth = UNLIMITED

    def __init__(self, session: OwningSession, subscription: Subscription, deliveries: BrowsedDeliveries) -> None:
        self._session = session
        self._subscription = subscription
        self._of_user = subscription.queue.lookers.setdefault(session.user.name, {})
        """This one, and those of the same queue and user."""
        self._of_user[self] = None
        self._deliveries = deliveries
        self._seen: defaultdict[int, CommandIds] = defaultdict(CommandIds)
        """Of each priority, the positions of the messages that were looked at."""
        self._most_ranges = MOST_RANGES
        self._found: deque[PeekedMessage] = deque()
        self._to_choose_from: deque[PeekedMessage] = deque()
        """What the selector has not gone over yet: that may take many turns."""
        self._state: tuple[int, int, int] | None = None
        """That of the queue where nothing of it is new."""
        self.is_over = False
        self.is_behind = False
        """Is there more to be sent at once?"""
        self._is_listed = False

    def tick(self, now: float) -> None:
        """Send what there is, as far as credit and this turn go."""
        queue, vhost = self._subscription.queue, self._session.vhost
        if self.is_over:
            return
        if queue.is_deleted:
            self.end()
            return
        self.is_behind = self._send(queue, now)
        vhost.timed.set(self, now + max(INTERVAL, PAUSE * len(self._of_user) * (1 + queue.peek_cost)))
        if self.is_behind and not self._is_listed:
            self._is_listed = True
            # In line with all other work, and not before what is timed.
            vhost.work.add_of(self._session.user, self._go_on)

    def _go_on(self, now: float) -> bool:
        self._is_listed = False
        self.tick(now)
        return False

    def queue_changed(self, now: float) -> None:
        """A message has come: look soon, unless the queue is so long that this takes its time."""
        if not self.is_over and self._subscription.queue.message_count < LONG:
            self._session.vhost.timed.set(self, now)

    def _send(self, queue: Queue, now: float) -> bool:
        """Send as much as fits into this turn; is there more?"""
        quantum = self._session.vhost.work.quantum
        while self._session.sender.may_send() and self._subscription.has_credit():
            if not self._found and not self._look(queue, quantum):
                return self._has_more()
            peeked = self._found.popleft()
            if peeked.expires_at <= now:
                continue
            if not self._deliveries.browse(self._subscription, peeked, now):
                self._found.appendleft(peeked)
                return False
            if quantum.spend(SENDING):
                return True
        return False

    def _look(self, queue: Queue, quantum: Quantum) -> bool:
        """Look at what comes next in the queue, or has changed; has it something to be sent?"""
        if self._to_choose_from:
            return self._choose(quantum)
        state = queue.entered, queue.left, queue.message_count
        if state == self._state:
            return False
        quantum.left -= queue.peek_cost // PEEKED
        found = queue.peek(self._seen, AT_ONCE, AT_ONCE_BYTES, self.depth)
        quantum.left -= len(found)
        self._state = None if found else state
        for priority, position in [peeked.place for peeked in found]:
            self._seen[priority].extend(position, position + 1)
        if sum(each.ranges for each in self._seen.values()) > self._most_ranges:
            self._forget_gone(queue, quantum)
        if self._subscription.selector is None:
            self._found.extend(found)
            return bool(found)
        self._to_choose_from.extend(found)
        return self._choose(quantum)

    def _forget_gone(self, queue: Queue, quantum: Quantum) -> None:
        """Know of what was looked at only what another look would find: the rest grows for as long as others consume.

        A message that is held just now is looked at again if it comes back.
        """
        for priority, left, back in queue.peeked_positions():
            seen = self._seen[priority]
            kept = CommandIds.of([range(position, position + 1) for position in sorted(back) if position in seen])
            for each in seen:
                if each.stop > left + 1:
                    kept.extend(max(each.start, left + 1), each.stop)
            quantum.left -= (seen.ranges + len(back)) // PEEKED
            self._seen[priority] = kept
        self._most_ranges = MOST_RANGES + 2 * sum(each.ranges for each in self._seen.values())

    def _has_more(self) -> bool:
        """Is there something in the queue that was not looked at?"""
        return bool(self._to_choose_from) or self._state is None

    def _choose(self, quantum: Quantum) -> bool:
        """Go over what was found, as far as this turn goes; is there something that the selector chooses?"""
        selector = self._subscription.selector
        assert selector is not None
        while self._to_choose_from and len(self._found) < MOST_CHOSEN:
            peeked = self._to_choose_from.popleft()
            if _is_selected(peeked.message, selector):
                self._found.append(peeked)
            if quantum.spend(selector.cost):
                break
        return bool(self._found)

    def end(self) -> None:
        """The subscription is over."""
        if self.is_over:
            return
        self.is_over = True
        self.is_behind = False
        del self._of_user[self]
        if not self._of_user:
            del self._subscription.queue.lookers[self._session.user.name]
        self._found.clear()
        self._to_choose_from.clear()
        self._session.vhost.timed.set(self, math.inf)


def _is_selected(message: Message, selector: JmsSelector) -> bool:
    is_read = message.has_properties
    try:
        return is_selected(message, selector)
    finally:
        if is_read:
            message.forget_properties()  # it goes on waiting


def acquiring(
    queue: Queue, places: set[Place], quantum: Quantum, now: float
) -> Generator[None, float, dict[Place, QueueEntry]]:
    """Take the messages at these places out of a queue, as far as they are still there; in steps.

    Nothing else is handed out meanwhile, and those before them go back to their places.
    """
    acquired: dict[Place, QueueEntry] = {}
    passed: list[QueueEntry] = []
    last = max((_turn(place) for place in places), default=(0, 0))
    queue.hold_back()
    try:
        for _ in range(MOST):
            if len(acquired) == len(places) or queue.is_deleted:
                break
            entry = None
            with suppress(*UNREADABLE):
                entry = queue.get(now)
            if entry is None:
                break
            place = queue.place_of(entry)
            queue.hold(entry, None)
            if place in places:
                acquired[place] = entry
            else:
                passed.append(entry)
                if _turn(place) > last:
                    break  # what is still missing, another has
            if quantum.spend(1):
                now = yield
    finally:
        marks = [entry.is_redelivered for entry in passed]
        queue.requeue(passed, now)
        for entry, mark in zip(passed, marks, strict=True):
            entry.is_redelivered = mark
        queue.hold_no_more(now)
    return acquired


def _turn(place: Place) -> tuple[int, int]:
    """In this order messages are taken out of a queue: the highest priority first."""
    priority, position = place
    return -priority, position
