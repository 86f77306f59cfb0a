"""Dead letters that a quorum queue keeps until they have arrived: x-dead-letter-strategy = at-least-once.

A letter has arrived when every queue that its exchange routes it to has taken it. Until then, as with RabbitMQ, it
counts for the limits of its queue, and is sent again every few minutes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import QueueEntry

SEND_AGAIN_AFTER = 180.0
"""Seconds between two attempts to send a letter, as with RabbitMQ."""


class DeadLetter:
    """One message on its way, for the reason that x-death names; `arrived` are the queues that have it already."""

    __slots__ = ("arrived", "attempts", "body_bytes", "entry", "reason")

    def __init__(self, entry: QueueEntry, reason: str) -> None:
        self.entry = entry
        self.reason = reason
        self.arrived: set[str] = set()
        self.attempts = 0
        self.body_bytes = len(entry.message.body) if entry.paged_body is None else entry.paged_body.body_bytes


class PendingDeadLetters:
    """Dead letters of one queue that have not arrived, or are on their way: their `count` and `body_bytes`.

    `due` is when those that have not arrived must be sent again.
    """

    __slots__ = ("_waiting", "body_bytes", "count", "due")

    def __init__(self) -> None:
        self._waiting: deque[DeadLetter] = deque()
        self.count = self.body_bytes = 0
        self.due = NEVER

    def __iter__(self) -> Iterator[DeadLetter]:
        """Iterate over the letters that wait to be sent again."""
        return iter(self._waiting)

    def add(self, letter: DeadLetter) -> None:
        """Count a letter that is sent."""
        self.count += 1
        self.body_bytes += letter.body_bytes

    def arrived(self, letter: DeadLetter) -> None:
        """Release a letter that need not be kept any more."""
        self.count -= 1
        self.body_bytes -= letter.body_bytes

    def wait(self, letter: DeadLetter, now: float) -> None:
        """Queue a letter that has not arrived for another attempt."""
        self._waiting.append(letter)
        self.due = min(self.due, now + SEND_AGAIN_AFTER)

    def pop_unsent(self) -> deque[DeadLetter]:
        """Take all waiting letters, to send them again."""
        taken, self._waiting = self._waiting, deque()
        self.due = NEVER
        return taken
