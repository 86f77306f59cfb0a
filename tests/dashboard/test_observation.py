"""What a dashboard observes of connections of AMQP 0-10."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from amqproxy.amqp010.frame import BODY
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.taps.observer import ObserverSettings
from dashboard.capture_source import CaptureSource
from dashboard.message_selection import MessageSelection
from tests.amqp010.recorded import FOLDER


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
