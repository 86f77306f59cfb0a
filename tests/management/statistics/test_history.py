"""The history of all objects: new ones, those that others replaced, and the bounds."""

from __future__ import annotations

import pytest

from amqproxy.management.statistics import history as module
from amqproxy.management.statistics.history import History
from amqproxy.management.statistics.series import COARSE_SECONDS, INTERVAL

NOW = 1_000_000_000

KEY = ("exchanges", "/", "x")


def sampled(history: History, step: int, *numbers: int, key: tuple[str, str, str] = KEY) -> None:
    history.begin(NOW + INTERVAL * step + 0.4)
    history.add(key, numbers, is_new=step > 0)
    history.end()


def test_counts_from_before_the_first_sample_are_no_rate() -> None:
    history = History()
    sampled(history, 0, 1000)
    assert history.of(*KEY).at(NOW - 1) == (1000,)
    sampled(history, 1, 5, key=("exchanges", "/", "new"))
    assert history.of("exchanges", "/", "new").at(NOW) == (0,)
    assert (history.previous, history.last, history.seconds) == (NOW, NOW + INTERVAL, pytest.approx(INTERVAL))


def test_a_count_that_decreases_is_of_another_object() -> None:
    history = History()
    sampled(history, 0, 1000)
    sampled(history, 1, 1)
    assert history.of(*KEY).at(NOW) == (0,)
    assert history.samples == 1
    queue = ("queues", "/", "q")
    sampled(history, 2, 5, 5, 7, key=queue)
    sampled(history, 3, 0, 0, 7, key=queue)
    assert history.of(*queue).at(history.previous) == (5, 5, 7)


def test_samples_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAMPLES", 30)
    history = History()
    for step in range(20):
        history.begin(NOW + INTERVAL * step)
        for number in range(10):
            history.add(("queues", "/", str(number)), (step, 0, step), is_new=step > 0)
        history.end()
    assert history.samples <= 30
    assert history.of("queues", "/", "3").at(history.previous) == (18, 0, 18)


def test_objects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 3)
    history = History()
    for step in range(5):
        sampled(history, step, 1, 0, 1, key=("queues", "/", str(step)))
    sampled(history, 5, 1, 0, 1, key=("queues", "/", "4"))
    assert len(history) == 3
    assert history.of("queues", "/", "0").last == 0
    history.begin(NOW + 2 * COARSE_SECONDS)
    assert (len(history), history.samples) == (3, 0)
    history.add(("queues", "/", "5"), (1, 0, 500), is_new=False)
    history.begin(NOW + 2 * COARSE_SECONDS + INTERVAL)
    assert (len(history), history.samples) == (3, 1)
    assert history.of("queues", "/", "5").at(NOW) == (1, 0, 500)


def test_an_idle_object_keeps_its_numbers_and_has_a_rate_once_it_changes() -> None:
    history = History()
    queue = ("queues", "/", "q")
    sampled(history, 0, 990, 10, 500, key=queue)
    idle = 2 * COARSE_SECONDS // INTERVAL
    sampled(history, idle, 1)
    assert history.of(*queue).at(history.last) == (990, 10, 500)
    assert history.samples == 1
    history.begin(NOW + INTERVAL * (idle + 1) + 0.4)
    history.add(queue, (991, 10, 600), is_new=False)
    history.end()
    assert history.of(*queue).at(history.previous) == (990, 10, 500)
    assert history.of(*queue).at(history.last) == (991, 10, 600)


def test_a_day_of_an_idle_virtual_host_stays() -> None:
    history = History()
    vhost = ("vhosts", "", "/")
    sampled(history, 0, 1, 0, 5, key=vhost)
    sampled(history, 1, 2, 0, 5, key=vhost)
    sampled(history, 2 * COARSE_SECONDS // INTERVAL, 1)
    assert [history.of(*vhost).at(NOW + INTERVAL * step)[0] for step in (0, 1, 2)] == [1, 2, 2]


def test_a_clock_that_is_set_back_leaves_seconds_between_samples() -> None:
    history = History()
    for now, moment in ((NOW, 7.0), (NOW - 3600, 12.5), (NOW - 3600, 17.5), (NOW - 3595, 17.5)):
        history.begin(now, moment)
        history.end()
        assert history.seconds > 0
        assert history.last > history.previous
        if moment == 12.5:
            assert history.seconds == 5.5
