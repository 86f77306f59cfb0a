"""Findings as a whole: every kind is documented, and what repeats is counted."""

from __future__ import annotations

import re
from pathlib import Path

from amqproxy.amqp091.methods import BasicAck, ConnectionClose
from amqproxy.taps.findings.detector import Detector, ObservedConnection
from amqproxy.taps.findings.finding import Finding, Severity
from amqproxy.taps.findings.inspector import DETECTORS, Inspector
from tests.taps.trace.traced import Traced

PAGE = Path(__file__).parents[3] / "docs" / "findings.md"


def test_every_kind_is_in_the_documentation() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)
    assert rows == sorted((each.kind, str(each.severity)) for each in DETECTORS)
    assert set(DETECTORS) == set(Detector.__subclasses__())


def test_each_says_why_and_what_to_do_in_sentences() -> None:
    for each in DETECTORS:
        assert each.why.endswith("."), each
        assert each.remedy.endswith("."), each
        assert len(each.handlers) > 0, each


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


def test_a_finding_is_json() -> None:
    traced = Traced(1)
    inspector = Inspector(7, "a:1-b:2", ObservedConnection(traced.trace))
    (finding,) = inspector.inspect(traced.server(ConnectionClose(320, "missed heartbeats from client"), channel=0))
    assert isinstance(finding, Finding)
    assert b'"kind":"missed-heartbeats","severity":"error"' in finding.to_json()


def test_severities_have_an_order() -> None:
    assert sorted(Severity, key=lambda each: each.rank) == [Severity.INFO, Severity.WARNING, Severity.ERROR]
