"""A subscription that browses: its messages are not acquired, and stay in their queue for others. Section 10.2.

It reads a queue in parts, and looks again for unseen messages while the queue changes. It may still send messages that
others have acquired meanwhile.
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
"""Maximum number of messages of a queue that are gone through to take some of them out."""

AT_ONCE = 256
AT_ONCE_BYTES = 256 * 1024
"""Maximum number of messages, and of body bytes, in one look at a queue."""

INTERVAL = 0.1
"""Minimum seconds between two looks at a queue."""

PAUSE = 20e-6
"""Minimum seconds between two looks for each message that all browsers of one user go over in the queue.

It bounds the time that these browsers take, so that they do not slow those of other users.
"""

MOST_CHOSEN = 64
"""Maximum number of messages that a selector chooses in advance."""

MOST_RANGES = 1024
"""Number of position ranges looked at above which those of messages that are gone are forgotten."""

LONG = 256
"""Queue length from which on a new message prompts no look: longer queues are looked at only at intervals."""

SENDING = 4
"""Quantum cost of sending a message."""

PEEKED = 4
"""Number of messages gone over in search of new ones that cost one unit of the quantum."""


class BrowsedDeliveries(Protocol):
    """The sender of messages that are not acquired; `session_deliveries` documents its method."""

    def browse(self, subscription: Subscription, peeked: PeekedMessage, now: float, /) -> bool: ...


class Browser:
    """The browser of one subscription; `deliveries` sends the messages found among the first `depth` of the queue."""

    depth = UNLIMITED

    def __init__(self, session: OwningSession, subscription: Subscription, deliveries: BrowsedDeliveries) -> None:
        self._session = session
        self._subscription = subscription
        self._of_user = subscription.queue.lookers.setdefault(session.user.name, {})
        """The browsers of the same queue and user, including this one."""
        self._of_user[self] = None
        self._deliveries = deliveries
        self._seen: defaultdict[int, CommandIds] = defaultdict(CommandIds)
        """Positions of the messages that were looked at, by priority."""
        self._most_ranges = MOST_RANGES
        self._found: deque[PeekedMessage] = deque()
        self._to_choose_from: deque[PeekedMessage] = deque()
        """Messages that the selector has not evaluated; evaluating them may take many turns."""
        self._state: tuple[int, int, int] | None = None
        """The queue's entered, left and ready counts at the last look, if that found nothing new."""
        self.is_over = False
        self.is_behind = False
        """Whether more messages could be sent at once."""
        self._is_listed = False

    def tick(self, now: float) -> None:
        """Send messages as far as credit and this turn allow."""
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
            # Queued with all other work, rather than ahead of it by another timer.
            vhost.work.add_of(self._session.user, self._go_on)

    def _go_on(self, now: float) -> bool:
        self._is_listed = False
        self.tick(now)
        return False

    def queue_changed(self, now: float) -> None:
        """Look at the queue soon after a message has come, unless the queue is so long that a look takes time."""
        if not self.is_over and self._subscription.queue.message_count < LONG:
            self._session.vhost.timed.set(self, now)

    def _send(self, queue: Queue, now: float) -> bool:
        """Send as many messages as fit into this turn; return whether there are more."""
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
        """Look for new messages if the queue has changed; return whether there are messages to send."""
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
        """Forget the positions that no further look would find: they accumulate for as long as others consume.

        A message that is held at the moment is looked at again if it comes back.
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
        """Return whether the queue may hold messages that were not looked at."""
        return bool(self._to_choose_from) or self._state is None

    def _choose(self, quantum: Quantum) -> bool:
        """Evaluate the selector on the messages found, as far as this turn allows; return whether any is chosen."""
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
        """Stop browsing: the subscription has ended."""
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
            message.forget_properties()  # the message stays in its queue


def acquiring(
    queue: Queue, places: set[Place], quantum: Quantum, now: float
) -> Generator[None, float, dict[Place, QueueEntry]]:
    """Take the messages at these places out of a queue in steps, as far as they are still there.

    Nothing else is delivered meanwhile, and the messages before them go back to their places.
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
                    break  # a message still missing is held by another consumer
            if quantum.spend(1):
                now = yield
    finally:
        queue.release(passed, now)
        queue.hold_no_more(now)
    return acquired


def _turn(place: Place) -> tuple[int, int]:
    """Return the sort key of the order in which messages leave a queue: the highest priority first."""
    priority, position = place
    return -priority, position
