"""Shared connections are shown to recorders from their beginning, or from the moment at which a recorder comes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.shared_legs import AT_UPSTREAM, SharedLeg, SharedLegs
from amqproxy.taps.tap import TappedSession

BEAT = [Frame(HEARTBEAT_FRAME)]


class Shown:
    """A tap that notes what it is shown, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.seen: list[Any] = []
        self._fails = fails

    def saw_shared(self, leg: TappedSession, header: bytes = b"") -> None:
        self.seen.append(("shared", leg.number, leg.upstream_name, header))

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        if self._fails:
            raise ValueError("broken")
        assert note is AT_UPSTREAM
        self.seen.append((sender, len(frames)))

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self.seen.append(("end", reason))


def test_a_connection_is_shown_from_its_login_to_its_end() -> None:
    legs, tap = SharedLegs(), Shown()
    legs.add(tap, lambda error: None)
    leg = SharedLeg(legs, "p:1-b:2")
    leg.begin(HEADER, [(SERVER, BEAT), (CLIENT, BEAT)])
    leg.show(SERVER, BEAT)
    leg.show(SERVER, [])
    leg.end("closed by the broker")
    assert tap.seen == [
        ("shared", 1, "p:1-b:2", HEADER),
        (SERVER, 1),
        (CLIENT, 1),
        (SERVER, 1),
        ("end", "closed by the broker"),
    ]


def test_a_recorder_that_comes_later_sees_the_rest() -> None:
    legs, tap = SharedLegs(), Shown()
    leg = SharedLeg(legs, "")
    leg.begin(HEADER, [(SERVER, BEAT)])
    assert not leg.is_shown
    legs.add(tap, lambda error: None)
    assert leg.is_shown
    leg.show(CLIENT, BEAT)
    legs.remove(tap)
    leg.show(CLIENT, BEAT)
    leg.end("closed")
    assert tap.seen == [("shared", 1, "", b""), (CLIENT, 1)]


def test_connections_have_numbers_of_their_own() -> None:
    legs = SharedLegs()
    assert [SharedLeg(legs, "").number for _ in range(3)] == [1, 2, 3]


def test_a_recorder_that_fails_harms_no_other() -> None:
    legs, broken, tap = SharedLegs(), Shown(fails=True), Shown()
    failures: list[str] = []
    legs.add(broken, lambda error: failures.append(str(error)))
    legs.add(tap, lambda error: None)
    leg = SharedLeg(legs, "")
    leg.begin(HEADER, [])
    for _ in range(2):
        leg.show(CLIENT, BEAT)
    leg.end("closed")
    assert failures == ["broken"]
    assert tap.seen[1:] == [(CLIENT, 1), (CLIENT, 1), ("end", "closed")]


def test_a_tap_that_was_removed_is_not_kept() -> None:
    """A connection may live for days, and each recording has a tap of its own."""
    legs, tap = SharedLegs(), Shown()
    legs.add(tap, lambda error: None)
    leg = SharedLeg(legs, "")
    leg.begin(HEADER, [])
    legs.remove(tap)
    left = weakref.ref(tap)
    del tap
    gc.collect()
    assert left() is None
    leg.end("closed")
