"""Turns of the consumers of a queue. On the path of every delivery."""

from __future__ import annotations

from collections import deque

from amqproxy.broker.queues.consumer import Consumer


class RoundRobin:
    """Turns of the consumers of the highest priority that can take messages.

    A consumer that is found unable to take is left out, as `is_blocked`, until it is put back by `add`.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[tuple[int, deque[Consumer]]] = []

    def add(self, consumer: Consumer) -> None:
        """Add a consumer behind all of its priority."""
        consumer.is_blocked = False
        for place, (priority, line) in enumerate(self._lines):
            if priority == consumer.priority:
                line.append(consumer)
                return
            if priority < consumer.priority:
                self._lines.insert(place, (consumer.priority, deque((consumer,))))
                return
        self._lines.append((consumer.priority, deque((consumer,))))

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, wherever it stands."""
        for priority, line in self._lines:
            if priority == consumer.priority and not consumer.is_blocked:
                line.remove(consumer)
        consumer.is_blocked = False

    def wait_no_more(self) -> None:
        """Give the next consumer its turn, whatever another one has not settled."""

    def next(self) -> Consumer | None:
        """Return the consumer of the next message, and move it to the end of its line."""
        lines = self._lines
        while lines:
            line = lines[0][1]
            while line:
                consumer: Consumer = line[0]
                if consumer.is_ready():
                    if len(line) > 1:
                        line.rotate(-1)
                    return consumer
                line.popleft()
                consumer.is_blocked = True
            del lines[0]
        return None


class SingleActiveConsumer(RoundRobin):
    """Turns for x-single-active-consumer: one gets everything until it is removed, then the next by priority and age.

    As in RabbitMQ, if the removed consumer has not settled all of its messages, the next one waits: until all of them
    are settled, or the queue has another reason to proceed (`wait_no_more`). So messages that come back are delivered
    in order.
    """

    __slots__ = ("_predecessor", "_waiting", "active")

    def __init__(self) -> None:
        super().__init__()
        self.active: Consumer | None = None
        self._predecessor: Consumer | None = None
        self._waiting: dict[int, dict[Consumer, None]] = {}
        """Waiting consumers by priority."""

    def add(self, consumer: Consumer) -> None:
        consumer.is_blocked = False
        if self.active is None:
            self.active = consumer
        elif consumer is not self.active:
            self._waiting.setdefault(consumer.priority, {})[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        consumer.is_blocked = False
        self._wait_not(consumer)
        if consumer is self.active:
            self._predecessor = consumer
            self.active = next(iter(self._waiting[max(self._waiting)])) if self._waiting else None
            if self.active is not None:
                self._wait_not(self.active)

    def _wait_not(self, consumer: Consumer) -> None:
        waiting = self._waiting.get(consumer.priority)
        if waiting is not None:
            waiting.pop(consumer, None)
            if not waiting:
                del self._waiting[consumer.priority]

    def wait_no_more(self) -> None:
        self._predecessor = None

    def next(self) -> Consumer | None:
        if self._predecessor is not None:
            if self._predecessor.unacked:
                return None
            self._predecessor = None
        active = self.active
        if active is None or active.is_ready():
            return active
        active.is_blocked = True
        return None
