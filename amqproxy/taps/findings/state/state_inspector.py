"""All detectors that see the state of the proxy."""

from __future__ import annotations

from collections import Counter

from amqproxy.taps.findings.finding import NO_CONNECTION, Finding
from amqproxy.taps.findings.state.expiring_certificate import ExpiringCertificate
from amqproxy.taps.findings.state.failed_renewal import FailedRenewal
from amqproxy.taps.findings.state.flapping_member import FlappingMember
from amqproxy.taps.findings.state.full_login_queue import FullLoginQueue
from amqproxy.taps.findings.state.proxy_state import ProxyState
from amqproxy.taps.findings.state.state_detector import StateDetector, StateSighting

STATE_DETECTORS: tuple[type[StateDetector], ...] = (ExpiringCertificate, FailedRenewal, FlappingMember, FullLoginQueue)

MAX_SUBJECTS = 10_000
"""Upstreams, members and files whose findings are counted; names of members may change without end."""


class StateInspector:
    """All state detectors, and the counts of their findings by subject."""

    def __init__(self) -> None:
        self._detectors = [each() for each in STATE_DETECTORS]
        self._counts: Counter[tuple[str, str]] = Counter()

    def look(self, state: ProxyState, now_ns: int) -> list[Finding]:
        """Return the findings in the state of the proxy at a time, in nanoseconds since 1970."""
        return [
            finding
            for detector in self._detectors
            for sighting in detector.look(state, now_ns / 1e9)
            for finding in self._findings(detector, sighting, now_ns)
        ]

    def _findings(self, detector: StateDetector, sighting: StateSighting, now_ns: int) -> list[Finding]:
        """Count a sighting, and return a finding for each power of ten that the count has reached."""
        key = detector.kind, sighting.subject
        if key not in self._counts and len(self._counts) >= MAX_SUBJECTS:
            self._counts.clear()
        before = self._counts[key]
        self._counts[key] += sighting.times
        reached, counts = 1, []
        while reached <= self._counts[key]:
            if reached > before:
                counts.append(reached)
            reached *= 10
        return [
            Finding(
                ts_ns=now_ns,
                stream=NO_CONNECTION,
                connection=sighting.subject,
                kind=detector.kind,
                severity=detector.severity,
                text=sighting.text,
                count=count,
                why=detector.why,
                remedy=detector.remedy,
            )
            for count in counts
        ]
