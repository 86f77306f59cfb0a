"""What is due, and when."""

import math
import weakref

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.broker.schedule import Schedule

STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20) | st.just(math.inf)), max_size=200)


@given(STEPS, st.integers(0, 20))
def test_each_thing_once_at_its_last_time(steps: list[tuple[int, float]], now: int) -> None:
    schedule: Schedule[int] = Schedule()
    expected: dict[int, float] = {}
    for thing, when in steps:
        schedule.set(thing, when)
        expected.pop(thing, None)
        if when < math.inf:
            expected[thing] = when
    assert schedule.next == min(expected.values(), default=math.inf)
    taken = schedule.pop_due(now)
    assert sorted(taken) == sorted(thing for thing, when in expected.items() if when <= now)
    assert [expected[thing] for thing in taken] == sorted(expected[thing] for thing in taken)
    assert len(schedule) == len(expected) - len(taken)


def test_what_is_moved_often_takes_no_room() -> None:
    schedule: Schedule[str] = Schedule()
    for when in range(10_000):
        schedule.set("one", 100_000 - when)
    assert len(schedule._heap) < 1000
    schedule.drop("one")
    assert schedule.next == math.inf


def test_what_is_due_first_of_all_is_reported() -> None:
    called_with: list[float] = []
    schedule: Schedule[str] = Schedule(called_with.append)
    for thing, when in [("a", 5.0), ("b", 7.0), ("b", 6.0), ("a", 4.0), ("c", math.inf), ("c", 3.0), ("c", 9.0)]:
        schedule.set(thing, when)
    assert called_with == [5.0, 4.0, 3.0]


def test_nothing_of_what_is_dropped_is_kept() -> None:
    class Thing:
        """Something that can be looked after."""

    schedule: Schedule[Thing] = Schedule()
    things = [Thing() for _ in range(3)]
    for thing in things:
        schedule.set(thing, 10.0)
    kept = [weakref.ref(thing) for thing in things]
    schedule.drop(things[0])
    schedule.set(things[1], math.inf)
    schedule.set(things[2], 20.0)
    del things, thing
    assert [each() is None for each in kept] == [True, True, False]
