"""A recording that begins in the middle of a connection, with its state, is read as the whole one is from there on."""

from __future__ import annotations

import io
from collections.abc import Iterable

import msgspec
import pytest

from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.session_trace import SessionTrace
from tests.recording.joined import SAID, publish, recorded, written
from tests.taps.sessions import Session


def messages(found: Iterable[object]) -> list[tuple[object, ...]]:
    """The messages with an outcome: what they are, and what became of them."""
    return [
        (each.type, each.routing_key, each.queue, each.size, str(each.outcome))
        for each in found
        if isinstance(each, MessageRecord) and each.type in ("publish", "deliver")
    ]


def read(data: bytes) -> list[object]:
    return list(observed(read_decoded(io.BytesIO(data)), ObserverSettings(findings=True)))


@pytest.mark.parametrize("since", range(8, len(SAID) - 2))
def test_messages_after_the_join_are_as_in_the_whole(since: int) -> None:
    whole, part = messages(read(recorded(0))), messages(read(recorded(since)))
    assert part
    assert part == whole[len(whole) - len(part) :]
    assert not any("unknown" in each for each in part)


def test_nothing_is_found_for_what_came_before() -> None:
    whole = {each.kind for each in read(recorded(0)) if isinstance(each, Finding)}
    for since in range(8, len(SAID)):
        assert {each.kind for each in read(recorded(since)) if isinstance(each, Finding)} <= whole


def test_an_impossible_state_is_ignored() -> None:
    session, queue = Session(), EntryQueue(1_000_000)
    tap = RecorderTap(queue, lambda session, size: None, lambda frames: None)
    state = SessionTrace().snapshot(0)
    for wrong in (
        msgspec.structs.replace(state, protocol="0-10"),
        msgspec.structs.replace(state, protocol="none"),
        msgspec.structs.replace(state, ts_ns=-1),
    ):
        tap.saw_snapshot(session, wrong)
        tap.saw_frames(session, CLIENT, every_frame(publish("k", 1), 0))
    assert read(written(queue))
