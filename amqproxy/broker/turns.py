"""Whose turn it is among the consumers of a queue. On the way of every delivery."""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqproxy.broker.consumer import Consumer


class Turns:
    """Those of the highest priority that can take, each in turn.

    A consumer that is found unable to take is left out, as `is_blocked`, until it is put back by `add`.
    """

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[tuple[int, deque[Consumer]]] = []

    def add(self, consumer: Consumer) -> None:
        """Let a consumer stand in line, behind all of its priority."""
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
        """Forget a consumer, wherever it stands."""
        for priority, line in self._lines:
            if priority == consumer.priority and not consumer.is_blocked:
                line.remove(consumer)
        consumer.is_blocked = False

    def next(self) -> Consumer | None:
        """Who is to be handed the next message; it goes to the end of its line."""
        lines = self._lines
        while lines:
            line = lines[0][1]
            while line:
                consumer = line[0]
                if consumer.is_ready():
                    if len(line) > 1:
                        line.rotate(-1)
                    return consumer
                line.popleft()
                consumer.is_blocked = True
            del lines[0]
        return None


class SingleTurn(Turns):
    """One consumer gets everything; when it goes, the next by priority, then by age. x-single-active-consumer."""

    __slots__ = ("_waiting", "active")

    def __init__(self) -> None:
        super().__init__()
        self.active: Consumer | None = None
        self._waiting: dict[Consumer, None] = {}

    def add(self, consumer: Consumer) -> None:
        consumer.is_blocked = False
        if self.active is None:
            self.active = consumer
        elif consumer is not self.active:
            self._waiting[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        consumer.is_blocked = False
        self._waiting.pop(consumer, None)
        if consumer is self.active:
            self.active = max(self._waiting, key=attrgetter("priority"), default=None)
            if self.active is not None:
                del self._waiting[self.active]

    def next(self) -> Consumer | None:
        active = self.active
        if active is None or active.is_ready():
            return active
        active.is_blocked = True
        return None
