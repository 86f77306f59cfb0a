"""Certificates that have expired, or soon will."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.state.proxy_state import ProxyState
from amqproxy.taps.findings.state.state_detector import StateDetector, StateSighting

DAY = 86_400.0

NOTICE = 14 * DAY
"""Remaining seconds of a certificate at which warnings begin; renewal by ACME begins a month before the end."""

REMINDER = DAY
"""Seconds between two findings about the same certificate."""


class ExpiringCertificate(StateDetector):
    """A certificate that the proxy uses, or the authority of one, expires within two weeks."""

    kind = "certificate-expires"
    severity = Severity.WARNING
    why = "From then on, each TLS handshake with it fails: clients, or the broker, cannot be connected."
    remedy = (
        "Replace the file, and see why its renewal has not: a replaced file is read within a minute, at no restart."
    )

    def __init__(self) -> None:
        self._told: dict[tuple[str, float], float] = {}

    def look(self, state: ProxyState, now: float) -> Iterator[StateSighting]:
        due = {each for each in state.certificates.items() if each[1] - now <= NOTICE}
        self._told = {each: at for each, at in self._told.items() if each in due}
        for file, end in sorted(due):
            if now - self._told.get((file, end), -REMINDER) < REMINDER:
                continue
            self._told[file, end] = now
            days = abs(end - now) / DAY
            yield StateSighting(
                file, f"{file} expires in {days:.1f} days" if end > now else f"{file} has expired {days:.1f} days ago"
            )
