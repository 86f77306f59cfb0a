"""What is published and accepted in a transaction, until that is committed or rolled back: of tx, or of dtx."""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain

from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.broker.amqp010.session_deliveries import SessionDeliveries
from amqproxy.broker.amqp010.session_publisher import SessionPublisher
from amqproxy.broker.message import Message
from amqproxy.broker.queues.consumer import ACK, GIVE_BACK, ConsumedQueue, QueueEntry
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.work import Quantum

MOST_OPERATIONS = 1_000_000
MOST_BYTES = 256 * 1024 * 1024
"""What one transaction may hold."""


class WorkUnit:
    """Messages that are not in their queues yet, and messages that are accepted and not gone yet."""

    def __init__(self, quantum: Quantum) -> None:
        self._quantum = quantum
        self._published: list[tuple[Message, tuple[Queue, ...]]] = []
        self._accepted: dict[ConsumedQueue, list[QueueEntry]] = {}
        self._count = self._size = 0

    def __bool__(self) -> bool:
        return bool(self._published or self._accepted)

    def publish(self, message: Message, queues: tuple[Queue, ...]) -> None:
        """Publish it to these with the commit."""
        self._grow(len(message.body))
        self._published.append((message, queues))

    def accept(self, entries: list[QueueEntry]) -> None:
        """Settle these with the commit."""
        for entry in entries:
            self._grow(0)
            self._accepted.setdefault(entry.queue, []).append(entry)

    def _grow(self, size: int) -> None:
        self._count += 1
        self._size += size
        if self._count > MOST_OPERATIONS or self._size > MOST_BYTES:
            raise ResourceLimitExceeded(
                f"a transaction of more than {MOST_OPERATIONS} messages, or of {MOST_BYTES} bytes"
            )

    def committing(self, publisher: SessionPublisher, now: float) -> Generator[None, float, float]:
        """Let all of it happen, in steps."""
        published, self._published = self._published, []
        published.reverse()
        while published:
            message, queues = published.pop()
            now = yield from publisher.enqueuing(message, queues, now)
            if self._quantum.spend(1):
                now = yield
        return (yield from self._settling(ACK, now))

    def rolling_back(self, deliveries: SessionDeliveries, now: float) -> Generator[None, float, float]:
        """Let nothing of it happen, in steps: what was accepted is held by its session again."""
        self._published = []
        accepted, self._accepted = self._accepted, {}
        self._count = self._size = 0
        for _ in deliveries.unacked.putting_back(chain.from_iterable(accepted.values()), 64):
            if self._quantum.spend(64):
                now = yield
        return now

    def giving_back(self, now: float) -> Generator[None, float, float]:
        """The same, where no session is to hold it: what was accepted is in its queues again."""
        self._published = []
        return (yield from self._settling(GIVE_BACK, now))

    def _settling(self, outcome: str, now: float) -> Generator[None, float, float]:
        accepted, self._accepted = self._accepted, {}
        self._count = self._size = 0
        for queue, entries in accepted.items():
            if outcome is GIVE_BACK:
                queue.hold_back()
            now = yield from queue.settling(entries, outcome, now)
        return now
