"""Samples of one object: the numbers at any time, and what is left of them as they age."""

from __future__ import annotations

from amqproxy.management.statistics.series import COARSE_SECONDS, FINE_SECONDS, INTERVAL, LEAST, THINNED_FROM, Series

NOW = 1_000_000_000


def test_numbers_hold_until_the_next_sample() -> None:
    series = Series((0, 0))
    series.add(NOW, (1, -2))
    series.add(NOW + 20, (3, 4))
    assert series.at(NOW - 1) == (0, 0)
    assert series.at(NOW) == series.at(NOW + 19) == (1, -2)
    assert series.at(NOW + 20) == series.numbers == (3, 4)
    series.add(NOW + 20, (5, 6))
    assert (len(series), series.numbers, series.last) == (2, (5, 6), NOW + 20)


def test_old_samples_are_thinned_out_and_their_numbers_stay_right() -> None:
    series = Series((0,))
    times = range(NOW, NOW + 2 * COARSE_SECONDS, INTERVAL)
    for time in times:
        series.add(time, (time,))
        assert len(series) < 2 * THINNED_FROM
    end = times[-1]
    for time in range(end - FINE_SECONDS + INTERVAL, end, INTERVAL):
        assert series.at(time) == (time,)
    for time in range(end - COARSE_SECONDS + 120, end, 60):
        assert time - 60 <= series.at(time)[0] <= time


def test_two_samples_stay_for_a_rate() -> None:
    series = Series((0,))
    for time in range(5):
        series.add(NOW + INTERVAL * time, (time,))
    while series.drop_oldest():
        pass
    assert len(series) == LEAST
    assert series.at(NOW) == (2,)
