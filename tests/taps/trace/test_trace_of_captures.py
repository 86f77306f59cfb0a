"""What comes out of traces of real traffic agrees with its frames, and with itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, Peer
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import DecodedProtocolHeader, SkippedBytes
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import (
    ChannelClosed,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    Settlement,
    TraceEvent,
)
from tests.capture import golden, shared_captures
from tests.capture.records import read_records

CAPTURES = [*golden.captures(), *shared_captures.files()]
CONTENTS = ("basic.publish", "basic.deliver", "basic.get-ok", "basic.return")
OPEN_ENDED = (Settlement.OPEN, Settlement.UNKNOWN, Settlement.RECOVERED)


def traced(path: Path) -> dict[int, list[TraceEvent]]:
    """The events of each connection of AMQP 0-9-1."""
    traces: dict[int, Trace] = {}
    events: dict[int, list[TraceEvent]] = {}
    ts_ns = 0
    for each in read_decoded(path):
        if isinstance(each, DecodedProtocolHeader) and each.protocol != NAME:
            continue
        ts_ns = each.ts_ns
        trace = traces.setdefault(each.stream, Trace())
        found = events.setdefault(each.stream, [])
        if isinstance(each, Amqp091DecodedFrames):
            found += trace.feed(Peer(each.sender), each.frames, each.ts_ns)
        elif isinstance(each, DecodedProtocolHeader) and each.sender == CLIENT:
            trace.feed_protocol_header(each.ts_ns)
        elif isinstance(each, SkippedBytes):
            found += trace.gap(Peer(each.sender), each.ts_ns, each.reason)
    for stream, trace in traces.items():
        events[stream] += trace.end(ts_ns, "the capture ends")
    return events


def counted(path: Path) -> dict[int, Counter[str]]:
    """What the frames of each connection hold, by the names of methods; contents count once they are whole."""
    counts: dict[int, Counter[str]] = {}
    contents: dict[Any, tuple[str, int]] = {}
    for record in read_records(path):
        place = record.stream, record.channel, record.sender
        count = counts.setdefault(record.stream, Counter())
        if record.type == "method" and record.method is not None:
            contents.pop(place, None)
            if record.method in CONTENTS:
                contents[place] = record.method, -1
            if record.method not in CONTENTS or record.method == "basic.get-ok":
                name = record.method
                count[f"{record.sender} {name}" if name in ("basic.ack", "basic.nack") else name] += 1
        elif record.type == "header" and place in contents:
            contents[place] = contents[place][0], int((record.arguments or {})["body_size"])
        elif record.type == "body" and place in contents:
            method, left = contents[place]
            contents[place] = method, left - (record.size or 0)
        if place in contents and contents[place][1] == 0:
            count[f"whole {contents.pop(place)[0]}"] += 1
    return counts


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_events_agree_with_the_frames(path: Path) -> None:
    events, counts = traced(path), counted(path)
    for stream, found in events.items():
        count = counts.get(stream, Counter())
        if any(isinstance(each, HistoryLost) for each in found):
            continue
        kinds = Counter(type(each) for each in found)
        assert kinds[MessagePublished] == count["whole basic.publish"]
        assert kinds[MessageDelivered] == count["whole basic.deliver"] + count["whole basic.get-ok"]
        assert kinds[MessageReturned] == count["whole basic.return"]
        assert kinds[ChannelClosed] == count["channel.close"]
        assert kinds[RequestAnswered] == sum(count[reply] for reply in ANSWERS)
        acks = [each for each in found if isinstance(each, DeliveriesSettled) and each.outcome not in OPEN_ENDED]
        assert len(acks) == count["client basic.ack"] + count["client basic.nack"] + count["basic.reject"]
        confirms = [
            each
            for each in found
            if isinstance(each, PublishesSettled) and each.outcome in (Settlement.CONFIRMED, Settlement.NACKED)
        ]
        assert len(confirms) == count["server basic.ack"] + count["server basic.nack"]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_each_message_that_awaits_something_is_settled_once(path: Path) -> None:
    for events in traced(path).values():
        published = sum(bool(each.awaits) for each in events if isinstance(each, MessagePublished))
        delivered = sum(each.awaits is not False for each in events if isinstance(each, MessageDelivered))
        assert published == settled(events, PublishesSettled)
        assert delivered == settled(events, DeliveriesSettled)


def settled(events: list[TraceEvent], kind: type[PublishesSettled | DeliveriesSettled]) -> int:
    return sum(span.count for each in events if isinstance(each, kind) for span in each.spans)


def test_there_are_captures() -> None:
    assert len(CAPTURES) >= 20
