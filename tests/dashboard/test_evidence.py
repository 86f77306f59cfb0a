"""Evidence of findings names the commands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.dashboard.evidence import packets_of, shown_finding
from amqproxy.dashboard.ring import Ring
from tests.dashboard.conftest import Dashboard
from tests.taps.trace.amqp010.traced import frames_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "capture", ["channel-error", "confirms.ports-reused", "kombu-table", "brokerj9.2__jms-010-errors"]
)
def test_the_evidence_has_the_method_of_its_command(dashboard: Dashboard, capture: str) -> None:
    client = dashboard(capture)
    rows = client.get("/api/v1/sources/0/findings").json()["rows"]
    shown = [client.get(f"/api/v1/sources/0/findings/{row['seq']}").json() for row in rows]
    evidence = [each for finding in shown for each in finding.get("evidence", ()) if "seq" in each]
    assert evidence
    for each in evidence:
        command: dict[str, Any] = each["command"]
        frame = client.get(f"/api/v1/sources/0/frames/{each['seq']}").json()["record"]
        assert "." in command["method"]
        assert command["seq"] <= each["seq"]
        assert [command[name] for name in ("stream", "from", "channel")] == [
            frame[name] for name in ("stream", "from", "channel")
        ]
        if "method" in frame:
            assert command == frame
    assert client.get("/api/v1/sources/0/findings/999").status_code == 404


def test_a_control_between_the_frames_of_a_command_is_not_its_command() -> None:
    transfer = frames_of(1, MessageTransfer("amq.direct"), Header((DeliveryProperties(routing_key="k"),)), b"hello")
    control = frames_of(1, SessionCompleted(SequenceSet([(0, 0)])))
    ring = Ring(1 << 20)
    for frames in (transfer[:-1], [*control, transfer[-1]]):
        ring.append(Amqp010DecodedFrames(0, 0, "a-b", "client", frames, command_ids=[None] * len(frames)))
    finding = {"evidence": [{"seq": len(transfer)}, {"seq": len(transfer) - 1}, {"seq": 99}, {}]}
    shown = shown_finding(finding, packets_of(finding, ring))["evidence"]
    commands = [msgspec.json.decode(each["command"])["method"] for each in shown if "command" in each]
    assert commands == ["message.transfer", "session.completed"]
