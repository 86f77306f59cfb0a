"""Counts of the resources that sessions use: connections, channels, consumers, queues.

A limit on resources keeps one `GroupTotals` for all sessions, with the `GroupTotal` of each group, and one
`ResourceCounts` for each session. A resource counts in the total of its group until it is deleted, its channel closes,
or the session ends. It counts from the request on, so that simultaneous requests cannot all pass; if the broker refuses
the request, the resource is removed with the channel that the broker closes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from enum import Enum, auto

from amqproxy.rules.matching.operations import spellings
from amqproxy.rules.rule import SessionMemory

MAX_EXPECTED = 65_536
"""Maximum number of expected answers of one kind per channel, as in `amqp091.channel`."""

MAX_UNANSWERED = 1024
"""Maximum number of no-wait deletes per channel that wait for a later answer to prove them."""

MADE_BY_BROKER = "amq."
"""Prefix of the queue names and consumer tags that the broker generates."""


class Request(Enum):
    """Queue requests whose answers a channel waits for."""

    DECLARE = auto()
    DELETE = auto()
    UNANSWERED_DELETE = auto()
    """With `no_wait`: if the broker refuses it, it closes the channel, so that any later answer proves success."""


class ExpectedAnswer:
    """A request without an answer; for a delete, the queue, and the age below which holds of it end with it."""

    __slots__ = ("age", "queue", "request")

    def __init__(self, request: Request, queue: str = "", age: int = 0) -> None:
        self.request = request
        self.queue = queue
        self.age = age


class CountedResource:
    """A resource that a session holds; holds of one group with the same name are one resource, `None` means unnamed.

    `age` orders the holds of a rule, since a queue may be declared again while its delete is in flight.
    """

    __slots__ = ("_total", "age", "name")

    def __init__(self, total: GroupTotal, name: Hashable | None = None) -> None:
        self.name = name
        self.age = total.next_age()
        self._total = total
        total.add(self)

    def renamed(self, name: Hashable | None) -> CountedResource:
        """Return the resource under its assigned name."""
        if name == self.name:
            return self
        held = CountedResource(self._total, name)
        self.release()
        return held

    def release(self) -> None:
        self._total.remove(self)


class GroupTotal:
    """Resources of one group; `count` is the number of distinct ones."""

    __slots__ = ("_group", "_holders", "_stock", "count")

    def __init__(self, stock: GroupTotals, group: Hashable) -> None:
        self.count = 0
        self._stock = stock
        self._group = group
        self._holders: dict[Hashable, set[CountedResource]] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._holders

    def next_age(self) -> int:
        """Return the age of the next hold."""
        return self._stock.next_age()

    def add(self, held: CountedResource) -> None:
        if held.name is not None:
            holders = self._holders.setdefault(held.name, set())
            holders.add(held)
            if len(holders) > 1:
                return
        self.count += 1
        if self.count == 1:
            self._stock.keep(self._group, self)

    def remove(self, held: CountedResource) -> None:
        """Remove a resource, unless it was dropped."""
        if held.name is not None:
            holders = self._holders.get(held.name)
            if holders is None or held not in holders:
                return
            holders.remove(held)
            if holders:
                return
            del self._holders[held.name]
        self._subtract()

    def drop(self, name: Hashable, age: int) -> None:
        """Remove a resource that no longer exists from all sessions; holds from `age` on belong to its successor."""
        holders = self._holders.get(name)
        if holders is None:
            return
        for each in [each for each in holders if each.age < age]:
            self.remove(each)

    def _subtract(self) -> None:
        self.count -= 1
        if not self.count:
            self._stock.forget(self._group, self)


class GroupTotals:
    """Totals of all groups that hold anything."""

    __slots__ = ("_ages", "_totals")

    def __init__(self) -> None:
        self._totals: dict[Hashable, GroupTotal] = {}
        self._ages = 0

    def __len__(self) -> int:
        return len(self._totals)

    def total(self, group: Hashable) -> GroupTotal:
        """Return the total of a group; a new total is kept once something is added to it."""
        return self._totals.get(group) or GroupTotal(self, group)

    def next_age(self) -> int:
        """Return a number above all that were returned before."""
        self._ages += 1
        return self._ages

    def keep(self, group: Hashable, total: GroupTotal) -> None:
        self._totals[group] = total

    def forget(self, group: Hashable, total: GroupTotal) -> None:
        if self._totals.get(group) is total:
            del self._totals[group]


class ResourceCounts(SessionMemory):
    """Resources that one session holds under one rule, by channel (0: the session) and label.

    A label identifies a resource on its channel: a consumer tag, or a queue name.
    """

    __slots__ = ("_asked", "_expected", "_held")

    def __init__(self) -> None:
        self._held: dict[int, dict[Hashable, CountedResource]] = {}
        self._asked: dict[int, deque[tuple[str, CountedResource]]] = {}
        self._expected: dict[int, deque[ExpectedAnswer]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values())) + sum(map(len, self._asked.values()))

    def holds(self, channel: int, label: Hashable) -> bool:
        return label in self._held.get(channel, ())

    def hold(self, channel: int, label: Hashable, total: GroupTotal, name: Hashable | None = None) -> None:
        """Count a resource, unless it is held already."""
        held = self._held.setdefault(channel, {})
        if label not in held:
            held[label] = CountedResource(total, name)

    def ask(self, channel: int, label: str, total: GroupTotal, name: Hashable | None = None) -> None:
        """Count a requested resource; label "" if the broker generates the name."""
        self._asked.setdefault(channel, deque()).append((label, CountedResource(total, name)))

    def receive(self, channel: int, label: str) -> CountedResource | None:
        """Return the oldest resource requested under this label, or without a label if the broker generated it.

        It counts until it is released. RabbitMQ answers with the name without line breaks.
        """
        asked = self._asked.get(channel, ())
        for wanted in (label, "") if label.startswith(MADE_BY_BROKER) else (label,):
            for entry in asked:
                if wanted in spellings(entry[0]):
                    self._asked[channel].remove(entry)
                    return entry[1]
        return None

    def keep(self, channel: int, label: Hashable, held: CountedResource) -> None:
        """Hold a received resource."""
        before = self._held.setdefault(channel, {}).pop(label, None)
        self._held[channel][label] = held
        if before is not None:
            before.release()

    def release(self, channel: int, label: Hashable, age: float = math.inf) -> None:
        """Release a resource that has been held since before `age`."""
        held = self._held.get(channel, {}).get(label)
        if held is not None and held.age < age:
            del self._held[channel][label]
            held.release()

    def expect(self, channel: int, answer: ExpectedAnswer) -> None:
        """Note a request; answers come in the order of requests, and the answer to a delete does not name the queue."""
        waiting = self._expected.setdefault(channel, deque())
        most = MAX_UNANSWERED if answer.request is Request.UNANSWERED_DELETE else MAX_EXPECTED
        if len(waiting) < most:
            waiting.append(answer)

    def deletes_proven(self, channel: int, request: Request) -> list[ExpectedAnswer]:
        """Remove and return the deletes that the answer to the oldest `request` proves: all before it."""
        waiting = self._expected.get(channel, ())
        if not any(each.request is request for each in waiting):
            return []
        proven = []
        while True:
            answer = self._expected[channel].popleft()
            if answer.request is not Request.DECLARE:
                proven.append(answer)
            if answer.request is request:
                return proven

    def channel_closed(self, number: int) -> None:
        """Release all resources of a channel."""
        for held in self._held.pop(number, {}).values():
            held.release()
        for _, held in self._asked.pop(number, ()):
            held.release()
        self._expected.pop(number, None)

    def session_over(self) -> None:
        """Release all resources."""
        for channel in {*self._held, *self._asked}:
            self.channel_closed(channel)
