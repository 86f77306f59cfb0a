"""How fast packets are asked for, by the share of the processor that they take."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.feed_pace import (
    BURST,
    FRESH,
    LATE,
    LONGEST_PAUSE,
    PATIENCE,
    PATIENT_BATCHES,
    PATIENT_FRAMES,
    SAMPLING_SHARE,
    SHARE,
    WINDOW,
    FeedPace,
)

pytestmark = pytest.mark.once


class Paced:
    """A feed: time passes, and work takes its part of it."""

    def __init__(self) -> None:
        self.now = self.worked = 100.0
        self.pace = FeedPace(lambda: self.now, lambda: self.worked)

    def work(self, seconds: float) -> float:
        self.now += seconds
        self.worked += seconds
        pause = self.pace.pause()
        self.now += pause
        return pause


def test_it_takes_its_share_where_there_is_more_than_that() -> None:
    feed = Paced()
    began = feed.worked
    for _ in range(10_000):
        feed.work(0.01)
    assert feed.worked - began == pytest.approx(SHARE * (feed.now - 100) + BURST, rel=0.01)


def test_what_takes_less_never_waits() -> None:
    feed = Paced()
    for _ in range(1_000):
        assert feed.work(0.01) == 0.0
        feed.now += 0.035


def test_where_far_more_passes_it_takes_less_until_there_is_less() -> None:
    """A frame takes a millisecond: 250 a second could be shown. What keeps us from work makes no difference."""
    feed = Paced()
    shares = []
    for passes, shown in ((1_000, 250), (1_000, 20), (1_400, 50), (1_200, 50), (100_000, 1), (50, 50)):
        feed.pace.shown += shown
        feed.pace.lost += passes - shown
        feed.pace.took += shown / 1000
        feed.worked += shown / 1000
        feed.now += WINDOW * (1 if passes > shown else 2)
        feed.pace.pause()
        shares.append(feed.pace.share)
    assert shares == [SHARE, SHARE, SAMPLING_SHARE, SHARE, SAMPLING_SHARE, SHARE]


def test_costs_that_no_frame_causes_do_not_count_as_those_of_frames() -> None:
    """A frame takes a millisecond, and a thousand pass each second: four times as many as could be shown."""
    feed = Paced()
    for passes, shown in ((100_000, 10), (1_000, 10)):
        feed.pace.shown += shown
        feed.pace.lost += passes - shown
        feed.pace.took += shown / 1000
        feed.worked += 0.04 + shown / 1000
        feed.now += WINDOW
        feed.pace.pause()
    assert feed.pace.share == SHARE


def test_of_far_more_it_takes_less() -> None:
    feed = Paced()
    feed.work(2 * BURST)
    began, worked = feed.now, feed.worked
    while feed.now < began + 100:
        feed.pace.shown += 1
        feed.pace.lost += 1_000
        feed.pace.took += 0.01
        feed.work(0.01)
    assert feed.worked - worked < 100 * SAMPLING_SHARE + SHARE * 2 * WINDOW


def test_a_burst_is_worked_off_at_once_again_after_it_was_quiet() -> None:
    feed = Paced()
    for _ in range(2):
        assert feed.work(BURST) == 0.0
        assert feed.work(BURST) == LONGEST_PAUSE
        feed.now += 100


def test_what_others_take_does_not_stop_it() -> None:
    feed = Paced()
    for _ in range(10):
        feed.worked += 100
        assert feed.work(0.01) <= LONGEST_PAUSE


def test_what_is_late_is_skipped_once_it_stays_so() -> None:
    feed = Paced()
    many = iter(range(0, 100 * PATIENT_FRAMES, PATIENT_FRAMES))
    for _ in range(3):
        for _ in range(PATIENT_BATCHES - 1):
            assert feed.pace.max_age(LATE + 0.1, next(many)) is None
            feed.now += PATIENCE
        assert feed.pace.max_age(LATE + 0.1, next(many)) == FRESH
    for _ in range(PATIENT_BATCHES):
        assert feed.pace.max_age(LATE + 0.1, next(many)) is None
    feed.now += PATIENCE
    assert feed.pace.max_age(LATE - 0.1, next(many)) is None
    assert feed.pace.max_age(LATE + 0.1, next(many)) is None


def test_few_large_frames_are_read_however_late_they_are() -> None:
    feed = Paced()
    for frames in range(PATIENT_FRAMES):
        assert feed.pace.max_age(LATE + 0.1, frames) is None
        feed.now += PATIENCE
    assert feed.pace.max_age(LATE + 0.1, PATIENT_FRAMES) == FRESH
