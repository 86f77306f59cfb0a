"""The dashboard's observation of 0-10 connections."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from amqproxy.amqp010.frame import BODY
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import DecodedFrames, SkippedBytes
from amqproxy.capture.observed import Observers, observed
from amqproxy.capture.unreadable_bytes import MISSING
from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.dashboard.message_selection import MessageSelection
from amqproxy.dashboard.observation import Observation
from amqproxy.dashboard.ring_entry import RingEntry
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings
from tests.amqp010.recorded import FOLDER

CAPTURES = Path(__file__).parents[2] / "captures"


def source_of(name: str) -> tuple[CaptureSource, Path]:
    (path,) = FOLDER.glob(f"{name}.pcap*")
    source = CaptureSource(1, path, 1 << 24, lambda: None)
    asyncio.run(source.run())
    return source, path


def test_messages_of_0_10_are_those_of_their_trace() -> None:
    source, path = source_of("brokerj9.2__jms-010-tx")
    rows = list(source.observed.messages.rows.values())
    reports = observed(read_decoded(path), ObserverSettings())
    plain = [json.loads(each.to_json()) for each in reports]
    shown = [json.loads(row.json) for row in rows]
    for each in (*plain, *shown):
        each.pop("body", None)
    assert shown == plain
    (seen,) = source.observed.connections.seen.values()
    assert seen.protocol == "0-10"
    assert seen.frames == sum(len(each.frames) for each in read_decoded(path) if hasattr(each, "frames"))
    assert source.ring.next_seq == 2 + seen.frames  # the protocol headers


def test_messages_of_0_10_are_linked_to_the_row_of_their_frame() -> None:
    source, _ = source_of("brokerj9.2__jms-010-tx")
    for row in source.observed.messages.rows.values():
        if row.content is not None and row.content.method.name == "message.transfer":
            entry = source.ring.entry_of(row.frame)
            assert entry is not None
            assert isinstance(entry.decoded, Amqp010DecodedFrames)
            sizes = [frame.size for frame in entry.decoded.frames if frame.kind == BODY]
            assert not row.content.size or row.content.size in sizes


def test_messages_of_0_10_are_filtered() -> None:
    source, _ = source_of("brokerj9.2__jms-010-tx")
    selection = MessageSelection('method == "message.transfer" && routing_key == "jms.tx" && sender == "client"')
    chosen = [row for row in source.observed.messages.rows.values() if selection.shows(row)]
    assert [row.outcome for row in chosen if row.type == "publish"] == ["committed"] * 3 + ["rolled back"] * 2
    assert not any(row.type in ("deliver", "request") for row in chosen)


def test_what_went_wrong_is_found() -> None:
    source, _ = source_of("brokerj9.2__jms-010-errors")
    assert source.observed.kinds["channel-error"] == 8
    assert source.observed.kinds["login-refused"] == 2


@pytest.mark.parametrize("name", ["confirms", "every-type"])
def test_losses_and_ends_are_shown_as_to_readers(name: str) -> None:
    """Each entry in turn is lost on the way: what is known afterwards is what any reader of the rest knows."""
    whole = [each for each in read_decoded(CAPTURES / f"{name}.pcapng") if getattr(each, "leg", "") != "upstream"]
    for place, lost in enumerate(whole):
        if not isinstance(lost, DecodedFrames):
            continue
        gap = SkippedBytes(
            lost.ts_ns, lost.stream, lost.connection, lost.sender, "0-9-1", MISSING, None, 100, leg=lost.leg
        )
        decoded = [*whole[:place], gap, *whole[place + 1 :]]
        observation = Observation(1 << 24, is_live=True)
        for seq, each in enumerate(decoded):
            observation.take(RingEntry(seq, 1, 0.0, each, 0))
        observers = Observers(ObserverSettings(), is_live=True)
        reports = [report for each in decoded for report in observers.feed(each)]
        plain = [json.loads(each.to_json()) for each in reports if isinstance(each, MessageRecord)]
        shown = [json.loads(row.json) for row in observation.messages.rows.values()]
        for each in (*plain, *shown):
            each.pop("body", None)
        assert shown == [each for each in plain if each["type"] != "error"], place
