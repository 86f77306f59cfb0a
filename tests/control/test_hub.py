"""Traffic of sessions, shown to taps that come and go."""

from __future__ import annotations

from collections.abc import Sequence

from structlog.testing import capture_logs

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.control.hub import Hub
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.tap import Tap, TappedSession
from tests.proxy.recording_tap import Audience
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Failing(Audience):
    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        super().saw_frames(session, sender, frames, note)
        raise ZeroDivisionError


PUBLISH = frames_of(1, BasicPublish())[:1]


def test_sessions_are_tapped_only_while_there_is_a_tap() -> None:
    applied: list[Tap | None] = []
    hub = Hub(None, applied.append)
    one, other = Audience(), Audience()
    hub.add(one)
    hub.add(other)
    hub.remove(one)
    assert applied == [hub]
    hub.remove(other)
    hub.remove(other)
    assert applied == [hub, None]


def test_the_proxys_own_tap_stays() -> None:
    applied: list[Tap | None] = []
    own, added = Audience(), Audience()
    hub = Hub(own, applied.append)
    hub.add(added)
    hub.saw_frames(Session(), CLIENT, PUBLISH)
    hub.remove(added)
    hub.saw_frames(Session(), CLIENT, PUBLISH)
    assert applied == [hub, own]
    assert (len(own.seen), len(added.seen)) == (2, 1)


def test_all_taps_see_everything() -> None:
    taps = [Audience(), Audience()]
    hub = Hub(None, lambda tap: None)
    for tap in taps:
        hub.add(tap)
    hub.saw_protocol_header(Session(), b"AMQP")
    hub.saw_frames(Session(), CLIENT, PUBLISH)
    hub.saw_violation(Session(), CLIENT, FrameError("too large"))
    hub.saw_end(Session(), "over")
    assert taps[0].seen == taps[1].seen == ["c:1-p:2 b'AMQP'", "client basic.publish", "client 501"]


def test_a_tap_that_fails_is_shown_no_more_and_no_other_notices() -> None:
    failing, other = Failing(), Audience()
    hub = Hub(None, lambda tap: None)
    hub.add(failing)
    hub.add(other)
    with capture_logs() as log:
        for _ in range(3):
            hub.saw_frames(Session(), CLIENT, PUBLISH)
    assert (len(failing.seen), len(other.seen)) == (1, 3)
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["tap failed"]


def test_where_the_proxys_own_fails_in_a_session_that_is_lost_for_it_and_for_no_other() -> None:
    own, added = Failing(), Audience()
    hub = Hub(own, lambda tap: None)
    hub.add(added)
    one, other = Session(), Session(8)
    with capture_logs() as log:
        for session in (one, one, other, other):
            hub.saw_frames(session, CLIENT, PUBLISH)
    assert (len(own.seen), len(added.seen)) == (2, 4)
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["tap failed"] * 2


def test_who_added_a_tap_is_told_that_it_failed() -> None:
    failures: list[Exception] = []
    applied: list[Tap | None] = []
    hub = Hub(None, applied.append)
    failing = Failing()
    with capture_logs():
        for _ in range(2):
            hub.add(failing, failures.append)
            hub.saw_frames(Session(), CLIENT, PUBLISH)
            hub.saw_frames(Session(), CLIENT, PUBLISH)
    assert [type(each) for each in failures] == [ZeroDivisionError] * 2
    assert applied == [hub, None] * 2
