"""Counts of the resources that sessions use: connections, channels, consumers, queues.

A limit on resources keeps one `GroupTotals` for all sessions, with the `GroupTotal` of each group, and a
`ResourceCounts` for each session. A resource counts in its group's total until it is gone: when it is deleted, when its
channel closes, or when the session ends. It counts from the request on, so that many simultaneous requests cannot all
pass; one that the broker then refuses is removed with the channel that the broker closes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from amqproxy.rules.rule import SessionMemory

MAX_EXPECTED = 65_536
"""Answers of one kind that a channel can wait for, as in `amqp091.channel`."""

MADE_BY_BROKER = "amq."
"""How the queues and consumer tags begin that a broker names."""


class CountedResource:
    """One thing that a session holds. Those of one group with the same name are one thing; None: it has none."""

    __slots__ = ("_total", "name")

    def __init__(self, total: GroupTotal, name: Hashable | None = None) -> None:
        self.name = name
        self._total = total
        total.add(self)

    def renamed(self, name: Hashable | None) -> CountedResource:
        """The same under the name that it has been given."""
        held = CountedResource(self._total, name)
        self.release()
        return held

    def release(self) -> None:
        self._total.remove(self)


class GroupTotal:
    """How much one group holds: `count` are the different things."""

    __slots__ = ("_group", "_holders", "_stock", "count")

    def __init__(self, stock: GroupTotals, group: Hashable) -> None:
        self.count = 0
        self._stock = stock
        self._group = group
        self._holders: dict[Hashable, set[CountedResource]] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._holders

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
        """Take a thing out, unless it has been dropped."""
        if held.name is not None:
            holders = self._holders.get(held.name)
            if holders is None or held not in holders:
                return
            holders.remove(held)
            if holders:
                return
            del self._holders[held.name]
        self._subtract()

    def drop(self, name: Hashable) -> None:
        """The thing no longer exists, whichever sessions hold it."""
        if self._holders.pop(name, None) is not None:
            self._subtract()

    def _subtract(self) -> None:
        self.count -= 1
        if not self.count:
            self._stock.forget(self._group, self)


class GroupTotals:
    """The totals of all groups that hold anything."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        self._totals: dict[Hashable, GroupTotal] = {}

    def __len__(self) -> int:
        return len(self._totals)

    def total(self, group: Hashable) -> GroupTotal:
        """The group's total: a new one, which is kept as soon as something is in it, where the group holds nothing."""
        return self._totals.get(group) or GroupTotal(self, group)

    def keep(self, group: Hashable, total: GroupTotal) -> None:
        self._totals[group] = total

    def forget(self, group: Hashable, total: GroupTotal) -> None:
        if self._totals.get(group) is total:
            del self._totals[group]


class ResourceCounts(SessionMemory):
    """What one session holds that one rule counts, by the channel that it goes with (0: the session), and by its label.

    A label identifies a resource on its channel: a consumer tag, or a queue's name.
    """

    __slots__ = ("_asked", "_expected", "_held")

    def __init__(self) -> None:
        self._held: dict[int, dict[Hashable, CountedResource]] = {}
        self._asked: dict[int, deque[tuple[Hashable, CountedResource]]] = {}
        self._expected: dict[int, deque[str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values())) + sum(map(len, self._asked.values()))

    def holds(self, channel: int, label: Hashable) -> bool:
        return label in self._held.get(channel, ())

    def hold(self, channel: int, label: Hashable, total: GroupTotal, name: Hashable | None = None) -> None:
        """Count a thing, unless it is held already."""
        held = self._held.setdefault(channel, {})
        if label not in held:
            held[label] = CountedResource(total, name)

    def ask(self, channel: int, label: Hashable, total: GroupTotal, name: Hashable | None = None) -> None:
        """Count a thing that the broker has been asked for; "" is the label where the broker is to give one."""
        self._asked.setdefault(channel, deque()).append((label, CountedResource(total, name)))

    def receive(self, channel: int, label: str) -> CountedResource | None:
        """The oldest thing that was asked for under this label, or under none if it is one of the broker's making.

        It counts until it is released.
        """
        asked = self._asked.get(channel, ())
        for wanted in (label, "") if label.startswith(MADE_BY_BROKER) else (label,):
            for entry in asked:
                if entry[0] == wanted:
                    self._asked[channel].remove(entry)
                    return entry[1]
        return None

    def keep(self, channel: int, label: Hashable, held: CountedResource) -> None:
        """Hold what has been received."""
        before = self._held.setdefault(channel, {}).pop(label, None)
        self._held[channel][label] = held
        if before is not None:
            before.release()

    def release(self, channel: int, label: Hashable) -> None:
        """Give a thing back, if it is held."""
        held = self._held.get(channel, {}).pop(label, None)
        if held is not None:
            held.release()

    def expect(self, channel: int, label: str) -> None:
        """Note the name that the next reply is about, which has none itself; replies come in order of requests."""
        waiting = self._expected.setdefault(channel, deque())
        if len(waiting) < MAX_EXPECTED:
            waiting.append(label)

    def expected(self, channel: int) -> str:
        """The name that the received reply is about; "" where it is unknown."""
        waiting = self._expected.get(channel)
        return waiting.popleft() if waiting else ""

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
