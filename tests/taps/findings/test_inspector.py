"""Findings as a whole: every kind is documented, and what repeats is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.taps.findings.detector import Detector, ObservedConnection
from amqproxy.taps.findings.finding import Finding, RecordNumber, Severity
from amqproxy.taps.findings.inspector import DETECTORS, Inspector
from amqproxy.taps.findings.leaked_channels import MANY as MANY_CHANNELS
from amqproxy.taps.findings.process_detector import ProcessDetector
from amqproxy.taps.findings.process_inspector import PROCESS_DETECTORS
from amqproxy.taps.findings.state.state_detector import StateDetector
from amqproxy.taps.findings.state.state_inspector import STATE_DETECTORS
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot, HandshakeSnapshot
from tests.taps.findings.inspected import Inspected
from tests.taps.trace.traced import Traced, frames_of

PAGE = Path(__file__).parents[3] / "docs" / "findings.md"


def leaves(base: type[Detector]) -> Iterator[type[Detector]]:
    """The detectors below this one that are the base of no others."""
    for each in base.__subclasses__():
        yield from leaves(each) if each.__subclasses__() else (each,)


def test_every_kind_is_in_the_documentation() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    every = [*DETECTORS, *PROCESS_DETECTORS, *STATE_DETECTORS]
    assert rows == sorted({(each.kind, str(each.severity)) for each in every})
    assert set(DETECTORS) == set(leaves(Detector))
    assert set(PROCESS_DETECTORS) == set(ProcessDetector.__subclasses__())
    assert set(STATE_DETECTORS) == set(StateDetector.__subclasses__())


def test_each_says_why_and_what_to_do_in_sentences() -> None:
    for each in (*DETECTORS, *PROCESS_DETECTORS):
        assert each.why.endswith("."), each
        assert each.remedy.endswith("."), each
        assert len(each.handlers) > 0, each
    for kind in STATE_DETECTORS:
        assert kind.why.endswith("."), kind
        assert kind.remedy.endswith("."), kind


def test_what_repeats_is_reported_at_powers_of_ten() -> None:
    traced = Traced(1)
    inspector = Inspector(7, "a:1-b:2", ObservedConnection(traced.trace))
    findings = [
        finding for tag in range(1, 151) for finding in inspector.inspect(traced.client(BasicAck(delivery_tag=tag)))
    ]
    assert [each.count for each in findings] == [1, 10, 100]
    first = findings[0]
    assert (first.stream, first.connection, first.channel) == (7, "a:1-b:2", 1)
    assert (first.kind, first.severity) == ("unknown-ack", Severity.ERROR)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_what_is_found_does_not_depend_on_what_is_read_together(size: int) -> None:
    """The tag is open on the other channel when it is acked on the wrong one, though not any more after the read."""
    inspected = Inspected(1, 2)
    inspected.consuming()
    inspected.server(*[BasicDeliver("c", tag, False, "e", "k") for tag in (1, 2)])
    frames = [frame for channel in (2, 1) for frame in frames_of(channel, BasicAck(2, multiple=True))]
    for start in range(0, len(frames), size):
        inspected.trace.feed(CLIENT, frames[start : start + size], inspected.ts_ns)
    (finding,) = inspected.findings
    assert finding.kind == "ack-on-wrong-channel"
    assert finding.evidence == (RecordNumber("client", 8),)  # after start-ok, tune-ok, open, 2 x open, qos, consume


def test_evidence_counts_the_frames_of_each_peer_without_heartbeats() -> None:
    inspected = Inspected()
    inspected.client(ChannelOpen())
    inspected.trace.feed(SERVER, [Frame(HEARTBEAT_FRAME)] * 3, inspected.ts_ns)
    inspected.server(ChannelOpenOk())
    inspected.client(BasicPublish(), properties=Properties(delivery_mode=2), body=bytes(1500))
    inspected.server(ChannelClose(404, "NOT_FOUND"))
    assert [(each.kind, each.evidence) for each in inspected.findings] == [
        ("unconfirmed-publish", (RecordNumber("client", 8),)),
        ("channel-error", (RecordNumber("server", 5),)),
    ]
    assert b'"evidence":[{"from":"client","number":8}]' in inspected.findings[0].to_json()


def test_what_ends_with_no_frame_has_no_evidence() -> None:
    inspected = Inspected(1)
    inspected.trace.end(inspected.ts_ns, "missed heartbeats")
    assert [(each.kind, each.evidence) for each in inspected.findings] == [("missed-heartbeats", ())]


def test_a_finding_is_json() -> None:
    traced = Traced(1)
    inspector = Inspector(7, "a:1-b:2", ObservedConnection(traced.trace))
    (finding,) = inspector.inspect(traced.server(ConnectionClose(320, "missed heartbeats from client"), channel=0))
    assert isinstance(finding, Finding)
    assert b'"kind":"missed-heartbeats","severity":"error"' in finding.to_json()


def test_severities_have_an_order() -> None:
    assert sorted(Severity, key=lambda each: each.rank) == [Severity.INFO, Severity.WARNING, Severity.ERROR]


def restored(snapshot: ConnectionSnapshot) -> Inspected:
    """A connection that was joined with a snapshot."""
    inspected = Inspected(joined=True)
    inspected.client(BasicPublish(), channel=9)
    inspected.gap(CLIENT)
    inspected.trace.restore(msgspec.structs.replace(snapshot, ts_ns=inspected.ts_ns))
    return inspected


def test_detectors_take_the_state_of_a_snapshot() -> None:
    channels = tuple(ChannelSnapshot(number=number, mode="confirm") for number in range(1, MANY_CHANNELS))
    inspected = restored(
        ConnectionSnapshot(
            ts_ns=0,
            protocol="0-9-1",
            handshake=HandshakeSnapshot(heartbeat=0),
            blocked_since_ns=1,
            channels=channels,
        )
    )
    inspected.later(60)
    inspected.client(BasicPublish(), channel=1)
    assert inspected.kinds == ["publish-while-blocked", "publisher-heartbeats-off"]
    inspected.later(60)
    assert inspected.look() == [], "confirms are not due while the connection is blocked"
    inspected.client(ChannelOpen(), channel=200)
    inspected.server(ChannelOpenOk(), channel=200)
    assert inspected.kinds[2:] == ["leaked-channels"]


def test_detectors_begin_again_after_missed_frames() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionBlocked("memory"))
    inspected.gap(SERVER)
    inspected.later(60)
    inspected.client(BasicPublish())
    for number in range(2, MANY_CHANNELS):
        inspected.client(ChannelOpen(), channel=number)
        inspected.server(ChannelOpenOk(), channel=number)
    inspected.gap(CLIENT)
    inspected.client(ChannelOpen(), channel=200)
    inspected.server(ChannelOpenOk(), channel=200)
    assert inspected.kinds == []


def test_publishes_that_a_snapshot_does_not_have_may_be_confirmed_meanwhile() -> None:
    snapshot = ConnectionSnapshot(
        ts_ns=0,
        protocol="0-9-1",
        channels=(ChannelSnapshot(number=1, mode="confirm", published=9, has_forgotten=True),),
    )
    inspected = restored(snapshot)
    inspected.client(BasicPublish())
    inspected.later(60)
    assert inspected.look() == []
    inspected = restored(msgspec.structs.replace(snapshot, channels=(ChannelSnapshot(number=1, mode="confirm"),)))
    inspected.client(BasicPublish())
    inspected.later(60)
    assert len(inspected.look()) == 1
