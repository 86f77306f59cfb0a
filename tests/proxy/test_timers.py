"""What is to be done later, by a clock that the test reads."""

import pytest

from amqproxy.proxy.timers import Timers


def done_by(timers: Timers, now: float) -> None:
    while (do := timers.take_due(now)) is not None:
        do()


def test_what_is_due_is_done_in_its_order_and_once():
    timers, done = Timers(), []
    for when, name in [(2.0, "b"), (1.0, "a"), (2.0, "c"), (3.0, "d")]:
        timers.at(when, lambda name=name: done.append(name))
    assert timers.next_deadline == 1.0
    done_by(timers, 2.0)
    done_by(timers, 2.0)
    assert done == ["a", "b", "c"]
    assert timers.next_deadline == 3.0
    assert len(timers) == 1


def test_what_is_cancelled_is_not_done():
    timers, done = Timers(), []
    first = timers.at(1.0, lambda: done.append(1))
    timers.at(2.0, lambda: done.append(2))
    first.cancel()
    first.cancel()
    assert timers.next_deadline == 2.0
    assert len(timers) == 1
    done_by(timers, 5.0)
    assert done == [2]
    assert timers.next_deadline == float("inf")
    assert len(timers) == 0


def test_what_is_done_cannot_be_cancelled_any_more():
    timers = Timers()
    timer = timers.at(1.0, lambda: timer.cancel())
    done_by(timers, 1.0)
    timer.cancel()
    assert len(timers) == 0


def test_cancelled_timers_do_not_pile_up_behind_one_that_is_not():
    timers = Timers()
    timers.at(1.0, lambda: None)
    for _ in range(10_000):
        timers.at(2.0, lambda: None).cancel()
        assert len(timers._heap) < 200
    assert len(timers) == 1


def test_there_is_a_most(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.timers.MAX_TIMERS", 2)
    timers = Timers()
    timer = timers.at(1.0, lambda: None)
    timers.at(1.0, lambda: None)
    with pytest.raises(OverflowError):
        timers.at(1.0, lambda: None)
    timer.cancel()
    timers.at(1.0, lambda: None)
