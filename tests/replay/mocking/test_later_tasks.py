"""Tasks at their times."""

from __future__ import annotations

import pytest

from amqproxy.replay.mocking import later_tasks
from amqproxy.replay.mocking.later_tasks import LaterTasks


class Performer:
    """Notes what it is to do, and when."""

    def __init__(self) -> None:
        self.is_over = False
        self.done: list[tuple[str, float]] = []

    def perform(self, task: str, now: float) -> None:
        self.done.append((task, now))


def performed(tasks: LaterTasks[str], performer: Performer, now: float) -> list[str]:
    performer.done.clear()
    while tasks.perform_next(now):
        pass
    return [task for task, _ in performer.done]


def test_tasks_are_done_by_their_time_and_order_and_then_as_they_came() -> None:
    tasks, performer = LaterTasks[str](100.0), Performer()
    for when, order, task in ((3.0, 0, "late"), (2.0, 5, "c"), (2.0, 1, "a"), (2.0, 1, "b"), (0.5, 9, "at once")):
        tasks.add(when, order, performer, task, 1.0)
    assert tasks.wake_at(1.0, 0) == 1.0
    assert performed(tasks, performer, 1.0) == ["at once"]
    assert performed(tasks, performer, 2.5) == ["a", "b", "c"]
    assert tasks.wake_at(2.5, 0) == 3.0
    tasks.end(5.0)
    assert performed(tasks, performer, 4.0) == []
    assert tasks.wake_at(4.0, 0) == 5.0


def test_what_is_over_does_nothing_more() -> None:
    tasks, performer = LaterTasks[str](100.0), Performer()
    tasks.add(1.0, 0, performer, "a", 0.0)
    performer.is_over = True
    assert tasks.perform_next(1.0)
    assert performer.done == []


def test_above_the_bound_they_are_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_tasks, "MAX_LATER", 1)
    tasks, performer = LaterTasks[str](100.0), Performer()
    tasks.add(5.0, 0, performer, "later", 0.0)
    tasks.add(5.0, 0, performer, "one too many", 0.0)
    assert performed(tasks, performer, 0.0) == ["one too many"]


def test_the_deadline_and_heartbeats() -> None:
    tasks = LaterTasks[str](10.0)
    assert (tasks.is_late(9.9), tasks.is_late(10.0)) == (False, True)
    assert (tasks.wake_at(1.0, 0), tasks.wake_at(1.0, 4.0)) == (10.0, 2.0)
    tasks.deadline = None
    assert not tasks.is_late(1e9)
    assert tasks.wake_at(1.0, 0) == float("inf")
