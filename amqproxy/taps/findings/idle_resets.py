"""Connections that something between the peers has dropped since nothing passed for a while."""

from __future__ import annotations

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.ends import is_reset
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import ConnectionClosed


class IdleReset(Detector):
    """A connection without heartbeats was reset after nothing had passed for a while."""

    kind = "idle-reset"
    severity = Severity.WARNING
    why = "Firewalls and load balancers forget idle connections; the next frame is answered with RST, or with nothing."
    remedy = "Leave heartbeats on, with an interval below half of their idle timeout (often 60 s to 350 s)."

    @on(ConnectionClosed)
    def _on_closed(self, event: ConnectionClosed) -> str | None:
        trace = self.observed.trace
        if not is_reset(event) or not event.is_open or trace.facts.heartbeat != 0:
            return None
        pause_ns = trace.activity.pause_ns(event.ts_ns)
        return f"reset after nothing had passed for {pause_ns / 1e9:.0f} s; heartbeats are off" if pause_ns else None
