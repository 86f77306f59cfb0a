"""What a mock does on one connection later: tasks of its channels at their times, and its deadline."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

MAX_LATER = 100_000
"""Tasks of one connection that wait for their time; those beyond are done at once."""

Task_contra = TypeVar("Task_contra", contravariant=True)


class Performer(Protocol[Task_contra]):
    """A channel or session of a mock."""

    is_over: bool

    def perform(self, task: Task_contra, now: float) -> None:
        """Do what is due."""


class _Later(NamedTuple):
    when: float
    order: int
    number: int
    performer: Performer[Any]
    task: Any


Task = TypeVar("Task")


class LaterTasks(Generic[Task]):
    """Tasks by their time, and then by their order. By `deadline` the client must have gone on; None: it need not."""

    def __init__(self, deadline: float) -> None:
        self.deadline: float | None = deadline
        self._tasks: list[_Later] = []
        self._numbers = count()

    def add(self, when: float, order: int, performer: Performer[Task], task: Task, now: float) -> None:
        """Have a task done at that time."""
        if when <= now or len(self._tasks) >= MAX_LATER:
            when = now
        heapq.heappush(self._tasks, _Later(when, order, next(self._numbers), performer, task))

    def end(self, deadline: float) -> None:
        """Do none of them: the connection is closed, by a deadline."""
        self._tasks.clear()
        self.deadline = deadline

    def perform_next(self, now: float) -> bool:
        """Do the next task that is due by now; is there one?"""
        if not self._tasks or self._tasks[0].when > now:
            return False
        due = heapq.heappop(self._tasks)
        if not due.performer.is_over:
            due.performer.perform(due.task, now)
        return True

    def is_late(self, now: float) -> bool:
        """Is the deadline over?"""
        return self.deadline is not None and now >= self.deadline

    def wake_at(self, now: float, heartbeat: float) -> float:
        """When to look again, with heartbeats of so many seconds; 0: there are none."""
        times = [] if self.deadline is None else [self.deadline]
        if self._tasks:
            times.append(self._tasks[0].when)
        if heartbeat:
            times.append(now + heartbeat / 4)
        return min(times, default=float("inf"))
