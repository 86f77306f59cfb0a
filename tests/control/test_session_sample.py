"""Sessions that a subscriber is shown which is too slow for all."""

from __future__ import annotations

from collections import Counter

import pytest

from amqproxy.control import session_sample
from amqproxy.control.session_sample import AGAIN_NS, NARROWED_NS, PATIENCE_NS, TURN_NS, WIDENED_NS, SessionSample
from amqproxy.control.tap_ring import Entry, Event
from amqproxy.peer import CLIENT
from amqproxy.taps.note import NOTHING
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from tests.taps.sessions import Session

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _much_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_sample, "FEW", 0)


STATE = ConnectionSnapshot(ts_ns=1, protocol="0-9-1")


class Sampled:
    """A sample of ten sessions, at `now_ns`."""

    def __init__(self, count: int = 10) -> None:
        self.sample = SessionSample()
        self.sessions = [Session(number) for number in range(count)]
        self.now_ns = 1_000 * SECOND

    def entry(self, number: int, event: Event | None = None) -> Entry:
        return Entry(self.now_ns, self.sessions[number], CLIENT, (), NOTHING, event, 0, 0)

    def shows(self, number: int, event: Event | None = None) -> bool:
        return self.sample.shows(self.entry(number, event))

    def shown(self, *, states: bool = False) -> list[int]:
        """Numbers of the sessions that are shown, of all of which an entry passes."""
        if states:
            for number in range(len(self.sessions)):
                self.shows(number, STATE)
        return [number for number in range(len(self.sessions)) if self.shows(number)]

    def lose(self, times: int) -> None:
        for _ in range(times):
            self.now_ns += NARROWED_NS
            self.sample.narrow(self.now_ns)


def test_all_are_shown_who_keep_up() -> None:
    sampled = Sampled()
    assert sampled.shown() == list(range(10))
    assert (sampled.sample.most, sampled.sample.active) == (None, 10)


def test_what_lost_something_is_withheld_until_its_state_is_known() -> None:
    sampled = Sampled()
    sampled.sample.miss(sampled.entry(3))
    assert 3 not in sampled.shown()
    assert sampled.sample.awaits_state
    assert sampled.shows(3, STATE)
    assert sampled.shows(3)


def test_what_has_no_state_is_shown_after_some_seconds() -> None:
    sampled = Sampled()
    sampled.sample.miss(sampled.entry(3))
    sampled.now_ns += SECOND
    assert not sampled.shows(3)
    sampled.now_ns += PATIENCE_NS
    assert not sampled.shows(3)
    sampled.now_ns += 1
    assert sampled.shows(3)


def test_one_interruption_hides_nobody() -> None:
    sampled = Sampled()
    sampled.shown()
    sampled.sample.narrow(sampled.now_ns)
    sampled.now_ns += AGAIN_NS + 1
    sampled.sample.narrow(sampled.now_ns)
    assert sampled.sample.most is None


def test_who_is_too_slow_is_shown_fewer_and_never_none() -> None:
    sampled = Sampled()
    sampled.shown()
    counts = []
    for _ in range(7):
        sampled.lose(2)
        counts.append(len(sampled.shown(states=True)))
    assert counts[0] < 10
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1


def test_a_single_session_is_always_shown() -> None:
    sampled = Sampled(1)
    sampled.shown()
    sampled.lose(5)
    assert sampled.shown() == [0]


def test_all_have_their_turn_and_begin_with_their_state() -> None:
    sampled = Sampled()
    sampled.shown()
    sampled.lose(5)
    turns: Counter[int] = Counter()
    before = set(sampled.shown(states=True))
    for _ in range(40):
        sampled.lose(1)
        sampled.now_ns += TURN_NS
        assert set(sampled.shown()) <= before
        before = set(sampled.shown(states=True))
        turns.update(before)
    assert set(turns) == set(range(10))
    assert max(turns.values()) - min(turns.values()) <= 2


def test_those_of_the_last_turn_are_shown_until_the_next_are_known() -> None:
    sampled = Sampled()
    sampled.shown()
    sampled.lose(8)
    (before,) = sampled.shown(states=True)
    sampled.now_ns += TURN_NS
    sampled.shown()
    sampled.now_ns += TURN_NS
    assert sampled.shown() == [before]
    (after,) = sampled.sample._shown
    assert after.number != before
    sampled.shows(after.number, STATE)
    assert sampled.shown() == [after.number]


def test_all_are_shown_again_once_little_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_sample, "FEW", 500)
    sampled = Sampled()
    sampled.shown()
    sampled.lose(8)
    assert sampled.sample.most == 1
    sampled.shown()
    sampled.now_ns += TURN_NS + 1
    sampled.shown(states=True)
    assert sampled.sample.most is None
    assert sampled.shown() == list(range(10))


def test_more_are_shown_again_without_a_loss() -> None:
    sampled = Sampled()
    sampled.shown()
    sampled.lose(8)
    for _ in range(30):
        sampled.now_ns += WIDENED_NS + 1
        sampled.shown(states=True)
    assert sampled.sample.most is None
    sampled.shown(states=True)
    assert sampled.shown() == list(range(10))


def test_the_beginning_and_the_end_are_always_shown_and_nothing_is_kept_of_the_ended() -> None:
    sampled = Sampled()
    sampled.shown()
    sampled.lose(8)
    hidden = next(number for number in range(10) if number not in sampled.shown(states=True))
    assert sampled.shows(hidden, b"AMQP")
    for number in range(10):
        assert sampled.shows(number, "client closed")
    sample = sampled.sample
    assert [len(each) for each in (sample._torn, sample._active, sample._shown, sample._leaving, sample._turns)] == [
        0
    ] * 5


def test_an_end_that_was_missed_leaves_nothing() -> None:
    sampled = Sampled()
    sampled.sample.miss(sampled.entry(3))
    sampled.sample.miss(sampled.entry(3, "client closed"))
    assert not sampled.sample._torn
