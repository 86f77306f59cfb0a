"""Commands of one peer on a session that await their results or completions."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.amqp010.methods import Command
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.requests import REQUEST_COST, TABLE_COST

MAX_PENDING = 1024
"""Limit on the unanswered commands of one peer; those beyond it are not remembered."""

MAX_RECENT = 32
"""Limit on the recent commands of one peer that are remembered as possible causes of an exception."""


class PendingCommand(NamedTuple):
    """A command and the time at which it was sent."""

    ts_ns: int
    command: Command
    cost: int


class PendingCommands:
    """Unanswered commands by position, the oldest first, and the last commands sent, answered or not."""

    __slots__ = ("_budget", "_pending", "_recent")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pending: dict[int, PendingCommand] = {}
        self._recent: dict[int, PendingCommand] = {}

    def note(self, position: int, command: Command, size: int) -> None:
        """Remember a command as one of the last `MAX_RECENT`, whether or not it awaits an answer."""
        cost = REQUEST_COST + TABLE_COST * size
        if len(self._recent) >= MAX_RECENT:
            self._budget.give(self._recent.pop(next(iter(self._recent))).cost)
        if self._budget.take(cost):
            replaced = self._recent.pop(position, None)
            if replaced is not None:
                self._budget.give(replaced.cost)
            self._recent[position] = PendingCommand(0, command, cost)

    def add(self, position: int, ts_ns: int, command: Command, size: int) -> bool:
        """Await the answer to a command; return `False` if it is not remembered, or is awaited already."""
        cost = REQUEST_COST + TABLE_COST * size
        if position in self._pending or len(self._pending) >= MAX_PENDING or not self._budget.take(cost):
            return False
        self._pending[position] = PendingCommand(ts_ns, command, cost)
        return True

    @property
    def in_order(self) -> list[tuple[int, PendingCommand]]:
        """The unanswered commands with the position of each, in order."""
        return sorted(self._pending.items())

    def take(self, position: int) -> PendingCommand | None:
        """Remove and return the unanswered command at a position; `None` if there is none."""
        found = self._pending.pop(position, None)
        if found is not None:
            self._budget.give(found.cost)
        return found

    def take_all(self, positions: range) -> list[tuple[int, PendingCommand]]:
        """Remove and return the unanswered commands at these positions, in order."""
        if not self._pending:
            return []
        if len(positions) <= len(self._pending):
            wanted = [each for each in positions if each in self._pending]
        else:
            wanted = sorted([each for each in self._pending if each in positions])
        return [(each, found) for each in wanted if (found := self.take(each)) is not None]

    def find(self, position: int) -> Command | None:
        """Return the command at a position; `None` if it is not remembered."""
        found = self._pending.get(position) or self._recent.get(position)
        return None if found is None else found.command

    def clear(self) -> list[PendingCommand]:
        """Forget all commands, and return the unanswered ones, in order."""
        for recent in self._recent.values():
            self._budget.give(recent.cost)
        self._recent.clear()
        found = [self._pending[each] for each in sorted(self._pending)]
        for each in found:
            self._budget.give(each.cost)
        self._pending.clear()
        return found
