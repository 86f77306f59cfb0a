"""All detectors that see the connections of a run, or of a capture, together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from amqproxy.taps.findings.connection_churn import ConnectionPerMessage
from amqproxy.taps.findings.consumer_cancelled import ConsumerCancelled
from amqproxy.taps.findings.finding import Finding, RecordNumber
from amqproxy.taps.findings.process_detector import ConnectionPlace, ProcessDetector, ProcessHandler, Sighting
from amqproxy.taps.findings.unconsumed_queue import UnconsumedQueue
from amqproxy.taps.trace.events import TraceEvent

PROCESS_DETECTORS: tuple[type[ProcessDetector], ...] = (ConnectionPerMessage, ConsumerCancelled, UnconsumedQueue)


class ProcessInspector:
    """All process detectors, and their findings."""

    def __init__(self) -> None:
        self._detectors = [each() for each in PROCESS_DETECTORS]
        self._handlers: dict[type[TraceEvent], list[tuple[ProcessDetector, ProcessHandler]]] = {}
        for detector in self._detectors:
            for kind, handler in detector.handlers.items():
                self._handlers.setdefault(kind, []).append((detector, handler))

    def inspect(
        self, connection: ConnectionPlace, events: Iterable[TraceEvent], record: RecordNumber | None = None
    ) -> list[Finding]:
        """Return the findings in these events of a connection; `record` is the frame that completed them."""
        findings: list[Finding] = []
        for event in events:
            for detector, handler in self._handlers.get(type(event), ()):
                sightings = handler(detector, connection, event, record) or ()
                findings += [_finding(detector, each, event.ts_ns) for each in sightings]
        return findings

    def look(self, now_ns: int) -> list[Finding]:
        """Return the findings that are due by the passage of time alone."""
        return [_finding(detector, each, now_ns) for detector in self._detectors for each in detector.look(now_ns)]


def _finding(detector: ProcessDetector, sighting: Sighting, ts_ns: int) -> Finding:
    connection = sighting.connection
    own = connection.stream
    return Finding(
        ts_ns=ts_ns if sighting.ts_ns is None else sighting.ts_ns,
        stream=own,
        connection=connection.name,
        channel=sighting.channel,
        kind=detector.kind,
        severity=detector.severity,
        text=sighting.text,
        count=sighting.times,
        evidence=tuple(
            msgspec.structs.replace(each, stream=None) if each.stream == own else each for each in sighting.evidence
        ),
        why=detector.why,
        remedy=detector.remedy,
    )
