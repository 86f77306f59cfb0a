"""Scheduled tasks of one mock connection's channels, and its deadline."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

MAX_LATER = 100_000
"""Scheduled tasks of one connection; further ones are performed at once."""

Task_contra = TypeVar("Task_contra", contravariant=True)


class Performer(Protocol[Task_contra]):
    """A channel or session of a mock."""

    is_over: bool

    def perform(self, task: Task_contra, now: float) -> None:
        """Perform a due task."""


class _Later(NamedTuple):
    when: float
    order: int
    number: int
    performer: Performer[Any]
    task: Any


Task = TypeVar("Task")


class LaterTasks(Generic[Task]):
    """Tasks ordered by time, then by recorded order. The client must have progressed by `deadline`, if it is set."""

    def __init__(self, deadline: float) -> None:
        self.deadline: float | None = deadline
        self._tasks: list[_Later] = []
        self._numbers = count()

    def add(self, when: float, order: int, performer: Performer[Task], task: Task, now: float) -> None:
        """Schedule a task for a time."""
        if when <= now or len(self._tasks) >= MAX_LATER:
            when = now
        heapq.heappush(self._tasks, _Later(when, order, next(self._numbers), performer, task))

    def end(self, deadline: float) -> None:
        """Drop all tasks of a closing connection, and set the deadline of the close."""
        self._tasks.clear()
        self.deadline = deadline

    def perform_next(self, now: float) -> bool:
        """Perform the next due task; return whether there was one."""
        if not self._tasks or self._tasks[0].when > now:
            return False
        due = heapq.heappop(self._tasks)
        if not due.performer.is_over:
            due.performer.perform(due.task, now)
        return True

    def is_late(self, now: float) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and now >= self.deadline

    def wake_at(self, now: float, heartbeat: float) -> float:
        """Return when to check again; `heartbeat` is the interval in seconds, 0 without heartbeats."""
        times = [] if self.deadline is None else [self.deadline]
        if self._tasks:
            times.append(self._tasks[0].when)
        if heartbeat:
            times.append(now + heartbeat / 4)
        return min(times, default=float("inf"))
