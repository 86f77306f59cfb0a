"""When each peer of a connection last sent anything."""

from __future__ import annotations

from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.trace.activity import Activity

SECOND = 1_000_000_000


def test_the_silence_of_each_peer() -> None:
    activity = Activity()
    assert activity.silence_ns(CLIENT, 5) == 0
    activity.note(CLIENT, 10)
    activity.note(SERVER, 30)
    assert (activity.silence_ns(CLIENT, 50), activity.silence_ns(SERVER, 50)) == (40, 20)


def test_a_pause_that_lasts() -> None:
    activity = Activity()
    activity.note(CLIENT, 0)
    activity.note(SERVER, 1)
    assert activity.pause_ns(59 * SECOND) == 0
    assert activity.pause_ns(61 * SECOND + 1) == 61 * SECOND


def test_a_pause_that_was_not_answered() -> None:
    activity = Activity()
    activity.note(SERVER, 0)
    activity.note(CLIENT, 100 * SECOND)
    assert activity.pause_ns(101 * SECOND) == 100 * SECOND
    activity.note(SERVER, 102 * SECOND)
    assert activity.pause_ns(103 * SECOND) == 0


def test_after_missed_frames_nobody_was_silent() -> None:
    activity = Activity()
    activity.note(SERVER, 0)
    activity.note(CLIENT, 100 * SECOND)
    activity.forget()
    assert (activity.silence_ns(SERVER, 200 * SECOND), activity.pause_ns(200 * SECOND)) == (0, 0)
